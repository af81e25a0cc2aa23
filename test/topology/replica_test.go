package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Replica acknowledgement, on a primary with two replicas. Off, no WAIT is sent;
// n is n, and not any; what is not acknowledged is given back.
func TestReplicaAck(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	for _, p := range both("replicated", []string{s.Primary.Addr()}, kit.CLI(s.Primary)) {
		t.Run(p.Name, func(t *testing.T) {
			locks := func(c *holdfast.Client) {
				t.Helper()
				for _, l := range replicatedKinds(c) {
					kit.Unlock(t, kit.Must(t)(l.Lock(background)))
				}
			}
			p.Do(t, "", "CONFIG", "RESETSTAT")
			locks(p.Client(t))
			if stats := strings.Join(p.Do(t, "", "INFO", "commandstats"), "\n"); strings.Contains(stats, "cmdstat_wait:") {
				t.Error("WAIT was sent without being asked for")
			}
			locks(p.Client(t, holdfast.WithReplicaAck(2, 5*time.Second)))
			both := p.Client(t, holdfast.WithReplicaAck(2, 100*time.Millisecond))
			one := p.Client(t, holdfast.WithReplicaAck(1, 5*time.Second))
			s.Replicas[0].Stop()
			for _, l := range replicatedKinds(both) {
				_, err := l.Lock(background)
				kit.WantError(t, err, holdfast.ErrNotReplicated)
				for part := range strings.SplitSeq(l.Name(), "+") {
					kit.WaitFor(t, "it to be given back", func() bool {
						return len(p.Do(t, part, "KEYS", "*"+part+"*")) == 0
					})
				}
			}
			locks(one)
			sem := both.NewUnleasedSemaphore(kit.Fresh())
			givenBack := func(s kit.Inspectable) {
				t.Helper()
				kit.WaitFor(t, "the permits to be given back", func() bool { // S14: not more than were taken
					n, err := kit.Available(s)
					return err == nil && n == 2
				})
			}
			kit.OK(t, one.NewUnleasedSemaphore(sem.Name()).Release(2))
			kit.WantError(t, sem.Acquire(background, 2), holdfast.ErrNotReplicated)
			givenBack(sem)
			kit.OK(t, one.NewUnleasedSemaphore(sem.Name()).Acquire(background, 2))
			permits := both.NewPermitSemaphore(kit.Fresh())
			kit.OK(t, permits.SetPermits(background, 2))
			_, err := permits.Lock(background)
			kit.WantError(t, err, holdfast.ErrNotReplicated)
			givenBack(permits)
			s.Replicas[0].Cont()
			kit.WaitFor(t, "the replica to be back", func() bool {
				h, err := both.NewMutex(kit.Fresh()).TryLock(background)
				return err == nil && h.Unlock() == nil
			})
		})
	}
}

// replicatedKinds returns a lock of each kind, each with a name of its own.
func replicatedKinds(c *holdfast.Client) []holdfast.Locker {
	name := kit.Fresh
	return []holdfast.Locker{
		c.NewMutex(name()),
		c.NewFairMutex(name()),
		c.NewRWMutex(name()).RLocker(),
		c.NewRWMutex(name()),
		holdfast.NewMultiLock(c.NewMutex(name()), c.NewMutex(name())),
		holdfast.NewMultiLock(c.NewMutex(name()), c.NewFairMutex(name())),
	}
}

// The reply to an acquire is lost, and the repetition finds its work done. It
// counts who has acknowledged that work all the same, on a new connection, too.
func TestReplicaAckOfARepetition(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	for p, proxy := range kit.ThroughProxy(t, s.Primary) {
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
			t.Run(p.Name+"/"+what, func(t *testing.T) {
				prepared := func() (name string) {
					name = kit.Fresh()
					switch what {
					case "semaphore":
						kit.OK(t, p.Client(t).NewUnleasedSemaphore(name).Release(2))
					case "permits":
						kit.OK(t, p.Client(t).NewPermitSemaphore(name).SetPermits(background, 2))
					}
					return name
				}
				kit.OK(t, acquire(p.Client(t), prepared())) // the script is loaded
				name := prepared()
				s.Replicas[0].Stop()
				defer s.Replicas[0].Cont()
				lost := proxy.SwallowNextReply(func(request []byte) bool {
					args := redistest.Args(request)
					return len(args) > 3 && strings.EqualFold(args[0], "EVALSHA") && args[3] == name
				}, redistest.ThenReset)
				err := acquire(p.Client(t, holdfast.WithReplicaAck(1, 100*time.Millisecond)), name)
				kit.WantError(t, err, holdfast.ErrNotReplicated)
				<-lost
			})
		}
	}
}
