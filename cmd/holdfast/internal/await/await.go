// Package await waits until nobody holds a lock, and takes nothing.
//
// It listens on the channel on which a release is announced, and looks again at each message, when
// the lock should have expired, and every few seconds: messages get lost, nothing is published at the end of a
// lease, and a fair lock that nobody waits for is given back in silence.
//
// Goroutines: the driver's listener has some, which end with [Free]. They call wake and never block.
package await

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// How long to listen without looking; a fair lock may be given back in silence.
const (
	longestSleep = 3 * time.Second
	fairSleep    = 500 * time.Millisecond
	leastSleep   = 10 * time.Millisecond
)

// ErrUnclear says that Redis does not show whether anybody holds it.
var ErrUnclear = errors.New("redis does not show whether anybody holds it")

// ErrHeld says that somebody holds it, and one look was asked for.
var ErrHeld = errors.New("somebody holds it")

// Config says what to wait for.
type Config struct {
	Redis  redis.UniversalClient
	Driver driver.Driver
	Name   string
	// Kind is what the name is, where Redis may not show it: a [survey.Latch], or [survey.Permits] of which none
	// is held; empty: as Redis shows it.
	Kind survey.Kind
	// Once looks once and does not wait.
	Once bool
	// Seen, if not nil, is told what each look has found, and whether nobody holds it.
	Seen func(l survey.Lock, free bool)
}

// Free returns when nobody holds the lock, or a permit of it; of a latch, when its count is zero. Otherwise it
// returns ctx's error, [ErrUnclear] for what has no holders, or what [survey.Read] has said.
func Free(ctx context.Context, c Config) error {
	woken := make(chan struct{}, 1)
	listener := c.Driver.Listen(func(driver.Event) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer listener.Close()
	var listening []string
	for {
		l, free, err := c.look(ctx)
		switch {
		case free || err != nil:
			return err
		case c.Once:
			return ErrHeld
		case l.Kind == survey.Permits: // once the last is given back, Redis does not show it any more
			c.Kind = survey.Permits
		}
		wanted := channels(l)
		for _, channel := range listening {
			if !slices.Contains(wanted, channel) {
				listener.Unsubscribe(channel)
			}
		}
		for _, channel := range wanted { // once it is confirmed we are woken, and look again
			listener.Subscribe(channel)
		}
		listening = wanted
		if err := sleep(ctx, pause(l), woken); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-woken:
	case <-timer.C:
	}
	return nil
}

// look asks how it stands.
func (c Config) look(ctx context.Context) (l survey.Lock, free bool, err error) {
	l, err = survey.Read(ctx, c.Redis, c.Name)
	switch {
	case errors.Is(err, survey.ErrNotFound):
		return l, true, nil
	case err != nil:
		return l, false, err
	}
	if l, err = c.sure(l); err != nil {
		return l, false, err
	}
	free = l.State != survey.Held && l.State != survey.Closed
	if c.Seen != nil {
		c.Seen(l, free)
	}
	return l, free, nil
}

// sure makes what Redis does not show of a number what it is said to be.
func (c Config) sure(l survey.Lock) (survey.Lock, error) {
	unclear := l.Kind == survey.Number || l.Kind == survey.Semaphore
	switch {
	case unclear && c.Kind == survey.Permits:
		l.Kind, l.State = survey.Permits, survey.Free
	case l.Kind == survey.Number && c.Kind == survey.Latch:
		l.Kind, l.State = survey.Latch, survey.Closed
		if l.Count <= 0 {
			l.State = survey.Open
		}
	case c.Kind != "" && l.Kind != c.Kind:
		return l, survey.ErrOtherKind
	case unclear:
		return l, ErrUnclear
	}
	return l, nil
}

// channels are where the release of a lock is announced.
func channels(l survey.Lock) (all []string) {
	switch l.Kind {
	case survey.RW:
		return []string{protocol.RWChannel(l.Name)}
	case survey.Permits:
		return []string{protocol.SemaphoreChannel(l.Name)}
	case survey.Latch:
		return []string{protocol.LatchChannel(l.Name)}
	case survey.Fair: // told are who is next, and a holder from whom it is taken
		for _, h := range l.Holders {
			all = append(all, protocol.WaiterChannel(l.Name, h.Owner))
		}
		for _, w := range l.Waiters[:min(1, len(l.Waiters))] {
			all = append(all, protocol.WaiterChannel(l.Name, w.Owner))
		}
	default:
	}
	return append(all, protocol.LockChannel(l.Name))
}

// pause is for how long to listen before the next look.
func pause(l survey.Lock) time.Duration {
	longest := longestSleep
	if l.Kind == survey.Fair || l.Kind == survey.Mutex && l.Waiting == 0 { // it may be a fair one
		longest = fairSleep
	}
	left := l.TTL
	if l.Kind == survey.Permits || left == 0 {
		left = l.Left()
	}
	if left == holdfast.NoExpiry || left == 0 {
		return longest
	}
	return min(longest, min(left, longest)+leastSleep)
}
