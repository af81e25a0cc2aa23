package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
)

// A holder is a session whose locks can be held for long: it renews their leases.
type holder interface {
	pairer
	// holds returns room for n holds. What is in it is the user's own.
	holds(n int) holds
}

// holds are locks that are held, by their numbers. Different numbers may be used by
// different goroutines.
type holds interface {
	take(ctx context.Context, i int, name string) error
	// lost counts those that have ended before they were given back.
	lost() int
	// giveBack gives back a hold, unless it has not been taken.
	giveBack(i int) error
}

func (s holdfastSession) holds(n int) holds {
	return &holdfastHolds{s.client, make([]*holdfast.Hold, n)}
}

type holdfastHolds struct {
	client *holdfast.Client
	holds  []*holdfast.Hold
}

func (h *holdfastHolds) take(ctx context.Context, i int, name string) (err error) {
	h.holds[i], err = h.client.NewMutex(name).Lock(ctx)
	return err
}

func (h *holdfastHolds) lost() (n int) {
	for _, hold := range h.holds {
		if hold != nil && hold.Context().Err() != nil {
			n++
		}
	}
	return n
}

func (h *holdfastHolds) giveBack(i int) error {
	if h.holds[i] == nil {
		return nil
	}
	return h.holds[i].Unlock()
}

func (s rueidislockSession) holds(n int) holds {
	return &rueidislockHolds{s.locker, make([]context.Context, n), make([]context.CancelFunc, n)}
}

type rueidislockHolds struct {
	locker   rueidislock.Locker
	contexts []context.Context
	releases []context.CancelFunc
}

// take tries until it has the lock, which is free. WithContext would wait for a
// message when Redis has not answered an attempt within 20 ms, and none may come.
func (h *rueidislockHolds) take(ctx context.Context, i int, name string) error {
	for {
		held, release, err := h.locker.TryWithContext(ctx, name)
		if err == nil {
			h.contexts[i], h.releases[i] = held, release //nolint:fatcontext // one of many, not derived from the one before
			return nil
		}
		if errors.Is(err, rueidislock.ErrLockerClosed) || ctx.Err() != nil {
			return err
		}
		pause(ctx, failPause)
	}
}

func (h *rueidislockHolds) lost() (n int) {
	for _, ctx := range h.contexts {
		if ctx != nil && ctx.Err() != nil {
			n++
		}
	}
	return n
}

func (h *rueidislockHolds) giveBack(i int) error {
	if h.releases[i] != nil {
		h.releases[i]()
	}
	return nil
}

// takeAll takes the locks from number first on. Their holds do not end with the
// context. If they cannot be had, it returns in the end, and the holds must not be
// used any more.
func takeAll(ctx context.Context, held holds, names []string, first int) error {
	lasting := context.WithoutCancel(ctx)
	return forEach(ctx, first, len(names), func(i int) error {
		if err := held.take(lasting, i, names[i]); err != nil {
			return fmt.Errorf("lock %d: %w", i, err)
		}
		return nil
	})
}

// giveBackAll gives back what is held, unless an error says that it may still change.
// Holds that have been lost are in the figures, and no reason to fail.
func giveBackAll(ctx context.Context, held holds, n int, failed error) error {
	if errors.Is(failed, errLeft) {
		return nil
	}
	return forEach(context.WithoutCancel(ctx), 0, n, func(i int) error {
		if err := held.giveBack(i); !errors.Is(err, holdfast.ErrLost) {
			return err
		}
		return nil
	})
}

// warm takes locks and gives them back as fast as takeAll does, so that the client's
// connections and buffers are there before a measurement, and waits until nothing
// moves any more.
func warm(ctx context.Context, s holder, prefix string) error {
	held, lasting := s.holds(hands), context.WithoutCancel(ctx)
	names := makeNames(prefix+":warm", hands)
	err := forEach(ctx, 0, hands, func(i int) error {
		for range 10 {
			if err := errors.Join(held.take(lasting, i, names[i]), held.giveBack(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, awaitQuiet(ctx))
}

func makeNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s:%d", prefix, i)
	}
	return names
}

// openHolder connects a contender.
func openHolder(ctx context.Context, c contender, s setup) (holder, error) {
	opened, err := c.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.full(), err)
	}
	if h, ok := opened.(holder); ok {
		return h, nil
	}
	return nil, errors.Join(fmt.Errorf("%s does not hold", c.full()), opened.close())
}
