package holdfast

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file writes to Redis who the client is, and since when it holds what it has held for a
// second or longer: one hash a client, which expires. It is for people. No call waits for it or
// fails of it, and whoever may not write it is not told so.

const (
	// presentAgain is after how long a client says again that it is there.
	presentAgain = protocol.ClientTTL / 3
	// presentRetry is when it tries again after a failure, other than that of a right.
	presentRetry = 10 * time.Second
	// farewell is how long a call may go on once the client closes, at most: a third of the client's timeout
	// if that is less.
	farewell = 250 * time.Millisecond
	// mostHeld is of how many holds it says since when, and heldPerCall of how many at once.
	mostHeld, heldPerCall = 1000, 100
)

// presence is what Redis is told of one client. One task at a time writes, and ends when there is
// nothing more to write.
type presence struct {
	client   *Client
	identity Identity
	key      string
	began    mono.Time

	due  atomic.Int64 // when all is to be written again: a mono.Time
	asks atomic.Int64 // see mayAsk

	mu      sync.Mutex               // guards what follows
	writing bool                     // a task does
	written bool                     // something may stand in Redis
	failed  bool                     // the last call has
	leaving bool                     // the client closes
	stays   mono.Time                // until when a hold outlives the client: so does what it has said
	held    map[string]heldSince     // by field
	fields  map[*ownerState][]string // which of them are an owner's
	changed map[string]struct{}      // fields that Redis is to be told of
}

// heldSince is since when a field is so, and how many say it: an owner that holds both sides of a read-write
// lock has one field.
type heldSince struct {
	since mono.Time
	by    int
}

func newPresence(c *Client) *presence {
	return &presence{
		client: c, identity: c.config.identity.filledIn(), key: protocol.ClientKey(c.id + ":0"), began: mono.Now(),
		held: map[string]heldSince{}, fields: map[*ownerState][]string{}, changed: map[string]struct{}{},
	}
}

// writeIfDue writes what is due. It is called on each acquire and on renewals, and hardly ever does anything.
func (p *presence) writeIfDue(now mono.Time) {
	if p.client.config.anonymous || int64(now) < p.due.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write()
}

// holds says since when an owner holds a lock, which it has done for a while.
func (p *presence) holds(s *ownerState, since mono.Time) {
	fields := s.heldFields()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client.config.anonymous || len(p.held)+len(fields) > mostHeld {
		return
	}
	p.fields[s] = fields
	for _, field := range fields {
		found, is := p.held[field]
		if found.by++; !is {
			found.since = since
		}
		p.held[field] = found
		p.change(field)
	}
	p.write()
}

// ended says that the owner does not hold the lock any more.
func (p *presence) ended(s *ownerState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fields, noted := p.fields[s]
	if !noted {
		return
	}
	for _, field := range fields {
		found := p.held[field]
		if found.by--; found.by > 0 {
			p.held[field] = found
			continue
		}
		delete(p.held, field)
		p.change(field)
	}
	delete(p.fields, s)
	p.write()
}

// change notes that Redis is to be told of a field. After a failure it is told of all, so there is nothing
// to be kept until then. mu is held.
func (p *presence) change(field string) {
	if !p.failed {
		p.changed[field] = struct{}{}
	}
}

// write has a task write what is to be written, if none does. mu is held.
func (p *presence) write() {
	if p.writing || p.leaving || p.failed && int64(mono.Now()) < p.due.Load() {
		return
	}
	p.writing = p.client.tasks.Go(p.run)
}

// withdraw deletes what the client has said, as it closes; if one of its holds outlasts it, that is left
// for as long. If Redis does not answer, it expires.
func (p *presence) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true // nothing else is written, also by a task that has just begun
	if p.written && !p.writing {
		p.writing = p.client.tasks.Go(p.run)
	}
}

// run is the task.
func (p *presence) run() {
	for {
		request, found := p.next()
		if !found {
			return
		}
		if err := p.send(request); err != nil && !p.goesOnAfter(err) {
			return
		}
	}
}

// send makes one attempt, or two if the first has shown what time it is at the server. Closing does not
// end it at once, for then it were not known what comes last; but a Redis that is silent does not keep Close.
// What is sent once the client closes is tried again for as long: a connection that was cut costs one attempt.
func (p *presence) send(request script.Request) error {
	c := p.client
	within, last := min(farewell, c.config.timeout/3), c.closing.Err() != nil
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(c.closing, func() {
		call.Sleep(ctx, within)
		cancel()
	})()
	for attempt := 1; ; attempt++ {
		res := c.calls.Once(ctx, request, c.config.timeout/3)
		switch {
		case res.Has(script.Done):
			return nil
		case last && ctx.Err() == nil && (res.Err == nil || res.WorthRepeating()):
			call.Sleep(ctx, within/10)
		case res.Err != nil:
			return res.Err
		case attempt > 1:
			return call.ErrLate
		}
	}
}

// next returns the next call; if there is none, the task ends.
func (p *presence) next() (request script.Request, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := mono.Now()
	anew := int64(now) >= p.due.Load()
	switch {
	case p.leaving && p.written:
		p.written = false
		if p.stays > now {
			return protocol.Expire([]string{p.key}, p.stays.Sub(now)+time.Millisecond, ""), true // 0 ms would be for ever
		}
		return protocol.Delete([]string{p.key}, ""), true
	case p.leaving, !anew && len(p.changed) == 0:
		p.writing = false
		return script.Request{}, false
	case anew:
		clear(p.changed)
		for field := range p.held {
			p.changed[field] = struct{}{}
		}
	}
	held, ended := map[string]time.Duration{}, []string(nil)
	for field := range p.changed {
		if found, is := p.held[field]; is {
			held[field] = now.Sub(found.since)
		} else {
			ended = append(ended, field)
		}
		if delete(p.changed, field); len(held)+len(ended) == heldPerCall {
			break
		}
	}
	p.written, p.failed = true, false
	p.due.Store(int64(now.Add(presentAgain)))
	return protocol.WriteClient(p.key, p.says(now), anew, held, ended), true
}

// goesOnAfter notes that a call has failed: all is to be written again, some time later. It
// reports whether the task goes on.
func (p *presence) goesOnAfter(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving {
		return true
	}
	again := presentRetry
	if noRight(err) {
		again = presentAgain
	}
	clear(p.changed)
	p.failed, p.writing = true, false
	p.due.Store(int64(mono.Now().Add(again)))
	return false
}

// says is what the client says of itself.
func (p *presence) says(now mono.Time) protocol.Client {
	return protocol.Client{
		Program: p.identity.Program, Version: p.identity.Version, Host: p.identity.Host, PID: p.identity.PID, Age: now.Sub(p.began),
	}
}

// noRight reports whether the server has refused a call to a user who may not make it.
func noRight(err error) bool {
	return call.Code(err) == "NOPERM" || aboutRights.MatchString(err.Error())
}

// outlasts notes that a hold stays in Redis until then, though the client be closed.
func (p *presence) outlasts(until mono.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stays = max(p.stays, until)
}

// about is what is known of one of the client's own owners.
func (p *presence) about(owner Owner, name string) about {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := about{who: p.identity}
	if field, is := p.held[protocol.HeldField(owner.text, name)]; is {
		found.heldFor = mono.Now().Sub(field.since)
	}
	return found
}

// mayAsk reports whether a refusal may ask Redis who the owner is. There is nothing to ask of
// Redisson's; of others it may ten times a second, so that who is refused all the time does not cost
// twice as much.
func (p *presence) mayAsk(owner Owner) bool {
	switch protocol.ClientKey(owner.text) {
	case "":
		return false
	case p.key:
		return true
	}
	const share, most = int64(100 * time.Millisecond), int64(time.Second)
	now := int64(mono.Now())
	for {
		asked := p.asks.Load()
		next := max(asked, now-most) + share
		if next > now {
			return false
		}
		if p.asks.CompareAndSwap(asked, next) {
			return true
		}
	}
}

// askedInVain notes that a question has failed: who may not ask does not, for a while, since the server
// notes each refusal in its log.
func (p *presence) askedInVain(err error) {
	if noRight(err) {
		p.asks.Store(int64(mono.Now().Add(presentAgain)))
	}
}
