package doctor

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kinds"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// trial is one try of a kind on one name.
type trial struct {
	client *holdfast.Client
	redis  redis.UniversalClient
	name   string
}

// ready makes a semaphore with a permit, or a latch with a count, that ends by itself.
func (t trial) ready(ctx context.Context) error {
	return t.redis.Set(ctx, t.name, 1, scratchTTL).Err()
}

// try makes a pair of lock and unlock, or what comes next to one. What is locked would end by itself.
func (t trial) try(ctx context.Context, k rights.Kind) error {
	if k.Number {
		if err := t.ready(ctx); err != nil {
			return err
		}
	}
	switch k.Kind {
	case protocol.SemaphoreKind:
		s := t.client.NewUnleasedSemaphore(t.name)
		if err := s.TryAcquire(ctx, 1); err != nil {
			return err
		}
		return s.Release(1)
	case protocol.LatchKind:
		return t.client.NewLatch(t.name).CountDown()
	}
	hold, err := kinds.Open(t.client, k.Variant, t.name, holdfast.TokenTTL(scratchTTL)).TryLock(ctx, holdfast.FixedLease(scratchTTL))
	if err != nil {
		return err
	}
	return hold.Unlock()
}
