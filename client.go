package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/tasks"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// listenAfter is how long a hold lasts before its holder listens for a forced
// unlock: shorter holds would pay more for the subscription than it can tell
// them.
const listenAfter = time.Second

// Client makes locks that share a driver, a watchdog and a subscription. Use
// [New]. All methods are safe for concurrent use. Redisson: RedissonClient.
type Client struct {
	driver driver.Driver
	config config
	id     string // the UUID in front of every owner's number
	// idPrefix are its first bytes, for the ids of permits.
	idPrefix string

	calls    *call.Caller
	watchdog *watchdog.Watchdog[*ownerState, group]
	hub      *wakeup.Hub
	queues   *waitqueue.Queues
	tasks    tasks.Group // calls of users, and the goroutines of the client
	presence *presence.Presence

	// closing ends when Close begins: nothing new is started, and nobody waits
	// any longer. life ends when Close has ended: nothing goes on after it.
	// draining ends before, when Shutdown begins: no new holds, and nobody waits for one.
	draining, closing, life context.Context
	drain, close, die       context.CancelFunc
	numbers                 atomic.Int64 // the last owner's
	mu                      sync.Mutex
	states                  ownerStates // guarded by mu
	retired                 retiredOwners
}

// New returns a client on a driver, for example goredisdriver.New(rdb). It does
// no I/O and starts no goroutine. An error matches [ErrInvalid]. Redisson:
// Redisson.create.
func New(d driver.Driver, options ...ClientOption) (*Client, error) {
	if d == nil {
		return nil, fmt.Errorf("holdfast: %w argument: the driver is nil", ErrInvalid)
	}
	c := &Client{
		driver: d,
		config: config{lease: DefaultLease, timeout: DefaultTimeout},
		states: newOwnerStates(),
	}
	c.id, c.idPrefix = newUUID()
	for _, option := range options {
		if option == nil {
			return nil, errNilOption
		}
		if err := option.applyClient(&c.config); err != nil {
			return nil, err
		}
	}
	if c.config.maxHold > 0 {
		c.config.lease = min(c.config.lease, c.config.maxHold)
	}
	if !c.config.renewable(c.config.lease) {
		return nil, fmt.Errorf("holdfast: %w option: a margin of %v leaves too little of a lease of %v",
			ErrInvalid, c.config.margin, c.config.lease)
	}
	c.draining, c.drain = context.WithCancel(context.Background())
	c.closing, c.close = context.WithCancel(context.Background())
	c.life, c.die = context.WithCancel(context.Background())
	c.calls = call.New(call.Config{
		Driver: d, Tasks: &c.tasks, Life: c.life, Closing: c.closing,
		Timeout: c.config.timeout, Replicas: c.config.replicas, AckTimeout: c.config.ackTimeout,
	})
	c.watchdog = watchdog.New(watchdog.Config[*ownerState, group]{
		Group: groupOf, Weight: weightOf, Renew: renewals{c.calls}.send, Lost: lost, LongHeld: longHeld, LongHeldAfter: listenAfter,
		Timeout: c.config.timeout / 3, Silence: call.ErrNoAnswer, Margin: c.config.margin,
	})
	c.presence = presence.New(presence.Config{
		ID: c.id, Self: c.config.identity.asWritten(), Anonymous: c.config.anonymous, Timeout: c.config.timeout,
		Do: c.calls.Do, Ask: c.identify, Go: c.tasks.Go, Closing: c.closing,
	})
	c.hub = wakeup.New(d.Listen)
	c.queues = waitqueue.New(func(channel string, q *waitqueue.Queue) func() { return c.hub.Join(channel, q).Leave })
	return c, nil
}

// ID returns the client's UUID, which stands in front of the number of each of
// its owners. Redisson: RedissonClient.getId.
func (c *Client) ID() string { return c.id }

// NewOwner returns an owner that nobody else has.
func (c *Client) NewOwner() Owner {
	var room [64]byte // id is a UUID
	return Owner{string(strconv.AppendInt(append(append(room[:0], c.id...), ':'), c.numbers.Add(1), 10))}
}

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
	ctx, cancel := context.WithTimeout(context.Background(), c.config.timeout)
	defer cancel()
	c.drain()
	c.close()
	c.mu.Lock()
	held := slices.Collect(c.states.each())
	c.mu.Unlock()
	for _, s := range held {
		s.evict()
	}
	c.presence.Withdraw()
	err := c.tasks.Wait(ctx)
	c.die()
	stopped := make(chan struct{})
	go func() { // owned by this call; outlives it only if the time runs out
		defer close(stopped)
		c.watchdog.Stop()
		c.hub.Close()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("holdfast: Close: Redis has not answered to all within %v: %w", c.config.timeout, err)
	}
	return nil
}

// Shutdown lets holds end by themselves before it closes the client, as
// [net/http.Server.Shutdown] does with requests. What is held goes on, renewed as before, until
// it is unlocked or lost, and more may be nested in it: a call goes on if its owner holds the lock when
// it is made. All others, also those that wait already, get [ErrClosed]. Then it closes the client, and returns what Close returns.
//
// If ctx ends first, it closes the client all the same, with the holds that are left, and
// the error matches ctx.Err() and the context's cause, too. Redisson has no counterpart.
func (c *Client) Shutdown(ctx context.Context) error {
	c.drain()
	err := c.awaitHolds(ctx)
	return errors.Join(err, c.Close())
}

// awaitHolds waits until nothing is held.
func (c *Client) awaitHolds(ctx context.Context) error {
	for pause := time.Millisecond; c.live() > 0; pause = min(2*pause, 100*time.Millisecond) {
		call.Sleep(ctx, pause)
		if live := c.live(); ctx.Err() != nil && live > 0 {
			return fmt.Errorf("holdfast: Shutdown: %d holds have not ended by themselves: %w", live,
				errors.Join(ctx.Err(), context.Cause(ctx)))
		}
	}
	return nil
}

// live is how many holds are neither lost nor unlocked.
func (c *Client) live() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.states.each() {
		n += s.live()
	}
	return n
}

// begin counts a user's call, or refuses it.
func (c *Client) begin(ctx context.Context, op, name string) error {
	if ctx.Err() != nil {
		return tooLate(ctx, op, name)
	}
	if c.closing.Err() != nil || !c.tasks.Begin() {
		return problem(name, "", ErrClosed)
	}
	return nil
}

// untilClosing returns a context that also ends when the client is closed.
func (c *Client) untilClosing(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// errTimeIsUp is the cause of a context that withDeadline has ended, errWaitOver of one whose Wait has run out. An error
// for a user has call.ErrNoAnswer in their place (see forUser): a context that a user ends with it is still ended by the user.
var (
	errTimeIsUp = fmt.Errorf("%w", call.ErrNoAnswer)
	errWaitOver = fmt.Errorf("%w: the wait is over", call.ErrNoAnswer)
)

// withDeadline bounds ctx by d; timeIsUp tells that end from the caller's.
func withDeadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTimeIsUp)
}

// withinTimeout bounds a call that is several calls by the client's timeout.
func (c *Client) withinTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return withDeadline(ctx, c.config.timeout)
}

// timeIsUp reports whether it was a bound of ours that has ended ctx, and not the caller.
func timeIsUp(ctx context.Context) bool { return isOwnBound(context.Cause(ctx)) }

// endedByCaller reports whether ctx has ended, and not by a bound of ours.
func endedByCaller(ctx context.Context) bool { return ctx.Err() != nil && !timeIsUp(ctx) }

// isOwnBound reports whether an error is the end of a bound of ours.
func isOwnBound(err error) bool {
	return err == errTimeIsUp || err == errWaitOver //nolint:errorlint // itself: what wraps it is a caller's
}

// failed tells the hooks about a failure in the background.
func (c *Client) failed(k *kind, owner Owner, err error) {
	c.config.hooks.tellFailure(context.Background(), Event{Name: k.name, Kind: k.label, owner: owner, Err: err})
}

// notReplicated is the error for a grant that too few replicas have.
func (c *Client) notReplicated(name string, res call.Result) error {
	return problem(name, fmt.Sprintf("%d of %d acknowledged it in time", res.Acknowledged, c.config.replicas), ErrNotReplicated)
}

// beyondMaxHold is the error for a lease that reaches beyond what WithMaxHold allows.
func (c *Client) beyondMaxHold(name string) error {
	return problem(name, "the lease is longer than WithMaxHold allows, "+c.config.maxHold.String(), ErrInvalid)
}
