package presence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	// fullAfter is how long after a full write the next one is due.
	fullAfter = protocol.ClientTTL / 3
	// retryAfter is how long after a failure a full write is due, and rightAfter is that of one that lacked a right.
	retryAfter, rightAfter = 10 * time.Second, 20 * time.Minute
	// farewell bounds how long a closing client waits for a request, and farewells is how often it sends the last one: within
	// farewell the driver notices a dead connection, and uses another one next.
	farewell, farewells = 250 * time.Millisecond, 2
)

// Config is what a [Presence] works with.
type Config struct {
	// ID is the client's UUID.
	ID string
	// Self is what the client says of itself. What is zero has a default; Age is not used.
	Self protocol.Client
	// Anonymous keeps the client from writing, and from asking except by [Presence.Who].
	Anonymous bool
	// Timeout is the client's.
	Timeout time.Duration
	// Do sends a request until it is answered, ctx ends, or the client's timeout is over.
	Do func(ctx context.Context, request script.Request) call.Result
	// Ask returns what the hash at key says, and since when these fields of it are so.
	Ask func(ctx context.Context, key string, fields []string) (protocol.Known, error)
	// Go runs f in a goroutine that Close waits for. It reports false if it does not run f.
	Go func(f func()) bool
	// Expiry is from when on none of these attempts can have an effect any more, and Outlast waits until that is known, or ctx ends.
	Expiry  func(attempts []*call.Attempt) mono.Time
	Outlast func(ctx context.Context, attempts []*call.Attempt)
	// Others reports whether Close waits for anything but the farewell.
	Others func() bool
	// Closing ends when the client begins to close.
	Closing context.Context
}

// Presence is what a client says of itself, and how it learns who others are. Use [New]. It is safe
// for concurrent use.
type Presence struct {
	config    Config
	self      protocol.Client
	began     time.Time
	key       string
	questions askLimit
	due       atomic.Int64 // when the next full write is: a mono.Time

	mu      sync.Mutex      // guards what follows
	writing bool            // the task runs
	written bool            // something may stand in Redis, with the write under way
	stands  bool            // without it
	open    []*call.Attempt // writes without an answer, which may have their effect yet
	expires mono.Time       // when that expires at the latest
	kept    error           // why the last farewell has failed, until Left has told it
	leaving bool            // Withdraw has been called: only the farewell is still sent
	left    mono.Time       // when it was called
	stays   mono.Time       // until when a hold outlasts the client
	timer   *time.Timer     // calls writeIfNamed when the next full write is due; nil: there was none yet
	held    heldSince
}

// New returns a presence that has written nothing yet. It does no I/O.
func New(config Config) *Presence {
	p := &Presence{
		config: config, self: withDefaults(config.Self), began: time.Now(), key: protocol.ClientKey(config.ID + ":0"),
		held: newHeldSince(),
	}
	if config.Anonymous {
		p.due.Store(math.MaxInt64)
	}
	return p
}

// WriteIfDue starts a write if a full one is due. Each acquire, each ask of a waiter and each renewal calls it.
func (p *Presence) WriteIfDue(now mono.Time) {
	if !p.isDue(now) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write()
}

func (p *Presence) isDue(now mono.Time) bool { return int64(now) >= p.due.Load() }

// Holds says since when a hold lasts that these fields are about. The hold is any value
// that identifies it, and is passed to [Presence.Ended] later.
func (p *Presence) Holds(hold any, fields []string, since mono.Time) {
	if p.config.Anonymous {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.add(hold, fields, since)
	p.write()
}

// Ended says that a hold has ended.
func (p *Presence) Ended(hold any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.remove(hold)
	p.write()
}

// OutlastedUntil says that a hold stays in Redis until then, even if the client closes before.
func (p *Presence) OutlastedUntil(until mono.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stays = max(p.stays, until)
}

// Withdraw starts the farewell. It is called after Config.Closing has ended, and nothing else is
// written after it.
func (p *Presence) Withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving, p.left = true, mono.Now()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.written && !p.writing {
		p.writing = p.config.Go(p.run)
	}
}

// writeIfNamed starts a full write if a lock in Redis may need one: by then nobody may have called WriteIfDue, as
// nothing is renewed with a fixed lease.
func (p *Presence) writeIfNamed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held.holds) > 0 || p.stays > mono.Now() {
		p.write()
	}
}

// write starts the task if there is something to write. mu is held.
func (p *Presence) write() {
	if !p.writing && !p.leaving && (p.isDue(mono.Now()) || p.held.hasChanged()) {
		p.writing = p.config.Go(p.run)
	}
}

// run is the task.
func (p *Presence) run() {
	for {
		request, last := p.next()
		switch {
		case request.IsZero():
			return
		case last:
			p.withdrawn(p.takeBack(request))
			return
		}
		p.sent(p.send(request))
	}
}

// next returns the next request, and whether it is the farewell. If there is none, it ends the task.
func (p *Presence) next() (request script.Request, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := mono.Now()
	full := p.isDue(now)
	switch {
	case p.leaving && p.written && p.stays > now:
		return protocol.Expire([]string{p.key}, p.stays.Sub(now)+time.Millisecond, ""), true // 0 ms would be for ever
	case p.leaving && p.written:
		return protocol.Delete([]string{p.key}, ""), true
	case p.leaving, !full && !p.held.hasChanged():
		p.writing = false
		return script.Request{}, false
	}
	held, ended := p.held.take(full, now)
	ttl := max(protocol.ClientTTL, p.stays.Sub(now))
	p.written, p.expires = true, now.Add(ttl)
	if full {
		p.dueIn(now, fullAfter)
	}
	return protocol.WriteClient(p.key, p.says(), ttl, full, held, ended), false
}

// dueIn has the next full write be due then. mu is held.
func (p *Presence) dueIn(now mono.Time, d time.Duration) {
	p.due.Store(int64(now.Add(d)))
	switch {
	case p.leaving:
	case p.timer == nil:
		p.timer = time.AfterFunc(d, p.writeIfNamed)
	default:
		p.timer.Reset(d)
	}
}

// says is what the client says of itself now.
func (p *Presence) says() protocol.Client {
	says := p.self
	says.Age = time.Since(p.began)
	return says
}

// patience is how long a client that closes waits for a request.
func (p *Presence) patience() time.Duration { return min(farewell, p.config.Timeout/3) }

// send sends a write. Closing does not end it at once: otherwise the write could reach Redis after the
// farewell.
func (p *Presence) send(request script.Request) call.Result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(p.config.Closing, func() {
		call.Sleep(ctx, p.patience())
		cancel()
	})()
	return p.config.Do(ctx, request)
}

// takeBack sends the farewell, and again once no write without an answer can come after it.
func (p *Presence) takeBack(request script.Request) error {
	err := p.sendLast(request)
	p.mu.Lock()
	open := p.unanswered()
	p.mu.Unlock()
	if err == nil && len(open) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), mono.Until(p.lasts()))
		defer cancel()
		p.config.Outlast(ctx, open)
		if err = p.sendLast(request); err == nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: a request to write it was not answered", context.DeadlineExceeded)
		}
	}
	return err
}

// unanswered returns the writes without an answer that may have their effect yet. mu is held.
func (p *Presence) unanswered() []*call.Attempt {
	if p.config.Expiry(p.open) <= mono.Now() {
		p.open = nil
	}
	return p.open
}

// sendLast sends the farewell once or more, and returns why Redis has not done it: that the time is over, and why it was not answered, unless it
// was refused. While Close waits for others anyway, it tries for as long as they do: a failover may be under way.
func (p *Presence) sendLast(request script.Request) (err error) {
	for left := farewells; left > 0; left-- {
		if p.config.Others() && mono.Now() < p.lasts() {
			left = farewells + 1
		}
		ctx, cancel := context.WithTimeout(context.Background(), p.patience())
		res := p.config.Do(ctx, request)
		err = res.Why()
		givenUp := ctx.Err() != nil
		if cancel(); err == nil || !givenUp {
			return err
		}
	}
	if call.Code(err) == "" && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// lasts is until when the farewell may go on with others: Close must not fail because of it.
func (p *Presence) lasts() mono.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left.Add(p.config.Timeout - (farewells+2)*p.patience())
}

// sent records the outcome of a write. After a failed write the next one is full.
func (p *Presence) sent(res call.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stands = p.stands || res.Err == nil || len(res.Unknown) > 0
	p.written = p.stands
	p.open = append(p.unanswered(), res.Unknown...)
	err := res.Why()
	if err == nil {
		return
	}
	after := retryAfter
	if call.LacksRight(err) {
		after = rightAfter
	}
	p.held.forgetChanges()
	p.dueIn(mono.Now(), after)
}

// withdrawn ends the task after the farewell.
func (p *Presence) withdrawn(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing, p.written, p.stands = false, err != nil, err != nil
	if !errors.Is(err, lockerr.Closed) { // otherwise Left has already reported that it had not ended
		p.kept = err
	}
}

// Left returns what a farewell that failed or has not ended leaves in Redis: the key, its longest time to live, and why. It returns
// each failure once. The error is nil if nothing is left.
func (p *Presence) Left() (key string, ttl time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err, p.kept = p.kept, nil
	if p.leaving && p.writing && p.written {
		err = context.DeadlineExceeded
	}
	if ttl = p.expires.Sub(mono.Now()); ttl <= 0 {
		err = nil
	}
	return p.key, ttl, err
}

// own returns what is known of one of the client's own owners.
func (p *Presence) own(owner, name string) Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Holder{Client: p.self, Since: p.began, HeldFor: p.held.age(protocol.HeldField(owner, name))}
}
