package call

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/servertime"
)

// Attempt is one script on its way to the server and back.
type Attempt struct {
	bound bound
	clock servertime.Clock
	sent  mono.Time
	// The server does nothing with it after timeout, which is limit on its clock.
	timeout time.Duration
	limit   int64
	args    [12]string // room for the arguments: mostly there are no more

	mu sync.Mutex
	// done is closed when outcome is set; nil if it was when the call returned.
	done chan struct{}
	// whenAnswered is called if the driver reports a reply late; nil without a call of WhenAnswered. Guarded by mu.
	whenAnswered func(Result)
	// outcome is that of an attempt that its caller has not waited for, or that is in doubt; nil as long as it is not known. It is
	// written under mu if the driver tells it late. Nobody writes it after done is closed, and nobody reads it before.
	*outcome
}

// outcome is what came of an attempt, as the driver says.
type outcome struct {
	reply        script.Reply
	acknowledged int
	err          error
	why          error // it was given up, if it was
}

// attempt returns an attempt that begins now. It ends with ctx, or after patience, and the server does nothing with it after timeout.
func (c *Caller) attempt(ctx context.Context, now time.Time, r *script.Request, patience, timeout time.Duration) *Attempt {
	sent, clock := mono.Of(now), c.clocks.Of(c.Slot(r.Keys[0])) // all keys have one slot
	return &Attempt{
		bound: bound{caller: ctx, due: now.Add(patience)},
		clock: clock, sent: sent, timeout: timeout, limit: clock.Limit(sent, timeout),
	}
}

// Once sends a request once, on the calling goroutine. No replica acknowledges it. The error is the driver's, ctx's
// cause, or [ErrNoAnswer]. If the attempt may have an effect all the same, it is in
// [Result.Unknown].
func (c *Caller) Once(ctx context.Context, r script.Request, timeout time.Duration) Result {
	return c.once(ctx, time.Now(), &r, timeout, timeout, false)
}

// OnceWithin is Once, but waits for the reply for patience. The request may take effect until timeout is over.
func (c *Caller) OnceWithin(ctx context.Context, r script.Request, patience, timeout time.Duration) Result {
	return c.once(ctx, time.Now(), &r, patience, timeout, false)
}

// once is OnceWithin of an attempt that begins now, and that may end with Config.Closing, too.
func (c *Caller) once(
	ctx context.Context, now time.Time, r *script.Request, patience, timeout time.Duration, endsAtClosing bool,
) (res Result) {
	if !c.config.Tasks.Begin() {
		return Result{Err: lockerr.Closed}
	}
	defer c.config.Tasks.End()
	a := c.attempt(ctx, now, r, patience, timeout)
	a.bound.endsAtClosing = endsAtClosing
	c.bounds.begin(&a.bound)
	found := c.run(r, a, a)
	found.why = c.bounds.finish(&a.bound)
	res = a.result(&found)
	if res.Err != nil && mayHaveRun(found.err) {
		a.markInDoubt(found)
		res.Unknown = []*Attempt{a}
	}
	return res
}

// result is what has come of an attempt that is over.
func (a *Attempt) result(found *outcome) Result {
	if found.err == nil {
		return Result{Reply: found.reply, Acknowledged: found.acknowledged, Sent: a.sent}
	}
	res := Result{Err: cmp.Or(found.why, found.err), Sent: a.sent}
	if !IsTimeout(found.err) && !errors.Is(found.err, context.Canceled) {
		res.LastFailure = found.err
	}
	return res
}

// markInDoubt notes what is known of an attempt that was not answered.
func (a *Attempt) markInDoubt(found outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed *driver.Error
	switch {
	case a.outcome != nil: // the driver has told it by now
	case errors.As(found.err, &failed) && failed.Pending:
		a.done = make(chan struct{})
	default:
		a.outcome = &found
	}
}

// Tell has the driver say what came of an attempt that was given up.
func (a *Attempt) Tell(raw any, err error) {
	found := a.read(raw, err)
	a.mu.Lock()
	a.outcome = &found
	if a.done != nil {
		close(a.done)
	}
	f := a.whenAnswered
	a.mu.Unlock()
	if f != nil && err == nil {
		f(a.result(&found))
	}
}

// WhenAnswered calls f once with the reply to an attempt that was given up, if there is one: at once, or later on the goroutine
// with which the driver reports it. So f must not block.
func (a *Attempt) WhenAnswered(f func(Result)) {
	if a.tells(f) {
		return
	}
	if res, ok := a.answered(); ok {
		f(res)
	}
}

// tells reports whether the attempt is still pending. If so, the driver's late report calls f.
func (a *Attempt) tells(f func(Result)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.Pending() {
		return false
	}
	a.whenAnswered = f
	return true
}

// Answered reports whether there is a reply to an attempt that was given up.
func (a *Attempt) Answered() bool {
	_, ok := a.answered()
	return ok
}

// answered returns the reply to an attempt that was given up, if it has arrived.
func (a *Attempt) answered() (res Result, ok bool) {
	if a.Pending() || a.err != nil {
		return res, false
	}
	return a.result(a.outcome), true
}

// read makes of a driver's answer what it says.
func (a *Attempt) read(raw any, err error) (found outcome) {
	if found.err = err; err != nil {
		return found
	}
	if found.reply, found.err = script.Parse(raw); found.err == nil {
		a.clock.Learn(found.reply.Now, a.sent)
	}
	return found
}

// apart sends a request once, now, on a goroutine of its own: its outcome is known, and
// waited for by Close, when nobody waits for the answer any more.
func (c *Caller) apart(ctx context.Context, now time.Time, r script.Request, timeout time.Duration) (res Result) {
	patience := timeout
	if c.replicated(&r) {
		patience += c.config.AckTimeout
	}
	a := c.attempt(context.Background(), now, &r, patience, timeout)
	a.done = make(chan struct{})
	started := c.config.Tasks.Go(func() {
		defer close(a.done)
		c.bounds.begin(&a.bound)
		found := c.run(&r, a, nil)
		found.why = c.bounds.finish(&a.bound)
		a.outcome = &found
	})
	if !started {
		a.outcome = &outcome{err: errNotSent}
		close(a.done)
	}
	select {
	case <-a.done:
		res = a.result(a.outcome)
	case <-ctx.Done():
		res.Err, res.Sent = context.Cause(ctx), a.sent
	}
	// It may have been answered at the very moment at which nobody waited any more.
	if res.Err != nil && (a.Pending() || a.err == nil || mayHaveRun(a.err)) {
		res.Unknown = []*Attempt{a}
	}
	return res
}

// run has the driver make an attempt. Late is told what comes of one that is given up.
func (c *Caller) run(r *script.Request, a *Attempt, late driver.Late) outcome {
	publish, err := c.publish.command(&a.bound, c)
	if err != nil {
		return outcome{err: err}
	}
	args := append(a.args[:0], strconv.FormatInt(a.limit, 10), r.Channel, publish)
	call := driver.Call{Script: r.Script, Keys: r.Keys, Args: append(args, r.Args...), Late: late}
	var raw any
	acknowledged := 0
	if c.replicated(r) {
		raw, acknowledged, err = c.config.Driver.EvalReplicated(&a.bound, call, c.config.Replicas, c.config.AckTimeout)
	} else {
		raw, err = c.config.Driver.Eval(&a.bound, call)
	}
	if err != nil {
		err = c.judged(err)
	} else if !c.accepted.Load() {
		c.accepted.Store(true)
	}
	found := a.read(raw, err)
	found.acknowledged = acknowledged
	return found
}

// Expiry is from when on the script can have no effect any more, as far as is known
// now. If the server has not answered yet, it is known better once it has.
func (a *Attempt) Expiry() mono.Time { return a.clock.Expiry(a.sent, a.timeout, a.limit) }

// due is when it has expired, unless the server's clock is further off than is known
// from an answer within the timeout. The driver has let go of it by then.
func (a *Attempt) due() mono.Time { return a.sent.Add(3*a.timeout/2 + 2*servertime.Slack) }

// Pending reports whether the driver has not answered yet.
func (a *Attempt) Pending() bool {
	if a.done == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// mayHaveRun takes an error of unknown kind for the worse case. Our scripts look
// at the types of their keys before they write.
func mayHaveRun(err error) bool {
	if err == nil {
		return false
	}
	var failed *driver.Error
	return !errors.As(err, &failed) || failed.MayHaveRun && failed.Code != script.WrongType
}

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

// checkEvery is the longest that SleepUntil sleeps: what is known of the server's clock
// may have changed.
const checkEvery = 3 * time.Second

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
