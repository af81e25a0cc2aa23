package holdfast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
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

// weightOf is how many places of a batch an owner's renewals take: nobody else is served while
// Redis renews a great many permits.
func weightOf(s *ownerState) int {
	permits, ok := s.kind.requests.(heldPermits)
	if !ok {
		return 1
	}
	return 1 + len(permits.left.all())*watchdog.BatchSize/MaxPermitsPerHold
}

// renewals sends the watchdog's batches.
type renewals struct{ calls *call.Caller }

// send sends one batch for the watchdog. It returns when ctx ends; what arrives
// after that does nothing.
//
// While a cluster moves the batch's slot, some of its locks are here and some
// there, and neither node renews them all: they are renewed one by one.
func (r renewals) send(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState]) []watchdog.Answer {
	batch[0].Entry.Value.kind.client.presence.WriteIfDue(mono.Now())
	answers, err := r.sendTogether(ctx, g, batch)
	if len(batch) > 1 && moving(err) {
		return r.sendApart(ctx, g, batch)
	}
	return answers
}

// sendApart sends the renewals of a batch as calls of their own, side by side.
func (r renewals) sendApart(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState]) []watchdog.Answer {
	answers := make([]watchdog.Answer, len(batch))
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() {
			one, _ := r.sendTogether(ctx, g, batch[i:i+1]) // why it failed has been noted
			answers[i] = one[0]
		})
	}
	all.Wait()
	return answers
}

// moving reports whether a cluster has refused a call because it is moving its
// keys.
func moving(err error) bool { return call.Code(err) == "TRYAGAIN" }

// sendTogether sends one batch as one call. An error is why nothing is known of any.
func (r renewals) sendTogether(ctx context.Context, g group, batch []watchdog.Renewal[*ownerState]) (answers []watchdog.Answer, err error) {
	answers = make([]watchdog.Answer, len(batch))
	defer func() {
		for i, one := range batch {
			if answers[i] != watchdog.Gone {
				one.Entry.Value.noteRenewal(err)
			}
		}
	}()
	all := script.Request{Script: g.script}
	for _, one := range batch {
		s := one.Entry.Value
		s.expect(one.TTL)
		request := s.kind.lock().Renew(s.owner.String(), s.counts(), one.TTL)
		all.Keys = append(all.Keys, request.Keys...)
		all.Args = append(all.Args, request.Args...)
	}
	deadline, _ := ctx.Deadline()
	timeout := time.Until(deadline)
	res := r.calls.Once(ctx, all, timeout)
	for _, one := range batch {
		one.Entry.Value.answered(one.TTL, res.Err == nil)
	}
	if res.Err != nil {
		return answers, res.Err
	}
	if res.Has(script.Late) {
		return answers, call.ErrLate
	}
	if len(res.Reply.Rest) != len(batch) {
		return answers, fmt.Errorf("%d answers to %d renewals", len(res.Reply.Rest), len(batch))
	}
	for i, one := range batch {
		count, err := one.Entry.Value.renewed(one.Entry, res.Reply, i, res.Sent)
		switch {
		case err != nil:
			return make([]watchdog.Answer, len(batch)), err
		case count > 0:
			answers[i] = watchdog.Held
		default:
			answers[i] = watchdog.Gone
		}
	}
	return answers, nil
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
		if !h.fixed {
			h.tellRenewed(s.failing)
		}
	}
}

// renewed reads the reply to the i-th of some renewals: how often the owner holds the
// lock. If the reply says for how long, too, others may have made that longer, and
// the deadline moves: that of the run of holds that was renewed, and of no later one.
func (s *ownerState) renewed(entry *entry, reply script.Reply, i int, sent time.Time) (count int64, err error) {
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
	if s.entry != entry {
		return found.Count, nil
	}
	if !s.maxHoldEnd.IsZero() {
		found.Left = min(found.Left, s.maxHoldEnd.Sub(mono.Of(sent)))
	}
	s.learnEnd(sent, found)
	if found.Left >= 0 {
		s.kind.client.watchdog.Acknowledge(entry, sent, found.Left)
	}
	return found.Count, nil
}

// learnEnd takes note of when the semaphore ends, as the reply to a call says that was sent
// then. A call that was under way when another one was answered may have been served before
// it: of the two ends the earlier one counts until Redis has been asked again. s.mu is held.
func (s *ownerState) learnEnd(sent time.Time, found protocol.Renewal) {
	var end mono.Time
	if found.Ends {
		end = s.kind.client.watchdog.Trust(sent, time.Now(), found.End)
	}
	if mono.Of(sent) < s.endsKnownAt && end != s.ends {
		s.kind.client.watchdog.Check(s.entry)
		if end.IsZero() || !s.ends.IsZero() && s.ends < end {
			return
		}
	}
	s.endsKnownAt = mono.Now()
	if end != s.ends {
		s.setEnd(end)
	}
}
