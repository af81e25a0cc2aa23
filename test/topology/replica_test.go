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
	for _, p := range kit.Both("replicated", []string{s.Primary.Addr()}, kit.CLI(s.Primary)) {
		t.Run(p.Name, func(t *testing.T) {
			locks := func(c *holdfast.Client) {
				t.Helper()
				for _, k := range kit.Kinds {
					kit.Unlock(t, kit.Must(t)(k.Lock(c, kit.Fresh()).Lock(background)))
				}
			}
			before := s.Primary.Calls(t, "wait")
			locks(p.Client(t))
			if s.Primary.Calls(t, "wait") != before {
				t.Error("WAIT was sent without being asked for")
			}
			locks(p.Client(t, holdfast.WithReplicaAck(2, 5*time.Second)))
			both := p.Client(t, holdfast.WithReplicaAck(2, 100*time.Millisecond))
			one := p.Client(t, holdfast.WithReplicaAck(1, 5*time.Second))
			s.Replicas[0].Stop()
			for _, k := range kit.Kinds {
				name := kit.Fresh()
				_, err := k.Lock(both, name).Lock(background)
				kit.WantError(t, err, holdfast.ErrNotReplicated)
				kit.WaitFor(t, "it to be given back", func() bool {
					return len(k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name)) == 0
				})
			}
			locks(one)
			for _, what := range []string{"semaphore", "permits"} {
				name := prepared(t, one, what)
				kit.WantError(t, acquires[what](both, name), holdfast.ErrNotReplicated)
				kit.WaitFor(t, "the permits to be given back", func() bool { // S14: not more than were taken
					n, err := kit.Available(one.NewUnleasedSemaphore(name))
					return err == nil && n == 2
				})
			}
			kit.OK(t, acquires["semaphore"](one, prepared(t, one, "semaphore")))
			s.Replicas[0].Cont()
			kit.WaitFor(t, "the replica to be back", func() bool {
				h, err := both.NewMutex(kit.Fresh()).TryLock(background)
				return err == nil && h.Unlock() == nil
			})
		})
	}
}

// acquires are ways to acquire what may have to be prepared.
var acquires = map[string]func(c *holdfast.Client, name string) error{
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
		_, err := c.NewRWMutex(name).RLock(background)
		return err
	},
}

// prepared returns the name of what can be acquired.
func prepared(t *testing.T, c *holdfast.Client, what string) (name string) {
	t.Helper()
	name = kit.Fresh()
	if what == "semaphore" || what == "permits" {
		kit.OK(t, c.NewPermitSemaphore(name).SetPermits(background, 2))
	}
	return name
}

// The reply to an acquire is lost, and the repetition finds its work done. It
// counts who has acknowledged that work all the same, on a new connection, too.
func TestReplicaAckOfARepetition(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	for p, proxy := range kit.ThroughProxy(t, s.Primary) {
		for what, acquire := range acquires {
			t.Run(p.Name+"/"+what, func(t *testing.T) {
				kit.OK(t, acquire(p.Client(t), prepared(t, p.Client(t), what))) // the script is loaded
				name := prepared(t, p.Client(t), what)
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
