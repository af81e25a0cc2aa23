package holdfast

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
)

const (
	// outageFades is how long after the last failure an outage ends although Redis has not replied for any of the
	// slots that failed. It is longer than a waiter tolerates an outage with the default timeout.
	outageFades = 2 * time.Minute
	// outageForgotten is how long an outage is kept at most after its last failure, and a kind of refusal after its last
	// warning: their client may have been closed.
	outageForgotten = time.Hour
	// refusalPause is the minimum time between two warnings about the same kind of refusal.
	refusalPause = time.Minute
)

// outages turns what events report about Redis into at most two records an outage. It has no goroutine and no timer: it
// learns everything from events. It is safe for concurrent use.
type outages struct {
	some atomic.Bool // at least one outage is not over: otherwise successes need no mutex

	mu       sync.Mutex         // guards what follows
	lasting  int                // outages that are not over
	of       map[string]*outage // by client ID
	refusals map[refusalKind]*repeats
}

// outage is a period in which Redis, or a node of a cluster, fails for one client. It stays in outages.of after
// its end, for the client's timeout at least.
type outage struct {
	began, last    mono.Time         // the first and the last failure
	back           mono.Time         // the first reply after the last failure; zero: there was none
	proven         bool              // Redis has replied for a slot that failed, since the last failure
	ended          mono.Time         // zero while it lasts
	failing        map[int]mono.Time // the last failure of each slot without a reply since; without a cluster, slot 0 alone
	failures, lost int
}

// refusalKind is a kind of error reply that a client gets: its code.
type refusalKind struct{ client, code string }

// repeats counts the refusals since the last warning.
type repeats struct {
	warned mono.Time
	more   int
}

// verdict classifies an error by its meaning for Redis.
type verdict int

const (
	silent  verdict = iota // nothing
	failing                // Redis did not reply, or cannot do the call now
	refused                // Redis replied, and refused this call: others may succeed
)

// judge returns what the error of an event says about Redis and, for a refusal, its kind. A loss says nothing: the failures
// that led to it have been reported by their own events.
func judge(err error) (verdict, string) {
	switch {
	case err == nil || errors.Is(err, ErrLost):
		return silent, ""
	case errors.Is(err, ErrNotReplicated):
		return refused, "not replicated"
	case errors.Is(err, ErrUntold):
		return refused, "not published"
	}
	var backend *BackendError
	var gaveUp *gaveUpError
	switch {
	case !errors.As(err, &backend):
		return silent, ""
	case errors.As(err, &gaveUp) && errors.Is(backend, call.ErrNoAnswer):
		return silent, "" // the caller's deadline may have been too short
	}
	// A full memory refuses acquires, not renewals, and a slot on the move refuses calls with several keys only.
	if code := call.Code(err); code == "OOM" || code == "TRYAGAIN" || code != "" && !call.Passes(err) {
		return refused, code
	}
	return failing, ""
}

// answered reports whether Redis has replied to the call that an event without a failure is about.
func answered(e Event) bool {
	if e.HandedOver {
		return false
	}
	if e.Err == nil {
		return true
	}
	var lost *LostError
	if errors.As(e.Err, &lost) {
		return lost.Reason == LostTaken || lost.Reason == LostOverwritten
	}
	// The refusal of a call that has waited may be older than the outage.
	return !e.HadToWait && isAny(e.Err, ErrLocked, ErrNotZero)
}

// source returns the client and the slot that an event is about.
func (e Event) source() (client string, slot int) {
	if e.lock == nil { // several locks
		return "", 0
	}
	return e.lock.Engine.ID, e.lock.Engine.Calls.Slot(e.lock.Name)
}

// settles is how long after an outage calls may still fail that were sent during it: the client's timeout.
func (e Event) settles() time.Duration {
	if e.lock == nil {
		return DefaultTimeout
	}
	return e.lock.Engine.Timeout
}

// happened returns when Redis replied, or did not. A hook may run later.
func (e Event) happened() mono.Time {
	if e.hold != nil && e.Held > 0 {
		return e.hold.core.Since().Add(e.Held)
	}
	return mono.Now()
}

// fail notes a failure, and reports whether it begins an outage.
func (o *outages) fail(e Event) (begins bool) {
	client, slot := e.source()
	at := e.happened()
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.of[client]
	switch {
	case out != nil && out.ended.IsZero():
	case out != nil && at.Sub(out.ended) < e.settles(): // sent during the outage
		return false
	default:
		o.forget(at)
		out = &outage{began: at, failing: map[int]mono.Time{}}
		o.of[client] = out
		o.count(1)
		begins = true
	}
	out.last, out.back, out.proven = max(out.last, at), 0, false
	out.failing[slot] = max(out.failing[slot], at)
	out.failures++
	return begins
}

// succeed notes that Redis has replied. If that ends an outage, it returns the attributes of the record.
func (o *outages) succeed(e Event) []slog.Attr {
	if !o.some.Load() {
		return nil
	}
	client, slot := e.source()
	at := e.happened()
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.of[client]
	if out == nil || !out.ended.IsZero() {
		return nil
	}
	if failed, ok := out.failing[slot]; ok && at >= failed {
		delete(out.failing, slot)
		out.proven = true
	}
	if out.back.IsZero() && at >= out.last {
		out.back = at
	}
	fades := outageFades
	if out.proven {
		fades = e.settles()
	}
	if len(out.failing) > 0 && at.Sub(out.last) < fades {
		return nil
	}
	out.ended, out.failing = at, nil
	o.count(-1)
	return []slog.Attr{
		slog.Duration("lasted", out.back.Sub(out.began)), slog.Int("failures", out.failures), slog.Int("lost", out.lost),
	}
}

// lose counts a hold that was lost during an outage.
func (o *outages) lose(e Event) {
	client, _ := e.source()
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.of[client]; out != nil && out.ended.IsZero() {
		out.lost++
	}
}

// warn reports whether a refusal is to be logged as a warning, and how many of its kind were not since the last one.
func (o *outages) warn(e Event, code string) (more int, yes bool) {
	client, _ := e.source()
	kind, now := refusalKind{client, code}, mono.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.refusals[kind]
	switch {
	case seen == nil:
		maps.DeleteFunc(o.refusals, func(_ refusalKind, r *repeats) bool { return now.Sub(r.warned) > outageForgotten })
		o.refusals[kind] = &repeats{warned: now}
		return 0, true
	case now.Sub(seen.warned) < refusalPause:
		seen.more++
		return 0, false
	}
	more, seen.more, seen.warned = seen.more, 0, now
	return more, true
}

// forget drops outages whose end or, while they last, last failure is older than outageForgotten. mu is held.
func (o *outages) forget(now mono.Time) {
	maps.DeleteFunc(o.of, func(_ string, out *outage) bool {
		if out.ended.IsZero() && now.Sub(out.last) > outageForgotten {
			o.count(-1)
			return true
		}
		return !out.ended.IsZero() && now.Sub(out.ended) > outageForgotten
	})
}

// count adds to the number of outages that are not over. mu is held.
func (o *outages) count(n int) {
	o.lasting += n
	o.some.Store(o.lasting > 0)
}
