package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// Client makes locks that share a driver, a watchdog and a subscription. Use [New]: the zero Client panics. Its methods
// that make locks do no I/O; [Client.NewMutex] says what a name can be. Redisson: RedissonClient.
type Client struct {
	config   config
	idPrefix string // the first bytes of its UUID, for the ids of permits
	engine   *engine.Engine
	presence *presence.Presence
	names    spellings
}

// New returns a client on a driver, for example goredisdriver.New(rdb). It does
// no I/O and starts no goroutine. An error matches [ErrInvalid]: also if the driver has no Redis client.
// Redisson: Redisson.create.
func New(d driver.Driver, options ...ClientOption) (*Client, error) {
	if d == nil {
		return nil, invalid("argument: the driver is nil")
	}
	if err := d.Check(); err != nil {
		return nil, invalid("argument: %w", err)
	}
	c := new(Client)
	c.config.Config = engine.Config{Driver: d, Lease: DefaultLease, Timeout: DefaultTimeout, HandsOver: true, Failed: c.failed}
	if err := applyAll(options, func(option ClientOption) error { return option.applyClient(&c.config) }); err != nil {
		return nil, err
	}
	c.config.ID, c.idPrefix = newUUID(c.config.tenant)
	c.config.Errors = engineErrors{c.config.ID}
	if c.config.MaxHold > 0 {
		c.config.Lease = min(c.config.Lease, c.config.MaxHold)
	}
	if !c.config.renewable(c.config.Lease) {
		return nil, invalid("option: a margin of %v leaves too little of a lease of %v", c.config.Margin, c.config.Lease)
	}
	c.engine = engine.New(c.config.Config)
	c.presence = presence.New(presence.Config{
		ID: c.config.ID, Self: c.config.identity.asWritten(), Anonymous: c.config.anonymous, Timeout: c.config.Timeout,
		Do:  func(ctx context.Context, r script.Request) call.Result { return c.engine.Calls.Do(ctx, r, nil) },
		Ask: c.identify, Go: c.engine.Tasks.Go, Expiry: c.engine.Calls.Expiry, Outlast: c.engine.Calls.Outlast,
		Others: c.engine.Tasks.Several, Closing: c.engine.Closing,
	})
	c.engine.Presence = c.presence
	return c, nil
}

// ID returns the client's UUID, which stands in front of the number of each of
// its owners. It is random, but for what [WithTenant] sets. Redisson: RedissonClient.getId.
func (c *Client) ID() string { return c.made().ID }

// NewOwner returns an owner that nobody else has.
func (c *Client) NewOwner() Owner { return Owner{c.made().NewOwner()} }

// Close gives back every hold, ends every call that waits with [ErrClosed], cancels the contexts of the holds with that
// cause, stops every goroutine and waits for them. The Redis client stays open. It takes no context, like [Hold.Unlock]:
// it is deferred, and a context that a signal has ended would leave every lock to its lease. If Redis does not answer, the
// error matches [context.DeadlineExceeded] after the client's timeout. It is another one if Redis refuses to take something
// back. What has not been given back ends with its lease. The hash that identifies the client expires within six minutes if Redis does
// not delete it within half a second. The error names what is left in Redis, and the time until it expires.
//
// A hook must call Close in a goroutine: Close waits for the call whose OnWait is running. Closing twice is closing once.
// Redisson: RedissonClient.shutdown, which keeps its locks.
func (c *Client) Close() error {
	e := c.made()
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	err := e.Close(ctx)
	switch {
	case errors.Is(err, engine.ErrKept):
		err = fmt.Errorf("holdfast: Close: %w", err)
	case err != nil:
		err = fmt.Errorf("holdfast: Close: Redis has not answered to all within %v: %w", c.config.Timeout, err)
	}
	if key, ttl, why := c.presence.Left(); why != nil {
		within := ttl.Truncate(time.Second) + time.Second
		err = joinOnce(err, fmt.Errorf("holdfast: Close: %q, which says who the client was, expires within %v: %w", key, within, why))
	}
	return err
}

// Shutdown lets holds end by themselves before it closes the client, as [net/http.Server.Shutdown] does with requests.
// Holds are renewed until they are unlocked or lost, and more may be nested in them. All other calls, waiting ones too,
// get [ErrClosed]. Then it returns what Close returns.
//
// If ctx ends first, it closes the client with the holds that are left, and the error names the locks of the first ten
// and matches ctx.Err() and the context's cause, too.
func (c *Client) Shutdown(ctx context.Context) error {
	c.made().Drain()
	err := c.awaitHolds(ctx)
	return joinOnce(err, c.Close())
}

// awaitHolds waits until nothing is held.
func (c *Client) awaitHolds(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		live := c.engine.Live()
		switch {
		case len(live) == 0:
			return nil
		case ctx.Err() != nil:
			ended := context.Cause(ctx)
			if !errors.Is(ended, ctx.Err()) {
				ended = joinOnce(ctx.Err(), ended)
			}
			names := visible.Text(fmt.Sprintf("%q", live[:min(len(live), engine.MostNamed)]))
			return fmt.Errorf("holdfast: Shutdown: %d still held, of %s: %w", len(live), names, ended)
		}
		call.Sleep(ctx, pause)
	}
}

// failed tells the hooks about a failure in the background.
func (c *Client) failed(l *engine.Lock, owner string, err error) {
	c.config.hooks.tellFailure(context.Background(), Event{Name: l.Name, Kind: l.Label, owner: Owner{owner}, Err: err, lock: l})
}
