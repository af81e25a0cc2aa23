package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// group is what the renewals of one call have in common.
type group struct {
	script *driver.Script
	slot   int
}

// group returns the renewal group of a lock: its script and, where the server
// asks for it, its slot.
func (c *Client) group(k *kind) group {
	return group{script: k.lock.Renew("", 0, 0).Script, slot: c.calls.Slot(k.name)}
}

// renew sends one batch for the watchdog. It returns when ctx ends; what arrives
// after that does nothing.
//
// While a cluster moves the batch's slot, some of its locks are here and some
// there, and neither node renews them all: they are renewed one by one.
func (c *Client) renew(ctx context.Context, g any, batch []watchdog.Renewal) ([]bool, error) {
	held, err := c.renewTogether(ctx, g.(group), batch) //nolint:forcetypeassert // the watchdog's groups are groups
	if len(batch) == 1 || !moving(err) {
		return held, err
	}
	held = make([]bool, len(batch))
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() {
			one, err := c.renewTogether(ctx, g.(group), batch[i:i+1]) //nolint:forcetypeassert // see above
			held[i], errs[i] = err == nil && one[0], err
		})
	}
	all.Wait()
	return held, errors.Join(errs...)
}

// moving reports whether a cluster has refused a call because it is moving its
// keys.
func moving(err error) bool { return call.Code(err) == "TRYAGAIN" }

// renewTogether sends one batch as one call.
func (c *Client) renewTogether(ctx context.Context, g group, batch []watchdog.Renewal) (held []bool, err error) {
	defer func() {
		for i, r := range batch {
			if err != nil || held[i] {
				r.Value.(*ownerState).noteRenewal(err) //nolint:forcetypeassert // the watchdog's values are owners' states
			}
		}
	}()
	all := script.Request{Script: g.script}
	answered := make([]func(call.Result), len(batch))
	for i, r := range batch {
		t := r.Value.(*ownerState) //nolint:forcetypeassert // the watchdog's values are owners' states
		answered[i] = t.expect(r.TTL)
		one := t.kind.lock.Renew(t.owner.String(), t.counts(), r.TTL)
		all.Keys = append(all.Keys, one.Keys...)
		all.Args = append(all.Args, one.Args...)
	}
	deadline, _ := ctx.Deadline()
	timeout := time.Until(deadline)
	o := c.calls.Send(all, timeout).Result(ctx, timeout)
	for _, tell := range answered {
		tell(call.Result{Err: o.Err})
	}
	if o.Err != nil {
		return nil, o.Err
	}
	if o.Has(script.Late) {
		return nil, call.ErrLate
	}
	if len(o.Reply.Rest) != len(batch) {
		return nil, fmt.Errorf("%d answers to %d renewals", len(o.Reply.Rest), len(batch))
	}
	held = make([]bool, len(batch))
	for i, r := range batch {
		count, err := r.Value.(*ownerState).renewed(o.Reply, i, o.Sent) //nolint:forcetypeassert // see above
		if err != nil {
			return nil, err
		}
		held[i] = count > 0
	}
	return held, nil
}

// noteRenewal takes note of how a renewal failed, or that it did not.
func (t *ownerState) noteRenewal(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = nil
	if err != nil {
		t.failing = &BackendError{Op: "renew", Name: t.kind.name, MayHaveRun: true, Err: explained(err)}
	}
	for h := range t.holds {
		if !h.fixed && h.hooks.want(onRenew) {
			e := h.event()
			e.Err = t.failing
			tasks := &t.kind.client.tasks
			tasks.Go(func() { tasks.Uncounted(func() { h.hooks.tell(h.ctx, onRenew, e) }) })
		}
	}
}

// renewed reads the reply to the i-th of some renewals: how often the owner holds the
// lock. If the reply says for how long, too, others may have made that longer, and
// the deadline moves.
func (t *ownerState) renewed(reply script.Reply, i int, sent time.Time) (count int64, err error) {
	found, err := t.kind.lock.ReadRenewal(reply, i)
	if err != nil || found.Count == 0 || !found.Lives {
		return found.Count, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found.Gone < 0 {
		found.Gone = MaxLease
	}
	t.knownEnd = later(t.knownEnd, time.Now().Add(found.Gone))
	t.keyEnd = later(t.keyEnd, t.knownEnd)
	if !t.until.IsZero() {
		found.Left = min(found.Left, t.until.Sub(sent))
	}
	if t.entry != nil && found.Left >= 0 {
		t.kind.client.watchdog.Acknowledge(t.entry, sent, found.Left)
	}
	return found.Count, nil
}
