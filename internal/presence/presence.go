package presence

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	// fullAfter is how long after a full write the next one is due. What lacked a right is
	// tried again after as long.
	fullAfter = protocol.ClientTTL / 3
	// retryAfter is how long after another failure a full write is due.
	retryAfter = 10 * time.Second
	// farewell bounds how long a client that closes waits for a request, and farewells is in how many
	// parts it waits for the last one.
	farewell, farewells = 250 * time.Millisecond, 3
)

// Config is what a [Presence] works with.
type Config struct {
	// ID is the client's UUID.
	ID string
	// Self is what the client says of itself. What is zero has a default; Age is not used.
	Self protocol.Client
	// Anonymous keeps the client from writing and from asking.
	Anonymous bool
	// Timeout is the client's.
	Timeout time.Duration
	// Do sends a request until it is answered, ctx ends, or the client's timeout is over.
	Do func(ctx context.Context, request script.Request) call.Result
	// Ask returns what the hash at key says, and since when these fields of it are so.
	Ask func(ctx context.Context, key string, fields []string) (protocol.Known, error)
	// Go runs f in a goroutine that Close waits for. It reports false if it does not run f.
	Go func(f func()) bool
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

	mu      sync.Mutex // guards what follows
	writing bool       // the task runs
	written bool       // something may stand in Redis
	leaving bool       // Withdraw has been called: only the farewell is still sent
	stays   mono.Time  // until when a hold outlasts the client
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

// WriteIfDue starts a write if a full one is due. Each acquire and each renewal calls it.
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
	p.leaving = true
	if p.written && !p.writing {
		p.writing = p.config.Go(p.run)
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
			p.withdrawn(p.sendLast(request))
			return
		}
		if err := p.send(request); err != nil {
			p.failed(err)
		}
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
	p.written = true
	if full {
		p.due.Store(int64(now.Add(fullAfter)))
	}
	return protocol.WriteClient(p.key, p.says(), full, held, ended), false
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
func (p *Presence) send(request script.Request) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(p.config.Closing, func() {
		call.Sleep(ctx, p.patience())
		cancel()
	})()
	res := p.config.Do(ctx, request)
	return res.Why()
}

// sendLast sends the farewell, and reports whether Redis has answered it.
func (p *Presence) sendLast(request script.Request) bool {
	for range farewells {
		ctx, cancel := context.WithTimeout(context.Background(), p.patience()/farewells)
		res := p.config.Do(ctx, request)
		givenUp := ctx.Err() != nil
		if cancel(); res.Err == nil || !givenUp {
			return res.Err == nil
		}
	}
	return false
}

// failed takes note of the error of a write: the next one is full.
func (p *Presence) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := retryAfter
	if call.LacksRight(err) {
		after = fullAfter
	}
	p.held.forgetChanges()
	p.due.Store(int64(mono.Now().Add(after)))
}

// withdrawn ends the task after the farewell.
func (p *Presence) withdrawn(answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing, p.written = false, !answered
}

// own returns what is known of one of the client's own owners.
func (p *Presence) own(owner, name string) Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Holder{Client: p.self, Since: p.began, HeldFor: p.held.age(protocol.HeldField(owner, name))}
}
