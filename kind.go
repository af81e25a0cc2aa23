package holdfast

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// kind is what sets one kind of lock apart from the others: its keys, its
// channel and its scripts. Everything else is the same for all.
type kind struct {
	client  *Client
	name    string
	channel string
	invalid error // why the name cannot be used, or nil

	acquire, release, renew, force, inspect *driver.Script
}

// newMutexKind is the plain lock.
func newMutexKind(c *Client, name string) *kind {
	k := &kind{
		client: c, name: name, channel: wire.LockChannel(name),
		acquire: script.Acquire, release: script.Release, renew: script.Renew,
		force: script.Force, inspect: script.Inspect,
	}
	if err := wire.CheckName(name); err != nil {
		k.invalid = fmt.Errorf("holdfast: %w: %.80q: %w", ErrInvalidName, name, err)
	}
	return k
}

// askAcquire asks that owner, who holds the lock from times, holds it to times.
func (k *kind) askAcquire(owner Owner, lease time.Duration, from, to int) request {
	return func(_ context.Context, s sending) (driver.Call, error) {
		return driver.Call{
			Script: k.acquire,
			Keys:   []string{k.name},
			Args:   []string{millis(lease), owner.String(), strconv.Itoa(from), strconv.Itoa(to), s.again, s.limit},
		}, nil
	}
}

// askRelease asks that owner, who holds the lock from times, holds it to times.
func (k *kind) askRelease(owner Owner, from, to int) request {
	return func(ctx context.Context, s sending) (driver.Call, error) {
		publish, err := k.client.publishCommand(ctx)
		return driver.Call{
			Script: k.release,
			Keys:   []string{k.name, k.channel},
			Args: []string{
				owner.String(), strconv.Itoa(from), strconv.Itoa(to), s.again, publish, wire.Released, s.limit,
			},
		}, err
	}
}

// askRenew asks that the lock lives for at least ttl if owner holds it, and how
// often owner holds it. A ttl of 0 only asks.
func (k *kind) askRenew(owner Owner, ttl time.Duration) request {
	return func(_ context.Context, s sending) (driver.Call, error) {
		return driver.Call{
			Script: k.renew,
			Keys:   []string{k.name},
			Args:   []string{s.limit, owner.String(), millis(ttl)},
		}, nil
	}
}

// askForce asks that owner, in the wire's text, does not hold the lock.
func (k *kind) askForce(owner string) request {
	return func(ctx context.Context, s sending) (driver.Call, error) {
		publish, err := k.client.publishCommand(ctx)
		return driver.Call{
			Script: k.force,
			Keys:   []string{k.name, k.channel},
			Args:   []string{owner, publish, wire.Released, s.limit},
		}, err
	}
}

// askInspect asks how things stand.
func (k *kind) askInspect() request {
	return func(context.Context, sending) (driver.Call, error) {
		return driver.Call{Script: k.inspect, Keys: []string{k.name}}, nil
	}
}

// millis writes a duration as whole milliseconds.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
