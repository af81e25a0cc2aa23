package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// group is what the renewals of one call have in common.
type group struct {
	script *driver.Script
	slot   int
}

// groupOf returns the group of an owner's renewals at a lock: their script and, where the
// server asks for it, its slot.
func groupOf(s *ownerState) group {
	return group{script: s.kind.lock().RenewScript(), slot: s.kind.client.calls.Slot(s.kind.name)}
}

// renewals sends the watchdog's batches.
type renewals struct{ calls *call.Caller }

// send sends one batch for the watchdog. It returns when ctx ends; what arrives
// after that does nothing.
//
// While a cluster moves the batch's slot, some of its locks are here and some
// there, and neither node renews them all: they are renewed one by one.
func (r renewals) send(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState]) ([]bool, error) {
	batch[0].Value.kind.client.presence.writeIfDue(mono.Now())
	if n := together(batch); n < len(batch) {
		return r.sendApart(ctx, g, batch, n)
	}
	held, err := r.sendTogether(ctx, g, batch)
	if len(batch) == 1 || !moving(err) {
		return held, err
	}
	return r.sendApart(ctx, g, batch, 1)
}

// together is how many of a batch's holds go into one call: nobody else is served while Redis
// renews a great many permits.
func together(batch []watchdog.Renewal[*ownerState]) int {
	most := 1
	for _, one := range batch {
		if permits, ok := one.Value.kind.requests.(heldPermits); ok {
			most = max(most, len(permits.left.all()))
		}
	}
	return max(1, MaxPermitsPerHold/most)
}

// sendApart sends a batch as several calls of n holds each, side by side.
func (r renewals) sendApart(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState], n int) ([]bool, error) {
	held := make([]bool, len(batch))
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i := 0; i < len(batch); i += n {
		all.Go(func() {
			some, err := r.send(ctx, g, batch[i:min(i+n, len(batch))])
			copy(held[i:], some)
			errs[i] = err
		})
	}
	all.Wait()
	return held, errors.Join(errs...)
}

// moving reports whether a cluster has refused a call because it is moving its
// keys.
func moving(err error) bool { return call.Code(err) == "TRYAGAIN" }

// sendTogether sends one batch as one call.
func (r renewals) sendTogether(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState]) (held []bool, err error) {
	defer func() {
		for i, one := range batch {
			if err != nil || held[i] {
				one.Value.noteRenewal(err)
			}
		}
	}()
	all := script.Request{Script: g.script}
	for _, one := range batch {
		s := one.Value
		s.expect(one.TTL)
		request := s.kind.lock().Renew(s.owner.String(), s.counts(), one.TTL)
		all.Keys = append(all.Keys, request.Keys...)
		all.Args = append(all.Args, request.Args...)
	}
	deadline, _ := ctx.Deadline()
	timeout := time.Until(deadline)
	res := r.calls.Once(ctx, all, timeout)
	for _, one := range batch {
		one.Value.answered(one.TTL, res.Err == nil)
	}
	if res.Err != nil {
		return nil, res.Err
	}
	if res.Has(script.Late) {
		return nil, call.ErrLate
	}
	if len(res.Reply.Rest) != len(batch) {
		return nil, fmt.Errorf("%d answers to %d renewals", len(res.Reply.Rest), len(batch))
	}
	held = make([]bool, len(batch))
	for i, one := range batch {
		count, err := one.Value.renewed(res.Reply, i, res.Sent)
		if err != nil {
			return nil, err
		}
		held[i] = count > 0
	}
	return held, nil
}

// noteRenewal takes note of how a renewal failed, or that it did not.
func (s *ownerState) noteRenewal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = nil
	if err != nil {
		s.failing = &BackendError{Op: "renew", Name: s.kind.name, MayHaveRun: true, Err: explained(err)}
	}
	for _, h := range s.holds {
		if !h.fixed && h.hooks.want(onRenew) {
			e := h.event()
			e.Err = s.failing
			s.kind.client.tasks.GoUncounted(func() { h.hooks.tell(h.ctx, onRenew, e) })
		}
	}
}

// renewed reads the reply to the i-th of some renewals: how often the owner holds the
// lock. If the reply says for how long, too, others may have made that longer, and
// the deadline moves.
func (s *ownerState) renewed(reply script.Reply, i int, sent time.Time) (count int64, err error) {
	found, err := s.kind.lock().ReadRenewal(reply, i)
	if err != nil || found.Count == 0 || !found.Lives {
		return found.Count, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found.Gone < 0 {
		found.Gone = MaxLease
	}
	s.knownEnd = max(s.knownEnd, mono.Now().Add(found.Gone))
	s.keyEnd = max(s.keyEnd, s.knownEnd)
	if !s.until.IsZero() {
		found.Left = min(found.Left, s.until.Sub(mono.Of(sent)))
	}
	var end mono.Time
	if found.Ends {
		end = s.kind.client.watchdog.Trust(sent, time.Now(), found.End)
	}
	if s.entry != nil && end != s.ends {
		s.setEnd(end)
	}
	if s.entry != nil && found.Left >= 0 {
		s.kind.client.watchdog.Acknowledge(s.entry, sent, found.Left)
	}
	return found.Count, nil
}
