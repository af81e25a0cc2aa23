package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// This file sends the watchdog's renewals.

// group is what the renewals of one call have in common.
type group struct {
	script *driver.Script
	slot   int
}

// groupOf returns the group of a side's renewals: their script and, where the server asks for it, their slot.
func groupOf(s *side) group {
	return group{script: s.lock.HoldRequests().RenewScript(), slot: s.account.engine.Calls.Slot(s.lock.Name)}
}

// weightOf is how many places of a batch a side's renewals take.
func weightOf(s *side) int { return s.lock.HoldRequests().Weight(watchdog.BatchSize) }

// renew sends one batch for the watchdog. A reply that arrives after renew has returned goes to [watchdog.Watchdog.AnsweredLate].
//
// While a cluster moves the batch's slot, some of its locks are here and some there, and neither node renews them all: they
// are renewed one by one.
func renew(ctx context.Context, in watchdog.Budget, g group, batch []watchdog.Renewal[*side]) []watchdog.Answer {
	e := batch[0].Entry.Value.account.engine
	e.Presence.WriteIfDue(mono.Now())
	began := mono.Now()
	answers, err := renewTogether(ctx, in, g, batch)
	if len(batch) == 1 || !moving(err) {
		return answers
	}
	answers = make([]watchdog.Answer, len(batch))
	gone := mono.Now().Sub(began)
	in.Patience, in.Left = in.Patience-gone, in.Left-gone
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() {
			one, _ := renewTogether(ctx, in, g, batch[i:i+1]) // why it failed has been noted
			answers[i] = one[0]
		})
	}
	all.Wait()
	return answers
}

// renewTogether sends one batch as one call. An error is why nothing is known of any.
func renewTogether(
	ctx context.Context, in watchdog.Budget, g group, batch []watchdog.Renewal[*side],
) (answers []watchdog.Answer, err error) {
	e, all := batch[0].Entry.Value.account.engine, script.Request{Script: g.script}
	for _, one := range batch {
		s := one.Entry.Value
		s.noteSent(one.TTL)
		request := s.lock.HoldRequests().Renew(s.account.owner, s.counts(), one.TTL)
		all.Keys = append(all.Keys, request.Keys...)
		all.Args = append(all.Args, request.Args...)
	}
	res := e.Calls.OnceWithin(ctx, all, in.Patience, max(in.Patience, min(in.Left, e.Timeout)))
	for _, one := range batch {
		one.Entry.Value.noteReply(one.TTL, res.Err == nil)
	}
	answers, err = readRenewals(batch, res)
	for i, one := range batch {
		if answers[i] != watchdog.Gone {
			one.Entry.Value.noteRenewal(err, res.Err == nil || len(res.Unknown) > 0)
		}
	}
	for _, attempt := range res.Unknown {
		attempt.WhenAnswered(func(late call.Result) { renewedLate(batch, late) })
	}
	return answers, err
}

// renewedLate passes the reply to a renewal that was given up to the watchdog. It ignores a reply that cannot be read.
func renewedLate(batch []watchdog.Renewal[*side], res call.Result) {
	if answers, err := readRenewals(batch, res); err == nil {
		batch[0].Entry.Value.account.engine.watchdog.AnsweredLate(batch, res.Sent, answers)
	}
}

// readRenewals reads the reply to a batch, and returns the outcome of each renewal. It also moves the deadlines that the reply
// reports. After an error nothing is known of any renewal.
func readRenewals(batch []watchdog.Renewal[*side], res call.Result) (answers []watchdog.Answer, err error) {
	answers = make([]watchdog.Answer, len(batch))
	switch {
	case res.Err != nil:
		return answers, res.Err
	case res.Has(script.Late):
		return answers, call.ErrLate
	case len(res.Reply.Rest) != len(batch):
		return answers, fmt.Errorf("%d answers to %d renewals", len(res.Reply.Rest), len(batch))
	}
	for i, one := range batch {
		count, err := one.Entry.Value.renewed(one.Entry, res.Reply, i, res.Sent, one.TTL)
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

// lost and longHeld are called by the watchdog.
func lost(e *entry, reason watchdog.Reason) { e.Value.runLost(e, reason == watchdog.NotHeld) }

func longHeld(e *entry) { e.Value.listen(e) }
