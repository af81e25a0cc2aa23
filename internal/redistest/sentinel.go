package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const masterName = "holdfast"

// Sentinel is a primary with replicas, and the sentinels that watch them. A
// primary counts as down when it has not answered for a second.
type Sentinel struct {
	Nodes     []*Server // the primary and the replicas; which is which changes
	Sentinels []*Server
}

// StartSentinel starts a primary, its replicas and the sentinels, and returns
// when every sentinel knows all of the others and could fail over to any of
// the replicas. A majority of the sentinels must agree that a primary is down.
func StartSentinel(t testing.TB, replicas, sentinels int) *Sentinel {
	t.Helper()
	data := StartReplicated(t, replicas)
	s := &Sentinel{Nodes: append([]*Server{data.Primary}, data.Replicas...)}
	quorum := sentinels/2 + 1
	for range sentinels {
		cfg := newConfig([]Option{WithConfig(
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterName, data.Primary.port, quorum),
			"sentinel down-after-milliseconds "+masterName+" 1000",
			"sentinel failover-timeout "+masterName+" 3000",
			"sentinel parallel-syncs "+masterName+" 1",
		)})
		cfg.sentinel = true
		s.Sentinels = append(s.Sentinels, start(t, cfg))
	}
	s.AwaitRecovery(t)
	return s
}

// AwaitRecovery waits until every sentinel knows all of the others and could fail over to any of the replicas, as when
// it was started. All nodes must run.
func (s *Sentinel) AwaitRecovery(t testing.TB) {
	t.Helper()
	pollWithin(t, recoveryLimit, "the sentinels know each other and the replicas", func() error {
		for _, sentinel := range s.Sentinels {
			if err := s.recovered(sentinel); err != nil {
				return fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
			}
		}
		primary, err := s.agreed()
		if err != nil {
			return err
		}
		return online(primary, len(s.Nodes)-1)
	})
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// MasterName returns the name by which the sentinels know the primary.
func (s *Sentinel) MasterName() string { return masterName }

// Primary returns the primary that all sentinels which run agree on.
func (s *Sentinel) Primary(t testing.TB) *Server {
	t.Helper()
	var primary *Server
	poll(t, "the sentinels agree on a primary", func() (err error) {
		primary, err = s.agreed()
		return err
	})
	return primary
}

// Replicas returns the nodes other than [Sentinel.Primary].
func (s *Sentinel) Replicas(t testing.TB) []*Server {
	t.Helper()
	primary := s.Primary(t)
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n *Server) bool { return n == primary })
}

// Failover makes the first sentinel fail over to a replica although the primary
// is well. It returns the new primary, when all sentinels name it and it
// accepts writes. The old one goes on as a primary for some ten seconds more,
// until a sentinel makes it a replica.
func (s *Sentinel) Failover(t testing.TB) *Server {
	t.Helper()
	old := s.Primary(t)
	// Refused while a failover before this one is not over.
	poll(t, "a sentinel starts a failover", func() error {
		_, err := s.Sentinels[0].cli(cliLimit, "SENTINEL", "FAILOVER", masterName)
		return err
	})
	return s.WaitNewPrimary(t, old)
}

// KillPrimary kills the primary and returns it at once. The sentinels need
// more than a second to fail over; see [Sentinel.WaitNewPrimary].
func (s *Sentinel) KillPrimary(t testing.TB) *Server {
	t.Helper()
	old := s.Primary(t)
	old.Kill()
	return old
}

// WaitNewPrimary returns the new primary as soon as all sentinels which run
// name a node other than old and that node accepts writes.
func (s *Sentinel) WaitNewPrimary(t testing.TB, old *Server) *Server {
	t.Helper()
	var primary *Server
	poll(t, "there is a primary other than "+old.Addr(), func() (err error) {
		if primary, err = s.agreed(); err != nil {
			return err
		}
		if primary == old {
			return errors.New("the sentinels still name it")
		}
		return writable(primary)
	})
	return primary
}

// agreed returns the node that all sentinels which run name as the primary.
func (s *Sentinel) agreed() (*Server, error) {
	var named string
	for _, sentinel := range s.Sentinels {
		if !sentinel.Running() {
			continue
		}
		reply, err := sentinel.cli(pingLimit, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return nil, err
		}
		addr := strings.ReplaceAll(reply, "\n", ":")
		if named != "" && addr != named {
			return nil, fmt.Errorf("one sentinel names %s, another %s", named, addr)
		}
		named = addr
	}
	for _, node := range s.Nodes {
		if node.Addr() == named {
			return node, nil
		}
	}
	return nil, fmt.Errorf("%q is named, which is no node", named)
}

// recovered checks that a sentinel knows all the others and all the replicas,
// and that it sees nothing that would keep it from failing over.
func (s *Sentinel) recovered(sentinel *Server) error {
	replicas, others := len(s.Nodes)-1, len(s.Sentinels)-1
	checks := []struct {
		about, field string
		want         []string
	}{
		{"MASTER", "flags", []string{"master"}},
		{"MASTER", "num-slaves", []string{strconv.Itoa(replicas)}},
		{"MASTER", "num-other-sentinels", []string{strconv.Itoa(others)}},
		{"REPLICAS", "flags", slices.Repeat([]string{"slave"}, replicas)},
		{"REPLICAS", "master-link-status", slices.Repeat([]string{"ok"}, replicas)},
		{"SENTINELS", "flags", slices.Repeat([]string{"sentinel"}, others)},
	}
	for _, check := range checks {
		reply, err := sentinel.cli(pingLimit, "SENTINEL", check.about, masterName)
		if err != nil {
			return err
		}
		if got := values(reply, check.field); !slices.Equal(got, check.want) {
			return fmt.Errorf("SENTINEL %s: %s is %q, not %q", check.about, check.field, got, check.want)
		}
	}
	return nil
}

// values returns the values of a field in lines that are a name and a value in
// turn, as SENTINEL prints them: one for each entry that the reply has.
func values(text, field string) []string {
	var found []string
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		if lines[i] == field {
			found = append(found, lines[i+1])
		}
	}
	return found
}
