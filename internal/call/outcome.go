package call

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/script"
)

// checkEvery is the longest that SleepUntil sleeps: what is known of the server's clock
// may have changed.
const checkEvery = 3 * time.Second

// Outcome waits until it is known what came of an attempt, or ctx ends: whether it may have had an
// effect, and whether it may have one still.
func (c *Caller) Outcome(ctx context.Context, a *Attempt) (ran, live bool) {
	if a.Pending() {
		timer := time.NewTimer(mono.Until(min(a.Expiry(), a.due())))
		defer timer.Stop()
		select {
		case <-a.done:
		case <-timer.C:
			return true, true
		case <-ctx.Done():
			return true, true
		case <-c.config.Life.Done():
			return true, true
		}
	}
	if a.err == nil {
		return a.reply.Code == script.Done, false
	}
	ran = mayHaveRun(a.err)
	return ran, ran && Code(a.err) == "" // what a server has refused has no effect
}

// Outcomes is Outcome of several: whether any may have had an effect, and those that
// may have one still.
func (c *Caller) Outcomes(ctx context.Context, attempts []*Attempt) (ran bool, live []*Attempt) {
	for _, a := range attempts {
		oneRan, oneLives := c.Outcome(ctx, a)
		ran = ran || oneRan
		if oneLives {
			live = append(live, a)
		}
	}
	return ran, live
}

// Expiry is from when on none of the attempts can have an effect any more, as far as is
// known now.
func (c *Caller) Expiry(attempts []*Attempt) (last mono.Time) {
	for _, a := range attempts {
		expiry := a.Expiry()
		if c.config.Closing.Err() != nil {
			expiry = min(expiry, a.due())
		}
		last = max(last, expiry)
	}
	return last
}

// Outlast waits until none of the attempts can have an effect any more, or ctx ends.
func (c *Caller) Outlast(ctx context.Context, attempts []*Attempt) {
	_, live := c.Outcomes(ctx, attempts)
	for ctx.Err() == nil && mono.Now() < c.Expiry(live) {
		c.SleepUntil(ctx, c.Expiry(live))
	}
}

// SleepUntil waits until then, or until it is time to ask [Caller.Expiry] again: what is
// known of the server's clock may have changed, or Config.Closing has ended.
func (c *Caller) SleepUntil(ctx context.Context, expiry mono.Time) {
	ctx, cancel := context.WithTimeout(ctx, min(mono.Until(expiry), checkEvery))
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

// Code returns the word that a server's refusal begins with; empty if there was none.
func Code(err error) string {
	var failed *driver.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Code
}

// LacksRight reports whether the server has refused a call because its user may not make it.
func LacksRight(err error) bool {
	code := Code(err)
	return code == "NOPERM" || code != "" && aboutRights.MatchString(err.Error())
}

// aboutRights matches what servers say, of several ages, when a script calls what
// its user may not.
var aboutRights = regexp.MustCompile("ACL failure in script|The user executing the script can't")
