package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// tenure is what this process knows of one owner at one lock. It comes into
// being with the owner's first call and goes when nobody needs it; doc.go draws
// its states.
type tenure struct {
	kind  *kind
	owner Owner

	// op is taken by whoever asks Redis for a change on behalf of this owner at
	// this lock, until it is known what came of it. So changes come one after
	// another, and an old one cannot undo a newer one.
	op chan struct{}

	refs int // guarded by Client.mu

	mu    sync.Mutex
	holds map[*Hold]struct{} // handed out, and not unlocked yet
	// base is how many holds of this owner stand in Redis beside ours: another
	// process's, if it handed the owner to us.
	base int
	// onServer is the count that Redis has acknowledged last.
	onServer int
	lost     error           // why the holds are lost; nil while they are not
	entry    *watchdog.Entry // nil before the first hold and after the last
	// deadline is the last one that entry had, once it is nil again.
	deadline time.Time
	seat     *wakeup.Seat // where a long hold listens for a forced unlock
}

type tenureKey struct {
	name  string
	owner Owner
}

// tenure returns the owner's tenure at a lock, and makes it if need be. Each
// call is paired with one of unref.
func (c *Client) tenure(k *kind, owner Owner) *tenure {
	key := tenureKey{k.name, owner}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenures[key]
	if t == nil {
		t = &tenure{kind: k, owner: owner, op: make(chan struct{}, 1), holds: map[*Hold]struct{}{}}
		c.tenures[key] = t
	}
	t.refs++
	return t
}

func (t *tenure) ref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t.refs++
}

func (t *tenure) unref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(c.tenures, tenureKey{t.kind.name, t.owner})
	}
}

// takeOp waits for the right to ask Redis for a change. It returns the
// context's cause if ctx ends first.
func (t *tenure) takeOp(ctx context.Context) error {
	select {
	case t.op <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.op <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *tenure) freeOp() { <-t.op }

// wanted returns how many holds of the owner should stand in Redis, and how many
// stood there at the last answer.
func (t *tenure) wanted() (count, onServer int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.base + len(t.holds), t.onServer
}

// lost and mature are called by the watchdog.
func lost(ward any, reason watchdog.Reason) {
	t := ward.(*tenure) //nolint:forcetypeassert // the watchdog's wards are tenures
	t.lose(reason.String())
}

func mature(ward any) {
	ward.(*tenure).listen() //nolint:forcetypeassert // see lost
}

// lose ends every hold of the tenure, once.
func (t *tenure) lose(reason string) {
	t.mu.Lock()
	if t.lost != nil || len(t.holds) == 0 {
		t.mu.Unlock()
		return
	}
	why := &LostError{Name: t.kind.name, Reason: reason}
	t.lost, t.onServer = why, 0
	t.endWatch()
	holds := make([]*Hold, 0, len(t.holds))
	for h := range t.holds {
		h.cancel(ErrLost)
		holds = append(holds, h)
	}
	t.mu.Unlock()
	now := time.Now()
	t.kind.client.tasks.Go(func() {
		for _, h := range holds {
			h.hooks.lost(Event{Name: t.kind.name, Owner: t.owner, Held: now.Sub(h.since), Err: why})
		}
	})
}

// listen makes a long hold hear of a forced unlock.
func (t *tenure) listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if entry := t.entry; entry != nil && t.seat == nil {
		dog := t.kind.client.dog
		t.seat = t.kind.client.hub.Join(t.kind.channel, func() { dog.Poke(entry) })
	}
}

// endWatch ends renewal and listening, and reports whether the holds could be
// trusted until now. t.mu is held.
func (t *tenure) endWatch() bool {
	if t.seat != nil {
		t.seat.Leave()
		t.seat = nil
	}
	if t.entry == nil {
		return false
	}
	dog := t.kind.client.dog
	trusted := dog.Remove(t.entry)
	t.deadline = dog.Deadline(t.entry)
	t.entry = nil
	return trusted
}
