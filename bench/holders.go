package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/call"
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
		call.Sleep(ctx, failPause)
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
