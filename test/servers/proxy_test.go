package servers

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Faults of the network between real clients and a real server.

// sends matches requests that run a script of the kind's.
func sends(k *kit.Kind, name string) func([]byte) bool {
	sha := map[string]string{
		"acquire": k.Scripts.Acquire.SHA(), "release": k.Scripts.Release.SHA(),
	}[name]
	return func(request []byte) bool {
		args := redistest.Args(request)
		return len(args) > 1 && strings.EqualFold(args[0], "EVALSHA") && args[1] == sha
	}
}

// S13: the reply to an acquire, a nested one, and both releases is swallowed, in
// turn. Each call still has its effect once: the client's own retries are off,
// and ours ask for a state.
func TestS13_SwallowedReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for p, proxy := range kit.ThroughProxy(t, s) {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				for _, then := range []redistest.Aftermath{redistest.ThenSilence, redistest.ThenReset} {
					swallowedReplies(t, p, k, func(what string) { proxy.SwallowNextReply(sends(k, what), then) })
				}
			})
		}
	})
}

func swallowedReplies(t *testing.T, p *kit.Platform, k *kit.Kind, swallow func(what string)) {
	t.Helper()
	name := p.Fresh(t, k)
	c := p.Client(t, holdfast.WithTimeout(9*time.Second))
	mu := k.Lock(c, name)
	kit.Unlock(t, kit.Must(t)(mu.Lock(background))) // scripts are loaded
	swallow("acquire")
	outer := kit.Must(t)(mu.Lock(background))
	p.WantCount(t, k, name, outer.Owner(), 1)
	if k.Nests {
		swallow("acquire")
		inner := kit.Must(t)(mu.Lock(outer.Context()))
		p.WantCount(t, k, name, outer.Owner(), 2)
		swallow("release")
		kit.Unlock(t, inner)
		p.WantCount(t, k, name, outer.Owner(), 1)
	}
	swallow("release")
	kit.Unlock(t, outer)
	p.WantNothing(t, k, name)
}

// The holder's connection is cut off, in one or both directions: it is told
// before the key can expire on the server.
func TestBlackHoledHolderIsToldInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do := kit.Direct(t, s)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for p, proxy := range kit.ThroughProxy(t, s) {
			p.Do = do
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				for _, direction := range []redistest.Direction{redistest.ToServer, redistest.ToClient, redistest.Both} {
					blackHoled(t, p, k, func(on bool) { proxy.BlackHole(direction, on) })
				}
			})
		}
	})
}

func blackHoled(t *testing.T, p *kit.Platform, k *kit.Kind, cut func(on bool)) {
	t.Helper()
	name := p.Fresh(t, k)
	c := p.Client(t, holdfast.WithLease(6*time.Second), holdfast.WithMargin(2500*time.Millisecond))
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	cut(true)
	defer cut(false)
	<-h.Context().Done()
	if left := k.Lives(p.Ask(t, name), name, h.Owner().String()); left <= 0 {
		t.Errorf("the key was gone when the holder was told: %v", left)
	}
	kit.WantLost(t, h)
	cut(false)
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
}

// L1: the subscriber's connection is killed between the release and its
// delivery, again and again; nobody waits longer than the cap.
func TestL1_KilledSubscribersMissNothingForLong(t *testing.T) {
	t.Parallel()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if k.Polls {
			return // nobody subscribes
		}
		s := redistest.Start(t) // every kill hits all of its subscribers
		for p := range kit.ThroughProxy(t, s) {
			t.Run(p.Name, func(t *testing.T) { killedSubscribers(t, s, p, k) })
		}
	})
}

func killedSubscribers(t *testing.T, s *redistest.Server, p *kit.Platform, k *kit.Kind) {
	t.Helper()
	name := p.Fresh(t, k)
	a, b := p.Client(t), p.Client(t)
	for range 5 {
		h := kit.Must(t)(k.Lock(a, name).Lock(background))
		got := make(chan error, 1)
		go func() {
			next, err := k.Against(b, name).Lock(background, holdfast.Wait(20*time.Second))
			if err == nil {
				err = next.Unlock()
			}
			got <- err
		}()
		p.AwaitWaiter(t, k, name)
		s.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
		kit.Unlock(t, h) // who waits for the lease would wait for 30 s
		kit.OK(t, <-got)
	}
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
	c, end, err := clientOf(addr, holdfast.WithLease(6*time.Second))
	if err != nil {
		return err
	}
	defer end()
	h, err := c.NewMutex(name).Lock(background)
	if err != nil {
		return err
	}
	say("held")
	<-h.Context().Done()
	say("lost")
	_ = h.Unlock()
	return nil
}
