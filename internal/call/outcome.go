package call

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// checkEvery is the longest that SleepUntil sleeps: what is known of the server's clock
// may have changed.
const checkEvery = 3 * time.Second

// Outcome waits until it is known what came of an attempt: whether it may have had an
// effect, and whether it may have one still.
func (c *Caller) Outcome(a *Attempt) (ran, pending bool) {
	if a.Pending() {
		timer := time.NewTimer(time.Until(earlier(a.Over(), a.due())))
		defer timer.Stop()
		select {
		case <-a.done:
		case <-timer.C:
			return true, true
		case <-c.config.Life.Done():
			return true, true
		}
	}
	if a.err == nil {
		return a.reply.Code == script.Done, false
	}
	ran = mayHaveRun(a.err)
	return ran, ran && Code(a.err) == "" // what a server has refused is over
}

// Outcomes is Outcome of several: whether any may have had an effect, and those that
// may have one still.
func (c *Caller) Outcomes(attempts []*Attempt) (ran bool, pending []*Attempt) {
	for _, a := range attempts {
		aRan, aPending := c.Outcome(a)
		ran = ran || aRan
		if aPending {
			pending = append(pending, a)
		}
	}
	return ran, pending
}

// Over is from when on none of the attempts can have an effect any more, as far as is
// known now.
func (c *Caller) Over(attempts []*Attempt) (last time.Time) {
	for _, a := range attempts {
		over := a.Over()
		if c.config.Closing.Err() != nil {
			over = earlier(over, a.due())
		}
		if over.After(last) {
			last = over
		}
	}
	return last
}

// Outlast waits until none of the attempts can have an effect any more, or ctx ends.
func (c *Caller) Outlast(ctx context.Context, attempts []*Attempt) {
	_, pending := c.Outcomes(attempts)
	for ctx.Err() == nil && time.Now().Before(c.Over(pending)) {
		c.SleepUntil(ctx, c.Over(pending))
	}
}

// SleepUntil waits until then, or until it is time to ask [Caller.Over] again: what is
// known of the server's clock may have changed, or Config.Closing has ended.
func (c *Caller) SleepUntil(ctx context.Context, over time.Time) {
	ctx, cancel := context.WithDeadline(ctx, earlier(over, time.Now().Add(checkEvery)))
	defer cancel()
	if c.config.Closing.Err() != nil {
		<-ctx.Done()
		return
	}
	select {
	case <-ctx.Done():
	case <-c.config.Closing.Done():
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Code returns the word that a server's refusal begins with; empty if there was none.
func Code(err error) string {
	var failed *driver.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Code
}
