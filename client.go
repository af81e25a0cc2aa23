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
	"github.com/holdfast-go/holdfast/internal/protocol"
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

// NewMutex returns the lock of the given name. It does no I/O. The options are [NonReentrant], [Fenced] and [Polling].
//
// A name has 1 to 1,024 bytes of any value, also a line break or NUL, as in Redisson. It has no braces; or its first
// closing brace comes after its first opening one, with at least one byte between, and these bytes choose the cluster
// slot. With any other name every call returns [ErrInvalid]. The names x and {x} are two locks that share the keys and
// channels beside them, as in Redisson: the waitlist of a fair mutex, for example, and the held permits of a
// [PermitSemaphore]. Use one of the two. A client returns ErrInvalid for the one that it meets second, unless it has met
// hundreds of others in between; two clients get no such error. docs/kinds/mutex.md has more.
//
// Waiters of several processes get the lock in the order in which they came, as a rule
// and not as a promise: one of each stands in a line in Redis, and a release grants the lock
// to the first. One that is dead is passed over; a process passes the lock on inside for
// some milliseconds before others have their turn; and who does not stand in line, as
// Redisson's waiters, has turns in between. Redisson: getLock.
func (c *Client) NewMutex(name string, options ...MutexOption) *Mutex {
	config := kindOptions(options)
	return &Mutex{lock{config.handle(c, name, protocol.MutexKind, config.mutex(name))}}
}

// NewFairMutex returns a [Mutex] that is fair: waiters of all processes come first, first served. The options are
// [NonReentrant] and [Fenced].
//
// Lock takes the last place in a line in Redis, which Redisson's waiters share, and keeps it until it is let in or
// returns. TryLock takes no place, and is refused while others stand in line, even if the lock is free: its [LockedError]
// then has neither a Holder nor a TTL.
//
// A waiter keeps its place by asking every one and a half seconds. After four and a half without an ask (longer behind
// the first eight of more than 125) it has lost it, and stands at the end if it comes back. Up to two minutes in which
// Redis answers nobody do not count; but a first ask right after them may be let in before those who wait. A
// [WithTimeout] beyond 8 s can cost a place.
//
// A Mutex of the same name from NewMutex respects the holder but not the line: do not use it beside this one. Redisson:
// getFairLock, with [NonReentrant] getNonReentrantFairLock.
func (c *Client) NewFairMutex(name string, options ...AnyMutexOption) *Mutex {
	config := kindOptions(options)
	return &Mutex{lock{config.handle(c, name, protocol.FairKind, protocol.Fair{Mutex: config.mutex(name)})}}
}

// NewRWMutex returns the read-write lock of the given name. The options are [WritersFirst], [NonReentrant], which is about
// each side for itself, and [Fenced], which gives tokens to writers only. Redisson: getReadWriteLock.
func (c *Client) NewRWMutex(name string, options ...RWOption) *RWMutex {
	config := kindOptions(options)
	write := protocol.NewWrite(name)
	write.Fenced, write.TokenTTL, write.WritersFirst = config.fenced, config.tokenTTL, config.writersFirst
	writer := config.handle(c, name, protocol.WriteKind, write)
	config.fenced = false
	reader := config.handle(c, name, protocol.ReadKind, protocol.NewRead(name))
	return &RWMutex{lock: lock{writer}, reader: RLocker{lock{reader}}}
}

// NewPermitSemaphore returns the semaphore of the given name. An [UnleasedSemaphore] of the same name would be another
// thing on the same key. Redisson: getPermitExpirableSemaphore.
func (c *Client) NewPermitSemaphore(name string, options ...SemaphoreOption) *PermitSemaphore {
	s := &PermitSemaphore{object{
		handle: newHandle(c, name, protocol.PermitsKind, nil), keys: []string{name, protocol.PermitsKey(name)},
		holders: protocol.PermitsChannel(name),
	}}
	s.trySet = s.TrySetPermits
	s.configure(options)
	return s
}

// NewUnleasedSemaphore returns the semaphore of the given name. Redisson: getSemaphore.
func (c *Client) NewUnleasedSemaphore(name string, options ...SemaphoreOption) *UnleasedSemaphore {
	s := &UnleasedSemaphore{object{handle: newHandle(c, name, protocol.SemaphoreKind, nil), keys: []string{name}}}
	s.trySet = s.TrySetPermits
	s.configure(options)
	return s
}

// NewLatch returns the latch of the given name. On a cluster the name has no braces, since its channel, as Redisson spells
// it, would lie in another slot: every call then returns [ErrInvalid]. Redisson: getCountDownLatch.
func (c *Client) NewLatch(name string) *Latch {
	l := newHandle(c, name, protocol.LatchKind, protocol.Latch{Name: name})
	l.Refuser = notZero{name}
	if c.engine.Driver.Slotted() && !protocol.LatchFits(name) {
		l.refuse(invalid("name: %q: with braces in its name, the channel of a latch is in another slot", name))
	}
	return &Latch{object{handle: l, keys: []string{name}}}
}

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
	c.config.hooks.tellFailure(context.Background(), Event{Name: l.Name, Kind: l.Kind.Name, owner: Owner{owner}, Err: err, lock: l})
}

// made returns the client's engine. It panics if the client is a zero value.
func (c *Client) made() *engine.Engine {
	if c == nil || c.engine == nil {
		panic("holdfast: this Client is a zero value; make one with New")
	}
	return c.engine
}

// newPermitID returns 16 bytes for a permit: the first of the client's UUID, by which people find out whose it is, and
// random ones.
func (c *Client) newPermitID() string {
	return c.idPrefix + protocol.PermitMark + newID()[protocol.PermitPrefix+len(protocol.PermitMark):]
}
