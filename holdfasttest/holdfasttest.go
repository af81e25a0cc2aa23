package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Redis is a server inside the process. Get one from [Start]. All methods are safe for
// concurrent use.
type Redis struct {
	tb      testing.TB
	server  *memdriver.Server
	started time.Time

	mu      sync.Mutex
	drivers []*memdriver.Driver
	next    []memdriver.Fault // of the next calls, whichever clients make them
	away    bool
}

// Start starts a server for a test, and stops it at the test's end, after its clients.
// Inside a bubble of [testing/synctest], call it there, with the bubble's t. A bubble that uses a server from outside would
// wait for ever, so its calls panic.
func Start(tb testing.TB) *Redis {
	tb.Helper()
	server, err := memdriver.NewServer()
	if err != nil {
		tb.Fatalf("holdfasttest: %v", err)
	}
	tb.Cleanup(server.Close)
	return &Redis{tb: tb, server: server, started: time.Now()}
}

// Client returns a client on the server, as a process of its own would have one, and
// closes it at the test's end. A client that cannot close in time fails the test, and so does one that holds a lock then:
// an Unlock is missing. Close the client before, if the process that it plays ends while it holds one. Unless there is a [holdfast.WithIdentity]
// it has [holdfast.WithoutIdentity], so each of its calls is about a lock of the test. For a [holdfast.LockedError] with a
// Who, give WithIdentity to both the holder's client and the one that is refused.
func (r *Redis) Client(options ...holdfast.ClientOption) *holdfast.Client {
	r.tb.Helper()
	r.checkTime()
	d := r.server.Driver()
	client, err := holdfast.New(d, append([]holdfast.ClientOption{holdfast.WithoutIdentity()}, options...)...)
	if err != nil {
		r.tb.Fatalf("holdfasttest: %v", err)
	}
	d.SetFaults(r.fault)
	r.mu.Lock()
	r.drivers = append(r.drivers, d)
	r.mu.Unlock()
	r.tb.Cleanup(func() {
		r.Back()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		err := client.Shutdown(now)
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("an Unlock is missing: %w", err)
		}
		if err != nil {
			r.tb.Errorf("holdfasttest: at the end of the test: %v", err)
		}
	})
	return client
}

// FailNext makes the next call of a client fail with err, without an effect: Redis has
// refused it. A call that may be repeated is, so most calls take longer by that, and
// succeed; after several FailNext, so many calls fail.
func (r *Redis) FailNext(err error) { r.add(memdriver.Fault{Refuse: err}) }

// LoseNext makes the next call of a client take effect and never be answered: its reply
// is lost. The client finds out what came of it, so a Lock or an Unlock takes longer, a
// third of the client's timeout, and has its effect once.
func (r *Redis) LoseNext() { r.add(memdriver.Fault{LoseReply: true}) }

func (r *Redis) add(f memdriver.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = append(r.next, f)
}

// Away cuts all clients off from the server, as a network does: nothing arrives, and
// nothing is answered, until [Redis.Back]. Holds are lost when their leases have run out.
func (r *Redis) Away() { r.cut(true) }

// Back ends [Redis.Away]. What was lost stays lost.
func (r *Redis) Back() { r.cut(false) }

func (r *Redis) cut(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	for _, d := range r.drivers {
		d.LoseMessages(away)
	}
}

// Do executes a command on the server, for what a test wants to see or to set up there.
// The reply is as a client library would give it: int64, string, []any or nil.
func (r *Redis) Do(args ...string) any {
	r.tb.Helper()
	reply, err := r.server.Do(args...)
	if err != nil {
		r.tb.Errorf("holdfasttest: %q: %v", args, err)
	}
	return reply
}

// checkTime panics in a bubble if the server was started outside: the time of bubbles begins in the year 2000. Fatal is for
// the goroutine of the t that Start was called with.
func (r *Redis) checkTime() {
	if time.Now().Round(0).Before(r.started.AddDate(-1, 0, 0)) {
		panic("holdfasttest: Start was called outside of the synctest bubble that uses its server: call it inside, with the bubble's t")
	}
}

// fault is what becomes of a call.
func (r *Redis) fault(driver.Call) memdriver.Fault {
	r.checkTime()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.away:
		return memdriver.Fault{LoseRequest: true}
	case len(r.next) > 0:
		f := r.next[0]
		r.next = r.next[1:]
		return f
	}
	return memdriver.Fault{}
}

// NewHold returns a hold of a lock that nobody else knows, for a fake [holdfast.Locker]
// to return, and a function that makes it be lost. Its context is derived from ctx. It is
// given back at the test's end, if it was not before.
func NewHold(tb testing.TB, ctx context.Context, name string) (hold *holdfast.Hold, lose func()) { //nolint:revive // a test's tb comes first
	tb.Helper()
	mu := Start(tb).Client().NewMutex(name)
	hold, err := mu.Lock(ctx)
	if err != nil {
		tb.Fatalf("holdfasttest: %v", err)
	}
	tb.Cleanup(func() { _ = hold.Unlock() }) // before the client closes; it may have ended long since
	return hold, func() {
		if _, err := mu.ForceUnlock(context.WithoutCancel(ctx)); err != nil {
			tb.Errorf("holdfasttest: %v", err)
		}
	}
}
