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
)

// Client makes locks that share a driver, a watchdog and a subscription. Use
// [New]: the zero Client panics. All methods are safe for concurrent use. Redisson: RedissonClient.
type Client struct {
	config   config
	idPrefix string // the first bytes of its UUID, for the ids of permits
	engine   *engine.Engine
	presence *presence.Presence
}

// New returns a client on a driver, for example goredisdriver.New(rdb). It does
// no I/O and starts no goroutine. An error matches [ErrInvalid]; it says so if the driver has no Redis client, too.
// Redisson: Redisson.create.
func New(d driver.Driver, options ...ClientOption) (*Client, error) {
	if d == nil {
		return nil, invalid("argument: the driver is nil")
	}
	if err := d.Check(); err != nil {
		return nil, invalid("argument: %w", err)
	}
	id, prefix := newUUID()
	c := &Client{idPrefix: prefix}
	c.config.Config = engine.Config{
		Driver: d, ID: id, Lease: DefaultLease, Timeout: DefaultTimeout, HandsOver: true, Errors: engineErrors{id}, Failed: c.failed,
	}
	if err := applyAll(options, func(option ClientOption) error { return option.applyClient(&c.config) }); err != nil {
		return nil, err
	}
	if c.config.MaxHold > 0 {
		c.config.Lease = min(c.config.Lease, c.config.MaxHold)
	}
	if !c.config.renewable(c.config.Lease) {
		return nil, invalid("option: a margin of %v leaves too little of a lease of %v", c.config.Margin, c.config.Lease)
	}
	c.engine = engine.New(c.config.Config)
	c.presence = presence.New(presence.Config{
		ID: id, Self: c.config.identity.asWritten(), Anonymous: c.config.anonymous, Timeout: c.config.Timeout,
		Do: c.engine.Calls.Do, Ask: c.identify, Go: c.engine.Tasks.Go, Closing: c.engine.Closing,
	})
	c.engine.Presence = c.presence
	return c, nil
}

// ID returns the client's UUID, which stands in front of the number of each of
// its owners. Redisson: RedissonClient.getId.
func (c *Client) ID() string { return c.engine.ID }

// NewOwner returns an owner that nobody else has.
func (c *Client) NewOwner() Owner { return Owner{c.engine.NewOwner()} }

// Close gives back every hold, ends every call that waits with [ErrClosed],
// cancels the contexts of the holds with that cause, stops every goroutine and
// waits for them. It does not close the Redis client that the driver wraps.
//
// It takes no context on purpose, like [Hold.Unlock]: it is deferred, and under a
// context that a signal has ended it would leave every lock to its lease. It
// returns nil once nothing is left. If Redis does not answer, it returns an error
// that matches [context.DeadlineExceeded] after the client's timeout
// ([WithTimeout]); what has not been given back then ends with its lease, and
// goroutines that wait for Redis end when the Redis client's timeouts let them.
//
// A hook calls Close in a goroutine: Close waits for the call whose OnWait is running, and for no other hook.
// Closing twice is closing once. Redisson: RedissonClient.shutdown, which keeps
// its locks.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	if err := c.engine.Close(ctx); err != nil {
		return fmt.Errorf("holdfast: Close: Redis has not answered to all within %v: %w", c.config.Timeout, err)
	}
	return nil
}

// Shutdown lets holds end by themselves before it closes the client, as
// [net/http.Server.Shutdown] does with requests. What is held goes on, renewed as before, until
// it is unlocked or lost, and more may be nested in it: a call goes on if its owner holds the lock when
// it is made. All others, also those that wait already, get [ErrClosed]. Then it closes the client, and returns what Close returns.
//
// If ctx ends first, it closes the client all the same, with the holds that are left, and
// the error names the locks of the first ten and matches ctx.Err() and the context's cause, too. Redisson has no counterpart.
func (c *Client) Shutdown(ctx context.Context) error {
	c.engine.Drain()
	err := c.awaitHolds(ctx)
	return errors.Join(err, c.Close())
}

// awaitHolds waits until nothing is held.
func (c *Client) awaitHolds(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		live := c.engine.Live()
		switch {
		case len(live) == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("holdfast: Shutdown: %d holds have not ended by themselves, of %q: %w", len(live),
				live[:min(len(live), namedHolds)], errors.Join(ctx.Err(), context.Cause(ctx)))
		}
		call.Sleep(ctx, pause)
	}
}

// namedHolds is how many holds the error of Shutdown names.
const namedHolds = 10

// failed tells the hooks about a failure in the background.
func (c *Client) failed(l *engine.Lock, owner string, err error) {
	c.config.hooks.tellFailure(context.Background(), Event{Name: l.Name, Kind: l.Label, owner: Owner{owner}, Err: err})
}
