package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// listenAfter is how long a hold lasts before its holder listens for a forced unlock, and says since when it holds:
// shorter holds would pay more for that than it can tell them.
const listenAfter = time.Second

// Outage is how many timeouts a waiter bears without Redis, once Redis has answered it, and for how many a call is
// repeated in the background.
const Outage = 10

// New returns an engine. It does no I/O and starts no goroutine.
func New(config Config) *Engine {
	e := &Engine{Config: config, phases: newPhases(), owners: owners{client: config.ID}, accounts: newAccounts()}
	e.Calls = call.New(call.Config{
		Driver: config.Driver, Tasks: &e.Tasks, Life: e.Life, Closing: e.Closing,
		Timeout: config.Timeout, Replicas: config.Replicas, AckTimeout: config.AckTimeout,
	})
	e.watchdog = watchdog.New(watchdog.Config[*side, group]{
		Group: groupOf, Weight: weightOf, Renew: renew, Lost: lost, LongHeld: longHeld, LongHeldAfter: listenAfter,
		Timeout: config.Timeout / 3, Margin: config.Margin,
	})
	e.hub = wakeup.New(config.Driver.Listen)
	e.mail = newMail(e.ID, e.Calls.Sharded, e.hub.Join)
	e.queues = waitqueue.New(func(channel string, q *queue) func() { return e.hub.Join(channel, q).Leave })
	return e
}

// Drain lets nothing new be held but what is nested, and ends every wait.
func (e *Engine) Drain() { e.drain() }

// Live are the names of what is held, one for each hold that is neither lost nor given back.
func (e *Engine) Live() (names []string) {
	e.accounts.each(func(a *account) {
		for range a.live() {
			names = append(names, a.name)
		}
	})
	slices.Sort(names)
	return names
}

// ErrKept says that Redis refuses to take something back. That ends with its lease.
var ErrKept = errors.New("Redis does not take everything back") //nolint:staticcheck // Redis is a name

// Close gives everything back, ends every call, stops all goroutines, and waits for that until ctx ends.
func (e *Engine) Close(ctx context.Context) error {
	e.drain()
	e.close()
	var all []*account
	e.accounts.each(func(a *account) { all = append(all, a) })
	evicted := slices.DeleteFunc(all, func(a *account) bool { return !a.evict() })
	e.Presence.Withdraw()
	err := e.Tasks.Wait(ctx)
	if why := leftBy(evicted); why != nil {
		err = why // it says more than that the time is over
	}
	e.die()
	stopped := make(chan struct{})
	go func() { // owned by this call; outlives it only if the time runs out
		defer close(stopped)
		e.watchdog.Stop()
		e.hub.Close()
	}()
	select {
	case <-stopped:
		return err
	case <-ctx.Done():
		return cmp.Or(err, ctx.Err())
	}
}

// MostNamed is how many locks the errors of Close and Shutdown name.
const MostNamed = 10

// leftBy returns the error for accounts with unreleased counts: the first account's reason, the locks, and the time until their
// leases have ended. It is nil if there are none.
func leftBy(accounts []*account) (first error) {
	var names []string
	var end mono.Time
	for _, a := range accounts {
		if until, why := a.owes(); why != nil {
			first = cmp.Or(first, why)
			names, end = append(names, a.name), max(end, until)
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%w; %d left, of %s, whose leases end within %v",
		first, len(names), visible.Text(fmt.Sprintf("%q", names[:min(len(names), MostNamed)])), end.Sub(mono.Now()).Round(time.Millisecond))
}

// notReplicated is the error for a grant that too few replicas have.
func (e *Engine) notReplicated(name string, acknowledged int) error {
	return lockerr.Problem(name, fmt.Sprintf("%d of %d acknowledged it in time", acknowledged, e.Replicas), lockerr.NotReplicated)
}

// beyondMaxHold is the error for a lease that reaches beyond what MaxHold allows.
func (e *Engine) beyondMaxHold(name string) error {
	return lockerr.Problem(name, "the lease is longer than WithMaxHold allows, "+e.MaxHold.String(), lockerr.Invalid)
}

// account returns the account of a claim, and makes it if need be. It is nil if the owner belongs to another call, and nobody
// may use it. Each account that is returned is given back by unref.
func (e *Engine) account(l *Lock, c claim) *account {
	if c.account != nil {
		c.account.refs.Add(1)
		return c.account
	}
	a := &account{accountKey: l.accountKey(c.owner), engine: e}
	a.undisclosed = c.fresh && (l.handsOff() || l.SharesHolds)
	a.refs.Store(1)
	a.addSide(&a.first, l)
	if c.fresh {
		a.turn.TryTake() // it is the call's from the beginning
	}
	return e.accounts.add(a, c.fresh)
}
