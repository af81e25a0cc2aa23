package doctor

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// kind is a kind of lock: what a user needs for it, and a pair of lock and unlock, or what comes next to one.
type kind struct {
	rights.Kind

	try func(ctx context.Context, t trial) error
}

// trial is one try of a kind on one name.
type trial struct {
	client *holdfast.Client
	redis  redis.UniversalClient
	name   string
}

// tries are what is tried of each kind, by its name on the command line.
var tries = map[string]func(ctx context.Context, t trial) error{
	"mutex":                mutex(),
	"non-reentrant":        mutex(holdfast.NonReentrant()),
	"fenced":               mutex(fenced),
	"polling":              mutex(holdfast.Polling(callTimeout, callTimeout)),
	"fair":                 fair(),
	"fair-fenced":          fair(fenced),
	"reader":               reader,
	"writer":               writer(),
	"writer-writers-first": writer(holdfast.WritersFirst()),
	"writer-fenced":        writer(fenced),
	"permit-semaphore":     permit,
	"unleased-semaphore":   unleased,
	"latch":                latch,
}

// kinds are all kinds, in the order of docs/acl.md.
var kinds = func() (all []kind) {
	for _, k := range rights.Kinds {
		all = append(all, kind{k, tries[k.ID()]})
	}
	return all
}()

// inLine reports whether those who wait for it may stand in a line.
func (k kind) inLine() bool {
	return slices.Contains(k.Waiting.Keys, rights.Line.Keys[0]) && slices.Contains(k.Commands, "SUBSCRIBE")
}

// fenced has the last token end by itself, too.
var fenced = holdfast.Fenced(holdfast.TokenTTL(scratchTTL))

func mutex(options ...holdfast.MutexOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewMutex(t.name, options...)) }
}

func fair(options ...holdfast.AnyMutexOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewFairMutex(t.name, options...)) }
}

func reader(ctx context.Context, t trial) error {
	return pair(ctx, t.client.NewRWMutex(t.name).RLocker())
}

func writer(options ...holdfast.RWOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewRWMutex(t.name, options...)) }
}

// pair locks and unlocks. The lock would end by itself.
func pair(ctx context.Context, l holdfast.Locker) error {
	hold, err := l.TryLock(ctx, holdfast.FixedLease(scratchTTL))
	if err != nil {
		return err
	}
	return hold.Unlock()
}

// ready makes a semaphore with a permit, or a latch with a count, that ends by itself.
func (t trial) ready(ctx context.Context) error {
	return t.redis.Set(ctx, t.name, 1, scratchTTL).Err()
}

func permit(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return pair(ctx, t.client.NewPermitSemaphore(t.name))
}

func unleased(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	s := t.client.NewUnleasedSemaphore(t.name)
	if err := s.TryAcquire(ctx, 1); err != nil {
		return err
	}
	return s.Release(1)
}

func latch(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.client.NewLatch(t.name).CountDown()
}
