package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// Replicated is a primary and its replicas, with nothing that fails over.
type Replicated struct {
	Primary  *Server
	Replicas []*Server
}

// StartReplicated starts a primary and its replicas, and returns when each
// replica has synchronised and the primary counts it as online.
func StartReplicated(t testing.TB, replicas int) *Replicated {
	t.Helper()
	r := &Replicated{Primary: Start(t)}
	for range replicas {
		r.Replicas = append(r.Replicas, Start(t, WithConfig(replicaOf(r.Primary))))
	}
	poll(t, "the replicas are online", func() error {
		if err := online(r.Primary, replicas); err != nil {
			return err
		}
		return linked(r.Replicas)
	})
	return r
}

func replicaOf(primary *Server) string {
	return fmt.Sprintf("replicaof 127.0.0.1 %d", primary.port)
}

// online checks that the primary has so many replicas that are online.
func online(primary *Server, replicas int) error {
	info, err := primary.cli(pingLimit, "INFO", "replication")
	if err != nil {
		return err
	}
	if got := strings.Count(info, "state=online"); got != replicas {
		return fmt.Errorf("%s has %d of %d replicas online", primary.Addr(), got, replicas)
	}
	return nil
}

// linked checks that each of the replicas is connected to its primary and up
// to date with it.
func linked(replicas []*Server) error {
	for _, replica := range replicas {
		info, err := replica.cli(pingLimit, "INFO", "replication")
		if err != nil {
			return err
		}
		if status := fields(info)["master_link_status"]; status != "up" {
			return fmt.Errorf("%s: master_link_status is %q", replica.Addr(), status)
		}
	}
	return nil
}

// writable checks that the server accepts a write, by one that changes nothing.
func writable(s *Server) error {
	_, err := s.cli(pingLimit, "DEL", "redistest:probe")
	return err
}

func addrs(servers []*Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// Suspender stops servers, and has them go on.
func Suspender(servers []*Server) func(t testing.TB, on bool) {
	return func(_ testing.TB, on bool) {
		for _, s := range servers {
			if on {
				s.Stop()
			} else {
				s.Cont()
			}
		}
	}
}
