package contenders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/call"
)

// A Holder is a session whose locks can be held for long: it renews their leases.
type Holder interface {
	Pairer
	// holds returns room for n holds. What is in it is the user's own.
	Holds(n int) Holds
}

// Holds are locks that are held, by their numbers. Different numbers may be used by
// different goroutines.
type Holds interface {
	Take(ctx context.Context, i int, name string) error
	// lost counts those that have ended before they were given back.
	Lost() int
	// giveBack gives back a hold, unless it has not been taken.
	GiveBack(i int) error
}

func (s holdfastSession) Holds(n int) Holds {
	return &holdfastHolds{s.client, make([]*holdfast.Hold, n)}
}

type holdfastHolds struct {
	client *holdfast.Client
	holds  []*holdfast.Hold
}

func (h *holdfastHolds) Take(ctx context.Context, i int, name string) (err error) {
	h.holds[i], err = h.client.NewMutex(name).Lock(ctx)
	return err
}

func (h *holdfastHolds) Lost() (n int) {
	for _, hold := range h.holds {
		if hold != nil && hold.Context().Err() != nil {
			n++
		}
	}
	return n
}

func (h *holdfastHolds) GiveBack(i int) error {
	if h.holds[i] == nil {
		return nil
	}
	return h.holds[i].Unlock()
}

func (s rueidislockSession) Holds(n int) Holds {
	return &rueidislockHolds{s.locker, make([]context.Context, n), make([]context.CancelFunc, n)}
}

type rueidislockHolds struct {
	locker   rueidislock.Locker
	contexts []context.Context
	releases []context.CancelFunc
}

// Take tries until it has the lock, which is free. WithContext would wait for a
// message when Redis has not answered an attempt within 20 ms, and none may come.
func (h *rueidislockHolds) Take(ctx context.Context, i int, name string) error {
	for {
		held, release, err := h.locker.TryWithContext(ctx, name)
		if err == nil {
			h.contexts[i], h.releases[i] = held, release //nolint:fatcontext // one of many, not derived from the one before
			return nil
		}
		if errors.Is(err, rueidislock.ErrLockerClosed) || ctx.Err() != nil {
			return err
		}
		call.Sleep(ctx, time.Millisecond)
	}
}

func (h *rueidislockHolds) Lost() (n int) {
	for _, ctx := range h.contexts {
		if ctx != nil && ctx.Err() != nil {
			n++
		}
	}
	return n
}

func (h *rueidislockHolds) GiveBack(i int) error {
	if h.releases[i] != nil {
		h.releases[i]()
	}
	return nil
}

// OpenHolder connects a contender.
func OpenHolder(ctx context.Context, c Contender, s Setup) (Holder, error) {
	opened, err := c.Open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Full(), err)
	}
	if h, ok := opened.(Holder); ok {
		return h, nil
	}
	return nil, errors.Join(fmt.Errorf("%s does not hold", c.Full()), opened.Close())
}
