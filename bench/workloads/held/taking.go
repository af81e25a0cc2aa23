package held

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// TakeAll takes the locks from number first on. Their holds do not end with the
// context. If they cannot be had, it returns in the end, and the holds must not be
// used any more.
func TakeAll(ctx context.Context, held contenders.Holds, names []string, first int) error {
	lasting := context.WithoutCancel(ctx)
	return workloads.ForEach(ctx, first, len(names), func(i int) error {
		if err := held.Take(lasting, i, names[i]); err != nil {
			return fmt.Errorf("lock %d: %w", i, err)
		}
		return nil
	})
}

// GiveBackAll gives back what is held, unless an error says that it may still change.
// Holds that have been lost are in the figures, and no reason to fail.
func GiveBackAll(ctx context.Context, held contenders.Holds, n int, failed error) error {
	if errors.Is(failed, workloads.ErrLeft) {
		return nil
	}
	return workloads.ForEach(context.WithoutCancel(ctx), 0, n, func(i int) error {
		if err := held.GiveBack(i); !errors.Is(err, holdfast.ErrLost) {
			return err
		}
		return nil
	})
}

// Warm takes locks and gives them back as fast as takeAll does, so that the client's
// connections and buffers are there before a measurement, and waits until nothing
// moves any more.
func Warm(ctx context.Context, s *contenders.Session, prefix string) error {
	held, lasting := s.Holds(workloads.Hands), context.WithoutCancel(ctx)
	names := MakeNames(prefix+":warm", workloads.Hands)
	err := workloads.ForEach(ctx, 0, workloads.Hands, func(i int) error {
		for range 10 {
			if err := errors.Join(held.Take(lasting, i, names[i]), held.GiveBack(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, places.AwaitQuiet(ctx))
}

// MakeNames returns n names.
func MakeNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s:%d", prefix, i)
	}
	return names
}
