package rueidisdriver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// silenceable is a driver whose client's only connection goes through a proxy; those that it makes later do not.
type silenceable struct {
	*Driver
	proxy  *redistest.Proxy
	client rueidis.Client
	direct atomic.Bool
	dials  atomic.Int32
}

func newSilenceable(t *testing.T) *silenceable {
	t.Helper()
	server := redistest.Start(t)
	s := &silenceable{proxy: redistest.NewProxy(t, server.Addr())}
	at := drivertest.Endpoint{Addrs: []string{server.Addr()}}
	at.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dials.Add(1)
		if !s.direct.Load() {
			addr = s.proxy.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	// With one connection no call makes a second one, and a connection that pipelines is kept when it falls silent.
	s.client = connectTo(t, at, rueidis.ClientOption{AlwaysPipelining: true, PipelineMultiplex: -1})
	s.Driver = New(s.client)
	s.call(t)
	s.direct.Store(true)
	return s
}

// call makes a call that must be answered.
func (s *silenceable) call(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := s.Eval(ctx, driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
		t.Error(err)
	}
}

// silence has the connections fall silent, and calls notice it.
func (s *silenceable) silence(t *testing.T) {
	t.Helper()
	s.proxy.BlackHole(redistest.Both, true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Eval(ctx, driver.Call{Script: incr, Keys: []string{"k"}}); err == nil {
		t.Fatal("answered by a silent connection")
	}
	s.call(t)
	if spare := s.only.spare.Load(); spare == nil || spare == none {
		t.Fatal("no spare connection")
	}
}

// TestDoubtEndsWithAnswer has silent connections answer again. Calls use them from then on, and not before.
func TestDoubtEndsWithAnswer(t *testing.T) {
	t.Parallel()
	s := newSilenceable(t)
	s.silence(t)
	for end := time.Now().Add(10 * spareIdle); time.Now().Before(end); {
		s.call(t)
		if s.only.spare.Load() == nil {
			t.Fatal("the doubt has ended without an answer")
		}
		time.Sleep(spareIdle / 10) // what is observed is that nothing happens
	}
	s.proxy.BlackHole(redistest.Both, false)
	eventually(t, "the client's connections are used again", func() bool {
		s.call(t)
		return s.only.spare.Load() == nil
	})
	dials := s.dials.Load()
	for range 100 {
		s.call(t)
	}
	if more := s.dials.Load() - dials; more != 0 {
		t.Errorf("%d connections were made after the doubt", more)
	}
}

// TestIdleSpare has no calls made for a while. The spare connection is closed, and the next call uses another new one.
func TestIdleSpare(t *testing.T) {
	t.Parallel()
	s := newSilenceable(t)
	s.silence(t)
	for range 3 {
		eventually(t, "the spare connection is given up", func() bool { return s.only.spare.Load() == none })
		dials := s.dials.Load()
		s.call(t)
		if s.dials.Load() == dials {
			t.Error("no connection was made")
		}
	}
}

// closedAgain closes the client before every call. rueidis keeps a connection that was being made as the client was closed: if it
// is closed once, some calls are answered from then on, until the program ends.
type closedAgain struct{ *silenceable }

func (c closedAgain) Eval(ctx context.Context, call driver.Call) (any, error) {
	c.client.Close()
	return c.Driver.Eval(ctx, call)
}

// TestClosedWhileProbing closes the client while its connections are asked. No goroutine stays: see TestMain.
func TestClosedWhileProbing(t *testing.T) {
	t.Parallel()
	s := newSilenceable(t)
	s.silence(t)
	drivertest.CheckClosed(t, closedAgain{s})
	eventually(t, "the spare connection is given up", func() bool {
		spare := s.only.spare.Load()
		return spare == nil || spare == none
	})
}

// TestSpareRetiredAmidCalls has the spare connection retired again and again while calls are made. None is lost: each waits for
// another spare connection.
func TestSpareRetiredAmidCalls(t *testing.T) {
	t.Parallel()
	s := newSilenceable(t)
	s.silence(t)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 200 {
				s.call(t)
			}
		})
	}
	for range 100 {
		if spare := s.only.spare.Load(); spare != nil && spare != none {
			s.only.retire(spare, none)
		}
		time.Sleep(time.Millisecond) // so that there are calls in between
	}
	calls.Wait()
}

// TestSlotsInDoubt has slots in doubt until they are proven. Each is asked about once in a while, also one for which no call is made.
func TestSlotsInDoubt(t *testing.T) {
	t.Parallel()
	var slots slotsInDoubt
	var asked []int64
	prove := func(slot int64, _ string) { asked = append(asked, slot) }
	if slots.has(1, prove) {
		t.Error("in doubt before anything failed")
	}
	slots.add(1, "a")
	slots.add(2, "b")
	for range 3 {
		if !slots.has(1, prove) || slots.has(3, prove) {
			t.Error("the wrong slots")
		}
	}
	if len(asked) != 2 || asked[0] != 1 || asked[1] != 2 {
		t.Errorf("asked about %v, want 1, and 2 since no call is made for it", asked)
	}
	slots.remove(1)
	if slots.has(1, prove) || !slots.has(2, prove) {
		t.Error("after the proof of slot 1")
	}
	slots.remove(2)
	if slots.has(2, prove) || slots.some.Load() {
		t.Error("after both proofs")
	}
}
