package servers

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Faults of the network between real clients and a real server.

// S13: the reply to an acquire, a nested one, and both releases is swallowed, in
// turn. Each call still has its effect once: the client's own retries are off,
// and ours ask for a state.
func TestS13_SwallowedReplies(t *testing.T) {
	t.Parallel()
	k := kit.MutexKind
	for p, proxy := range kit.ThroughProxy(t, redistest.Start(t)) {
		for what, then := range map[string]redistest.Aftermath{"silence": redistest.ThenSilence, "reset": redistest.ThenReset} {
			swallow := func(script *driver.Script) {
				proxy.SwallowNextReply(func(request []byte) bool {
					args := redistest.Args(request)
					return len(args) > 1 && strings.EqualFold(args[0], "EVALSHA") && args[1] == script.SHA()
				}, then)
			}
			t.Run(p.Name+"/"+what, func(t *testing.T) {
				name := kit.Fresh()
				mu := k.Lock(p.Client(t, holdfast.WithTimeout(9*time.Second)), name)
				kit.Unlock(t, kit.Must(t)(mu.Lock(background))) // scripts are loaded
				swallow(k.Scripts.Acquire)
				outer := kit.Must(t)(mu.Lock(background))
				p.WantCount(t, k, name, outer.Owner(), 1)
				swallow(k.Scripts.Acquire)
				inner := kit.Must(t)(mu.Lock(outer.Context()))
				p.WantCount(t, k, name, outer.Owner(), 2)
				for i, h := range []*holdfast.Hold{inner, outer} {
					swallow(k.Scripts.Release)
					kit.Unlock(t, h)
					p.WantCount(t, k, name, outer.Owner(), 1-i)
				}
				p.WantNothing(t, k, name)
			})
		}
	}
}

// The holders' connections are cut off, in one or both directions: they are told
// before their keys can expire on the server.
func TestBlackHoledHolderIsToldInTime(t *testing.T) {
	t.Parallel()
	for p, proxy := range kit.ThroughProxy(t, redistest.Start(t)) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			c := p.Client(t, holdfast.WithLease(16*time.Second), holdfast.WithMargin(6*time.Second), holdfast.WithTimeout(15*time.Second))
			for _, direction := range []redistest.Direction{redistest.ToServer, redistest.ToClient, redistest.Both} {
				var holds []*holdfast.Hold
				for _, k := range kit.Kinds {
					holds = append(holds, kit.Must(t)(k.Lock(c, kit.Fresh()).Lock(background)))
				}
				proxy.BlackHole(direction, true)
				for i, k := range kit.Kinds {
					<-holds[i].Context().Done()
					if left := k.Lives(p.Ask(t, ""), holds[i].Name(), holds[i].Owner().String()); left <= 0 {
						t.Errorf("%s: the key was gone when the holder was told: %v", k.Name, left)
					}
					kit.WantLost(t, holds[i])
				}
				proxy.BlackHole(direction, false)
				for _, h := range holds {
					kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				}
			}
		})
	}
}

// L1: the subscriber's connection is killed between the release and its
// delivery, again and again; nobody waits longer than the cap.
func TestL1_KilledSubscribersMissNothingForLong(t *testing.T) {
	t.Parallel()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if k.Polling {
			return // nobody subscribes
		}
		s := redistest.Start(t) // every kill hits all of its subscribers
		for _, p := range kit.Both("killed", []string{s.Addr()}, kit.CLI(s)) {
			name := kit.Fresh()
			a, b := p.Client(t), p.Client(t)
			for range 5 {
				h := kit.Must(t)(k.Lock(a, name).Lock(background))
				got := turn(k.Against(b, name), holdfast.Wait(20*time.Second)) // who waits for the lease would wait for 30 s
				p.AwaitWaiter(t, k, name)
				s.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
				kit.Unlock(t, h)
				kit.OK(t, <-got)
			}
		}
	})
}

// A holder that was stopped past its lease learns of it when it wakes.
func TestStoppedProcessIsToldWhenItWakes(t *testing.T) {
	t.Parallel()
	s, _, _ := started(t)
	name := kit.Fresh()
	holder := startProcess(t, "holds", s, name)
	holder.says(t, "held")
	holder.signal(t, syscall.SIGSTOP)
	kit.WaitFor(t, "the key's end", func() bool { return s.Cli(t, "EXISTS", name) == "0" })
	holder.signal(t, syscall.SIGCONT)
	holder.says(t, "lost")
}

// holdAndTell is the process that is stopped: a holder that says when it has lost the lock.
func holdAndTell(addr, name string) error {
	c, end, err := clientOf(addr, false, 6*time.Second)
	if err != nil {
		return err
	}
	defer end()
	h, err := c.NewMutex(name).Lock(background)
	if err != nil {
		return err
	}
	fmt.Println("held")
	<-h.Context().Done()
	fmt.Println("lost")
	return nil
}
