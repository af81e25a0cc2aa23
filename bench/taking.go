package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

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
