package rights

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// loadScripts loads every script that the library sends, as an administrator does.
func loadScripts(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	for _, node := range nodes {
		for _, s := range protocol.Every() {
			node.Cli(t, "SCRIPT", "LOAD", s.Source())
		}
	}
}

// withoutEval are the rules of a user who may do all but run Lua of its own.
var withoutEval = []string{"+@all", "-@scripting", "-@admin", "-@dangerous", "+evalsha", "~*", "&*"}

// TestACLWithoutEval has a user with a kind's rights but EVAL do everything that there is to do with a lock of it, and with
// semaphores and latches, on a server that has the scripts.
func TestACLWithoutEval(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	loadScripts(t, s)
	admin := adminOf(t, s)
	r := &rightsTest{
		admin: admin, a: admin.Client(t), addrs: []string{s.Addr()}, nodes: []*redistest.Server{s},
		all: func(r rights.Rights, _ string) rights.Rights { return r },
	}
	t.Run("kinds", r.sufficeWithoutEval)
	for client := range kit.ClientRights {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			useOthers(t, kit.Limited(t, s, client, kit.Fresh(), withoutEval).Client(t))
		})
	}
}

// TestACLWithoutEvalOnCluster is TestACLWithoutEval on a cluster.
func TestACLWithoutEvalOnCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	loadScripts(t, s.Nodes...)
	admin := kit.GoRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, kit.OnCluster(s))
	admin.Sharded = redistest.AtLeast(t, 7, 0)
	r := &rightsTest{admin: admin, a: admin.Client(t), addrs: s.Addrs(), nodes: s.Nodes}
	r.all = func(r rights.Rights, client string) rights.Rights {
		all, _ := onCluster(t, r, client)
		return all
	}
	t.Run("kinds", r.sufficeWithoutEval)
	user := kit.Fresh()
	for _, node := range s.Nodes {
		kit.Allow(t, node, user, slices.Concat(withoutEval, []string{"+cluster"}))
	}
	for client := range kit.ClientRights {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			useOthers(t, kit.LimitedTo(s.Addrs(), client, user).Client(t))
		})
	}
}

// sufficeWithoutEval has a user with all rights but EVAL, for each kind and client.
func (r *rightsTest) sufficeWithoutEval(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for client := range kit.ClientRights {
			t.Run(client, func(t *testing.T) {
				t.Parallel()
				kit.OK(t, r.try(t, k, client, "+eval"))
			})
		}
	})
}

// useOthers uses the semaphores and a latch.
func useOthers(t *testing.T, c *holdfast.Client) {
	t.Helper()
	permits, counter, latch := c.NewPermitSemaphore(kit.Fresh()), c.NewUnleasedSemaphore(kit.Fresh()), c.NewLatch(kit.Fresh())
	kit.OK(t, permits.SetPermits(background, 3), permits.AddPermits(background, 1))
	h := kit.Must(t)(permits.Acquire(background, 4))
	waiter := turn(permits)
	kit.WantError(t, errorOf(permits.TryLock(background)), holdfast.ErrNoPermits)
	kit.OK(t, kit.ErrOf(permits.Inspect(background)), h.Extend(background, time.Minute), h.Unlock(), <-waiter)
	kit.OK(t, kit.ErrOf(counter.TrySetPermits(background, 3)), counter.AddPermits(background, 1), counter.TryAcquire(background, 3))
	kit.WantError(t, counter.Acquire(background, 2, briefly), holdfast.ErrNoPermits)
	kit.OK(t, counter.Release(3), kit.ErrOf(counter.Drain(background)), kit.ErrOf(counter.Inspect(background)))
	kit.OK(t, kit.ErrOf(latch.TrySetCount(background, 1)))
	kit.WantError(t, latch.Await(background, briefly), holdfast.ErrNotZero)
	kit.OK(t, latch.CountDown(), latch.Await(background))
	kit.OK(t, kit.ErrOf(permits.Expire(background, time.Minute)), kit.ErrOf(permits.Delete(background)), kit.ErrOf(counter.Delete(background)))
}

// TestScriptsAreLost has a server lose its scripts while a user without EVAL holds a lock and waits for another: a restart, or SCRIPT
// FLUSH. Both go on once the scripts are loaded again. A client that begins meanwhile is refused at once, and told what to do.
func TestScriptsAreLost(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(t *testing.T, s *redistest.Server){
		"flush":   func(t *testing.T, s *redistest.Server) { t.Helper(); s.Cli(t, "SCRIPT", "FLUSH") },
		"restart": func(_ *testing.T, s *redistest.Server) { s.Restart() },
	} {
		for client := range kit.ClientRights {
			t.Run(what+"/"+client, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t, redistest.WithAppendOnly(), redistest.WithConfig("user tenant on >pw "+strings.Join(kit.Known(t, withoutEval), " ")))
				loadScripts(t, s)
				p := kit.LimitedTo([]string{s.Addr()}, client, "tenant")
				const lease = 6 * time.Second
				a, b := p.Client(t, holdfast.WithLease(lease)), p.Client(t)
				held, awaited := kit.Must(t)(a.NewMutex("held").Lock(background)), kit.Must(t)(a.NewMutex("awaited").Lock(background))
				waiter := turn(b.NewMutex("awaited"))
				kit.WaitFor(t, "the waiter", func() bool { return s.Cli(t, "ZCARD", kit.WaitlistKey("awaited")) == "1" })
				lose(t, s)
				lost := time.Now()
				kit.WaitFor(t, "a renewal that is refused", func() bool { return refusedEval(t, s) })
				err := errorOf(p.Client(t).NewMutex("other").TryLock(background))
				kit.WantBackend(t, "a new client", err, "the server does not have this script", "have an administrator run holdfast scripts load")
				loadScripts(t, s)
				kit.OK(t, awaited.Unlock(), <-waiter)
				for held.Context().Err() == nil && time.Since(lost) < lease {
					time.Sleep(5 * time.Millisecond) // it was renewed since, or its context ends
				}
				kit.OK(t, held.Unlock())
			})
		}
	}
}

// refusedEval reports whether the server has refused EVAL to the user.
func refusedEval(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	log := s.Cli(t, "ACL", "LOG")
	return strings.Contains(log, "object\neval\n") && strings.Contains(log, "username\ntenant\n")
}

// TestFailoverWithoutEval promotes a replica that has the scripts while a user without EVAL holds a lock and waits for another: both go on.
func TestFailoverWithoutEval(t *testing.T) {
	t.Parallel()
	for client := range kit.ClientRights {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, 1, 1)
			primary, nodes := s.Primary(t), append(s.Replicas(t), s.Primary(t))
			loadScripts(t, nodes...)
			for _, node := range nodes {
				kit.Allow(t, node, "tenant", append(slices.Clone(withoutEval), "+role")) // rueidis asks for it
			}
			p := kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName(), Username: "tenant", Password: "pw"}, nil)
			if client == "rueidis" {
				p = kit.RueidisAt("sentinel", rueidis.ClientOption{
					InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()}, Username: "tenant", Password: "pw", DisableCache: true,
				}, nil)
			}
			a, b := p.Client(t), p.Client(t)
			held, awaited := kit.Must(t)(a.NewMutex("held").Lock(background)), kit.Must(t)(a.NewMutex("awaited").Lock(background))
			waiter := turn(b.NewMutex("awaited"))
			kit.WaitFor(t, "the waiter", func() bool { return primary.Cli(t, "ZCARD", kit.WaitlistKey("awaited")) == "1" })
			kit.WaitFor(t, "the replica to have it", func() bool {
				info := primary.Cli(t, "INFO", "replication")
				_, offset, _ := strings.Cut(info, "master_repl_offset:")
				offset, _, _ = strings.Cut(offset, "\n")
				return strings.Contains(info, ",offset="+strings.TrimSpace(offset)+",")
			})
			s.Failover(t)
			kit.OK(t, awaited.Unlock(), <-waiter, held.Unlock())
			kit.OK(t, given(b.NewFairMutex("new").Lock(background)))
		})
	}
}
