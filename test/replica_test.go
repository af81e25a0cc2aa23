package test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Replica acknowledgement, on a primary with two replicas. Off, no WAIT is sent;
// n is n, and not any; what is not acknowledged is given back.
func TestReplicaAck(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	for _, p := range []*platform{
		goRedis("replicated", redis.UniversalOptions{Addrs: []string{s.Primary.Addr()}}, cli(s.Primary)),
		rueidisAt("replicated", rueidis.ClientOption{InitAddress: []string{s.Primary.Addr()}}, cli(s.Primary)),
	} {
		t.Run(p.name, func(t *testing.T) {
			p.do(t, "", "CONFIG", "RESETSTAT")
			for _, l := range replicatedKinds(p.client(t), fresh) {
				unlock(t, must(t)(l.Lock(background)))
			}
			if stats := strings.Join(p.do(t, "", "INFO", "commandstats"), "\n"); strings.Contains(stats, "cmdstat_wait:") {
				t.Error("WAIT was sent without being asked for")
			}
			both := p.client(t, holdfast.WithReplicaAck(2, 5*time.Second))
			for _, l := range replicatedKinds(both, fresh) {
				unlock(t, must(t)(l.Lock(background)))
			}
			both = p.client(t, holdfast.WithReplicaAck(2, 100*time.Millisecond))
			one := p.client(t, holdfast.WithReplicaAck(1, 5*time.Second))
			s.Replicas[0].Stop()
			for _, l := range replicatedKinds(both, fresh) {
				_, err := l.Lock(background)
				wantError(t, err, holdfast.ErrNotReplicated)
				for part := range strings.SplitSeq(l.Name(), "+") {
					waitFor(t, "it to be given back", func() bool {
						return len(p.do(t, part, "KEYS", "*"+part+"*")) == 0
					})
				}
			}
			for _, l := range replicatedKinds(one, fresh) {
				unlock(t, must(t)(l.Lock(background)))
			}
			sem := both.NewUnleasedSemaphore(fresh())
			if _, err := one.NewUnleasedSemaphore(sem.Name()).TrySetPermits(background, 2); err != nil {
				t.Fatal(err)
			}
			wantError(t, sem.Acquire(background, 2), holdfast.ErrNotReplicated)
			waitFor(t, "the permits to be given back", func() bool { // S14: not more than were taken
				n, err := available(sem)
				return err == nil && n == 2
			})
			if err := one.NewUnleasedSemaphore(sem.Name()).Acquire(background, 2); err != nil {
				t.Error(err)
			}
			permits := both.NewPermitSemaphore(fresh())
			if err := permits.SetPermits(background, 2); err != nil {
				t.Fatal(err)
			}
			_, err := permits.Lock(background)
			wantError(t, err, holdfast.ErrNotReplicated)
			waitFor(t, "the permit to be given back", func() bool {
				n, err := available(permits)
				return err == nil && n == 2
			})
			s.Replicas[0].Cont()
			waitFor(t, "the replica to be back", func() bool {
				h, err := both.NewMutex(fresh()).TryLock(background)
				return err == nil && h.Unlock() == nil
			})
		})
	}
}

// replicatedKinds returns a lock of each kind, each with a name of its own.
func replicatedKinds(c *holdfast.Client, name func() string) []holdfast.Locker {
	return []holdfast.Locker{
		c.NewMutex(name()),
		c.NewFairMutex(name()),
		c.NewRWMutex(name()).RLocker(),
		c.NewRWMutex(name()),
		holdfast.NewMultiLock(c.NewMutex(name()), c.NewMutex(name())),
		holdfast.NewMultiLock(c.NewMutex(name()), c.NewFairMutex(name())),
	}
}

// A nested hold that is not acknowledged is given back, and the outer one stays.
func TestReplicaAck_Nested(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		w.server.SetReplicas(1)
		c, _ := w.client(holdfast.WithReplicaAck(1, time.Second))
		mu := c.NewMutex("x")
		outer := must(t)(mu.Lock(background))
		w.server.SetReplicas(0)
		_, err := mu.Lock(outer.Context())
		wantError(t, err, holdfast.ErrNotReplicated)
		time.Sleep(time.Minute)
		w.wantCount("x", outer.Owner(), 1)
		if err := outer.Context().Err(); err != nil {
			t.Errorf("the outer hold is lost: %v", err)
		}
		unlock(t, outer)
	})
}

// A waiter that is let in without acknowledgement gives the lock back, and the
// next one is told.
func TestReplicaAck_Waiting(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		w.server.SetReplicas(1)
		strict, _ := w.client(holdfast.WithReplicaAck(2, time.Second))
		c, _ := w.client()
		h := must(t)(c.NewMutex("x").Lock(background))
		failed := make(chan error)
		go func() {
			_, err := strict.NewMutex("x").Lock(background)
			failed <- err
		}()
		time.Sleep(time.Second)
		unlock(t, h)
		wantError(t, <-failed, holdfast.ErrNotReplicated)
		start := time.Now()
		unlock(t, must(t)(c.NewMutex("x").Lock(background)))
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the next one got it after %v", took)
		}
	})
}

func TestReplicaAck_Bounds(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		for _, o := range []holdfast.ClientOption{
			holdfast.WithReplicaAck(0, time.Second), holdfast.WithReplicaAck(1, 0), holdfast.WithReplicaAck(1, 2*time.Hour),
		} {
			_, err := holdfast.New(w.server.Driver(), o)
			wantError(t, err, holdfast.ErrInvalid)
		}
	})
}

// The reply to an acquire is lost, and the repetition finds its work done. It
// counts who has acknowledged that work all the same, on a new connection, too.
func TestReplicaAckOfARepetition(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	for p, proxy := range throughProxy(t, s.Primary) {
		for what, acquire := range map[string]func(c *holdfast.Client, name string) error{
			"semaphore": func(c *holdfast.Client, name string) error {
				return c.NewUnleasedSemaphore(name).Acquire(background, 2)
			},
			"permits": func(c *holdfast.Client, name string) error {
				_, err := c.NewPermitSemaphore(name).Acquire(background, 2)
				return err
			},
			"mutex": func(c *holdfast.Client, name string) error {
				_, err := c.NewMutex(name).Lock(background)
				return err
			},
			"reader": func(c *holdfast.Client, name string) error {
				_, err := c.NewRWMutex(name).RLocker().Lock(background)
				return err
			},
		} {
			t.Run(p.name+"/"+what, func(t *testing.T) {
				prepared := func() (name string) {
					name = fresh()
					switch what {
					case "semaphore":
						ok(t, p.client(t).NewUnleasedSemaphore(name).Release(2))
					case "permits":
						ok(t, p.client(t).NewPermitSemaphore(name).SetPermits(background, 2))
					}
					return name
				}
				ok(t, acquire(p.client(t), prepared())) // the script is loaded
				name := prepared()
				s.Replicas[0].Stop()
				defer s.Replicas[0].Cont()
				lost := proxy.SwallowNextReply(func(request []byte) bool {
					args := redistest.Args(request)
					return len(args) > 3 && strings.EqualFold(args[0], "EVALSHA") && args[3] == name
				}, redistest.ThenReset)
				err := acquire(p.client(t, holdfast.WithReplicaAck(1, 100*time.Millisecond)), name)
				wantError(t, err, holdfast.ErrNotReplicated)
				<-lost
			})
		}
	}
}

// A grant that too few replicas have acknowledged is given back also if Redis is away for longer than the client's lease,
// but not for as long as that of the call.
func TestUntrustedGrantOfALongLeaseIsGivenBack(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithReplicaAck(1, 100*time.Millisecond))
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "release"}
		})
		_, err := c.NewMutex("x").TryLock(background, holdfast.FixedLease(10*time.Minute))
		wantError(t, err, holdfast.ErrNotReplicated)
		time.Sleep(2 * time.Minute)
		d.SetFaults(nil)
		time.Sleep(30 * time.Second)
		w.wantReply("0", "EXISTS", "x")
	})
}
