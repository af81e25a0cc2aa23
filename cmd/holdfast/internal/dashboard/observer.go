package dashboard

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

const (
	// idleShare is how many times as long as a look the pause behind it is at least.
	idleShare = 4
	// retryPause is the least pause behind a look that has failed.
	retryPause = time.Second
	// longestLook bounds one look at all locks, and longestRead one at a single lock.
	longestLook = 10 * time.Minute
	longestRead = 10 * time.Second
	// mostGlances is how many single locks are kept as they were read, and mostReads how many are read at once.
	mostGlances = 50
	mostReads   = 4
)

// errEnough ends a look that has found as many locks as are kept.
var errEnough = errors.New("enough locks")

// entry is a lock that was found, with its name as people see it, and the same in small letters to look for.
type entry struct {
	survey.Lock

	shown, lower string
}

// glance is a single lock as it was read.
type glance struct {
	lock survey.Lock
	err  error
	when time.Time // by our clock
}

// observer looks at Redis for all who look at the page.
type observer struct {
	Config

	reads   chan struct{} // has room for as many as may read at once
	guesses *guesses

	mu      sync.Mutex
	started time.Time
	entries []entry
	looks   int // with success
	more    bool
	tooLong int       // names
	looked  time.Time // when the last that was a success ended
	took    time.Duration
	next    time.Time // when the next result is to be expected
	away    error
	since   time.Time     // when Redis was there last, or we began
	offset  time.Duration // of Redis's clock against ours
	history *history
	glances map[string]glance
}

func newObserver(cfg Config) *observer {
	now := time.Now()
	return &observer{
		Config: cfg, reads: make(chan struct{}, mostReads), guesses: &guesses{log: cfg.Log}, started: now, since: now, next: now.Add(cfg.Interval), history: newHistory(), glances: map[string]glance{},
	}
}

// run looks until ctx ends.
func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := time.NewTimer(o.look(ctx))
		o.guesses.report(time.Now())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// look goes through Redis once, and returns for how long to pause.
func (o *observer) look(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	began := time.Now()
	var locks []survey.Lock
	more, tooLong := false, 0
	first, err := o.Redis.Time(ctx).Result()
	if err == nil {
		tooLong, err = survey.Scan(ctx, o.Redis, o.Options, func(l survey.Lock) error {
			if len(locks) == o.Most {
				more = true
				return errEnough
			}
			locks = append(locks, l)
			return nil
		})
	}
	if more {
		err = nil
	}
	var last time.Time
	if err == nil {
		last, err = o.Redis.Time(ctx).Result()
	}
	took := time.Since(began)
	if err != nil {
		return o.failed(ctx, err)
	}
	return o.found(locks, more, tooLong, first, last, took)
}

// failed notes a look that did not succeed.
func (o *observer) failed(ctx context.Context, err error) time.Duration {
	pause := max(o.Interval, retryPause)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return pause // we are to end
	}
	o.mu.Lock()
	told := o.away != nil
	o.away, o.next = err, time.Now().Add(pause)
	o.mu.Unlock()
	if !told {
		o.Log("Redis (%s) cannot be used: %s", o.Server, present.Safe(o.Explain(err)))
	}
	return pause
}

// found notes a look that did.
func (o *observer) found(locks []survey.Lock, more bool, tooLong int, first, last time.Time, took time.Duration) time.Duration {
	entries := make([]entry, len(locks))
	for i, l := range locks {
		shown := present.Safe(l.Name)
		entries[i] = entry{l, shown, strings.ToLower(shown)}
	}
	pause := max(o.Interval, idleShare*took)
	o.mu.Lock()
	was, since := o.away, o.since
	now := time.Now()
	o.entries, o.more, o.tooLong, o.took, o.away = entries, more, tooLong, took, nil
	o.looked, o.since, o.next, o.offset = now, now, now.Add(pause+took), last.Sub(now)
	o.looks++
	o.history.scanned(locks, first, last, !more)
	o.mu.Unlock()
	if was != nil {
		o.Log("Redis (%s) answers again, after %s", o.Server, present.Span(now.Sub(since)))
	}
	return pause
}

// redisNow is what Redis's clock says, or nearly so. The caller holds o.mu.
func (o *observer) redisNow() time.Time { return time.Now().Add(o.offset) }

// glance reads one lock, unless that was done a moment ago.
func (o *observer) glance(ctx context.Context, name string) (glance, error) {
	if g, ok := o.fresh(name); ok {
		return g, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	select {
	case o.reads <- struct{}{}:
	case <-ctx.Done():
		return glance{}, ctx.Err()
	}
	defer func() { <-o.reads }()
	if g, ok := o.fresh(name); ok { // another has read it while this one waited
		return g, nil
	}
	lock, err := survey.Read(ctx, o.Redis, name)
	if err != nil && !errors.Is(err, survey.ErrNotFound) && !errors.Is(err, survey.ErrOtherKind) {
		return glance{}, err
	}
	g := glance{lock, err, time.Now()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.history.see(lock, false)
	}
	if len(o.glances) >= mostGlances {
		clear(o.glances)
	}
	o.glances[name] = g
	return g, nil
}

// fresh is a glance at a lock that is not older than the interval.
func (o *observer) fresh(name string) (glance, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g, ok := o.glances[name]
	return g, ok && time.Since(g.when) < o.Interval
}

// takenAway notes that a lock was taken away by us.
func (o *observer) takenAway(l survey.Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.history.takenAway(l, o.redisNow())
	delete(o.glances, l.Name)
}
