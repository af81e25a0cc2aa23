package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// longestCampaignPause is the longest pause between two campaigns, and how long one has
// to last for the next pause to be short again.
const longestCampaignPause = 10 * time.Second

// campaignPauses are those between two campaigns that have failed.
var campaignPauses = engine.Backoff{First: 100 * time.Millisecond, Longest: longestCampaignPause}

// Lead makes its caller one of several candidates, of whom one at a time leads: the holder of l. It waits for the lock,
// calls f with the hold and its context, and gives the lock back when f returns. When the lock is lost, the context of f
// ends; Lead waits for f to return, and then campaigns again. It ends, and returns
//   - nil, if f returns nil while it still leads, or what Unlock returns then;
//   - err, if f returns [Stop] of err while it still leads;
//   - the cause of ctx, when that has ended and f has returned;
//   - [ErrClosed], [ErrInvalid] or [ErrReentrant], which would only come again.
//
// What f returns after the lock was lost counts as nothing; unlocking, detaching or downgrading the hold is losing it.
// After a loss, or any other error of f or of Redis, OnError is told (of several locks, that of the options alone), and
// the next campaign begins after a random pause: 100 ms at first, doubling to 10 s. [Client.Shutdown] waits for f: end ctx
// before it. If f panics, the lock is given back, and Lead panics. A short [RenewedLease] lets another follow a crashed
// leader soon.
func Lead(ctx context.Context, l Locker, f func(ctx context.Context, hold *Hold) error, options ...TryOption) error {
	hooks, e := toTry(options).hooks, Event{Name: l.Name()}
	one := handleOf(l)
	switch l := l.(type) {
	case *PermitSemaphore:
		one = l.handle.made()
	case *MultiLock:
		e.Kind = l.made().label
	}
	if one != nil {
		hooks, e.Kind, e.lock = slices.Concat(one.client.config.hooks, hooks), one.Kind.Name, &one.Lock
	}
	for failed := 0; ; failed++ {
		began := time.Now()
		done, err := campaign(ctx, l, f, options)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(began) > longestCampaignPause:
			failed = 0
		}
		e.Err = err
		hooks.tellFailure(ctx, e)
		call.Sleep(ctx, campaignPauses.Pause(failed))
	}
}

// Stop makes [Lead] end and return err, which may be nil.
func Stop(err error) error { return &stopped{err} }

// stopped is what Stop returns.
type stopped struct{ err error }

func (s *stopped) Error() string {
	if s.err == nil {
		return "holdfast: the leader stops"
	}
	return s.err.Error()
}

func (s *stopped) Unwrap() error { return s.err }

// campaign waits for the lock and leads once. It reports whether there is to be no other
// campaign, whatever comes of ctx.
func campaign(ctx context.Context, l Locker, f func(ctx context.Context, hold *Hold) error, options []TryOption) (done bool, err error) {
	waiting := make([]LockOption, len(options))
	for i, option := range options {
		if option == nil {
			return true, errNilOption
		}
		waiting[i] = option
	}
	hold, err := l.Lock(ctx, waiting...)
	if err != nil {
		var failed *BackendError // of one from NewRedLock, some of whose clients may be closed
		return !errors.As(err, &failed) && isAny(err, ErrClosed, ErrInvalid, ErrReentrant), err
	}
	back := false // the lock has been given back
	defer func() {
		if !back { // f has panicked, which says more than an error of Unlock would
			_ = hold.Unlock()
		}
	}()
	err = f(hold.Context(), hold)
	released := hold.Unlock()
	back = true
	var stop *stopped
	switch {
	case errors.Is(released, ErrLost), errors.Is(released, ErrNotHeld):
		return false, joinOnce(err, released)
	case errors.Is(released, ErrClosed):
		return true, joinOnce(err, released)
	case err == nil:
		return ctx.Err() == nil, released
	case errors.As(err, &stop):
		return ctx.Err() == nil, joinOnce(stop.err, released)
	}
	return false, joinOnce(err, released)
}
