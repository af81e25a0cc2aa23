package hold

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What it costs when the clocks of a client and of its servers are not the same.

// heldUp has the next acquire reach the server after 51 s. A client whose clock is a minute ahead sends it so that it is in
// time even then.
var heldUp = memdriver.Fault{DelayRequest: 51 * time.Second}

// shortly is how long a lock may stand that nobody holds after a send whose limit was far off: until the next look.
const shortly = 3100 * time.Millisecond

// wantGone watches for two minutes, in which something is to stand in Redis that
// nobody holds, and checks that it is not there for long.
func (s *stage) wantGone() {
	s.Helper()
	const step = 100 * time.Millisecond
	var stood time.Duration
	for range 2 * time.Minute / step {
		time.Sleep(step)
		if len(s.Kind.Stands(s.Ask, "x")) > 0 {
			stood += step
		}
	}
	if stood == 0 || stood > shortly { // 0: the acquire that was held up never came
		s.Errorf("for %v, the lock was held by nobody", stood)
	}
	s.WantNothing()
}

// The first call of a client whose clock is ahead is held up.
func TestFirstCallHeldUp(t *testing.T) {
	lost := memdriver.Fault{LoseRequest: true}
	type row struct {
		releases []memdriver.Fault
		use      func(s *stage)
		never    bool // it does nothing when it comes, nor later
	}
	rows(t, kinds, map[string]row{
		"the call has failed":         {use: func(s *stage) { s.givesUp(background, time.Second) }},
		"its clean-up fails at first": {releases: []memdriver.Fault{lost, lost, lost, lost}, use: func(s *stage) { s.givesUp(background, time.Second) }},
		"its repetition was answered": {use: func(s *stage) { // it comes when the hold has been given back
			h := s.lock()
			time.Sleep(20 * time.Second)
			s.alone(h)
			s.free()
		}},
		"somebody else holds the lock": {never: true, use: func(s *stage) {
			s.givesUp(background, time.Second)
			h := s.heldByOther()
			time.Sleep(2 * time.Minute)
			s.trusts(h)
			s.Unlock(h)
			s.WantNothing()
		}},
	}, func(s *stage, row row) {
		s.Server.SetClock(-time.Minute)
		s.first(map[string][]memdriver.Fault{"acquire": {heldUp}, "release": row.releases})
		row.use(s)
		if !row.never {
			s.wantGone()
		}
	})
}

// The same with permits: those that have a lease, and those that have none.
func TestFirstPermitsHeldUp(t *testing.T) {
	rows(t, fake, map[string]func(ctx context.Context, c *holdfast.Client) error{
		"permits": func(ctx context.Context, c *holdfast.Client) error {
			return kit.ErrOf(c.NewPermitSemaphore("x").Acquire(ctx, 2))
		},
		"counter": func(ctx context.Context, c *holdfast.Client) error {
			return c.NewUnleasedSemaphore("x").Acquire(ctx, 2)
		},
	}, func(s *stage, acquire func(ctx context.Context, c *holdfast.Client) error) {
		s.Server.SetClock(-time.Minute)
		s.Do("SET", "x", "3")
		kit.Next(s.d, "acquire", heldUp)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.WantError(s.T, acquire(ctx, s.c), context.DeadlineExceeded)
		time.Sleep(51*time.Second + shortly)
		s.WantReply("3", "GET", "x")
		time.Sleep(kit.CallsLive)
		s.Do("DEL", "x")
	})
}

// Close does not wait for a clock that is far off.
func TestCloseAfterAFirstCallHeldUp(t *testing.T) {
	values(t, kinds, []time.Duration{0, 2 * time.Second, 20 * time.Second}, func(s *stage, after time.Duration) {
		s.Server.SetClock(-time.Minute)
		kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
		s.givesUp(background, time.Second)
		time.Sleep(after)
		start := time.Now()
		kit.OK(s.T, s.c.Close())
		s.within(start, 0, holdfast.DefaultTimeout-1)
		s.WantNothing()
	})
}

// A clock that is behind, or far ahead, costs the first call a second send, and
// no call after that.
func TestClocksApart(t *testing.T) {
	values(t, kinds, []time.Duration{-time.Hour, -3 * time.Second, 0, 3 * time.Second, time.Hour}, func(s *stage, apart time.Duration) {
		s.Server.SetClock(apart)
		sent := kit.Count(s.d)
		for range 5 {
			s.Unlock(s.lock())
		}
		if late := sent.All() - 10; late < 0 || late > 1 || late > 0 && apart <= 0 {
			s.Errorf("%d sends in vain", late)
		}
	})
}

// nodes are two servers in memory that have the slots in turn, behind one driver. The first one has x, and is listened to.
type nodes struct {
	*memdriver.Driver

	second *memdriver.Driver
}

// onSecond reports whether the second node has a key.
func onSecond(key string) bool { return (script.Slot(key)+script.Slot("x"))%2 == 1 }

// Eval asks the node that has the slot.
func (n *nodes) Eval(ctx context.Context, call driver.Call) (any, error) {
	if onSecond(call.Keys[0]) {
		return n.second.Eval(ctx, call)
	}
	return n.Driver.Eval(ctx, call)
}

func (n *nodes) Slotted() bool { return true }

// Two nodes of a cluster whose clocks differ. A first call about a slot that is held up is waited for by the clock of the
// slot's node, not by another's that has answered before. After the first call on each slot, no send is in vain.
func TestClocksOfTwoNodes(t *testing.T) {
	name := "y"
	for !onSecond(name) {
		name += "y"
	}
	kinds(t, func(s *stage) {
		second, err := memdriver.NewServer()
		kit.OK(s.T, err)
		s.Cleanup(second.Close)
		second.SetClock(time.Minute)
		n := &nodes{s.Server.Driver(), second.Driver()}
		c, err := testclient.New(n, holdfast.WithoutIdentity())
		kit.OK(s.T, err)
		s.Cleanup(func() { kit.OK(s.T, c.Close()) })
		here, there := s.Kind.Lock(c, "x"), s.Kind.Lock(c, name)

		s.Unlock(s.Must(there.Lock(background)))
		kit.Next(n.Driver, "acquire", heldUp)
		s.l = here
		s.givesUp(background, time.Second)
		s.wantGone()

		sent := []*kit.Calls{kit.Count(n.Driver), kit.Count(n.second)}
		for range 20 {
			for _, l := range []kit.AnyLock{here, there} {
				h := s.Must(l.Lock(background))
				time.Sleep(100 * time.Millisecond)
				s.Unlock(h)
			}
		}
		if sent[0].All() != 40 || sent[1].All() != 40 {
			s.Errorf("%v sends for 40 calls of each", sent)
		}
	})
}
