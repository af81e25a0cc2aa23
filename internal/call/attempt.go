package call

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/servertime"
)

// Attempt is one script on its way to the server and back.
type Attempt struct {
	clock servertime.Clock
	sent  time.Time
	// The server does nothing with it after timeout, which is limit on its clock.
	timeout time.Duration
	limit   int64
	// done is closed when reply, acknowledged and err are set.
	done         chan struct{}
	reply        script.Reply
	acknowledged int
	err          error
}

// Send sends a request once. The server does nothing with it after timeout.
func (c *Caller) Send(r script.Request, timeout time.Duration) *Attempt {
	now, clock := time.Now(), c.clocks.Of(c.Slot(r.Keys[0])) // all keys have one slot
	a := &Attempt{
		clock: clock, sent: now, timeout: timeout, limit: clock.Limit(now, timeout), done: make(chan struct{}),
	}
	started := c.config.Tasks.Go(func() {
		ctx, cancel := context.WithDeadline(c.config.Life, now.Add(timeout+c.acknowledging(r)))
		defer cancel()
		defer close(a.done)
		a.reply, a.acknowledged, a.err = c.run(ctx, r, a)
	})
	if !started {
		a.err = ErrClosed
		close(a.done)
	}
	return a
}

// run is the attempt's goroutine.
func (c *Caller) run(ctx context.Context, r script.Request, a *Attempt) (
	reply script.Reply, acknowledged int, err error,
) {
	publish, err := c.publishCommand(ctx)
	if err != nil {
		return script.Reply{}, 0, err
	}
	limit := strconv.FormatInt(a.limit, 10)
	call := driver.Call{Script: r.Script, Keys: r.Keys, Args: append([]string{limit, r.Channel, publish}, r.Args...)}
	var raw any
	if r.Acknowledged && c.config.Replicas > 0 {
		raw, acknowledged, err = c.config.Driver.EvalReplicated(ctx, call, c.config.Replicas, c.config.AckTimeout)
	} else {
		raw, err = c.config.Driver.Eval(ctx, call)
	}
	if err != nil {
		return script.Reply{}, 0, err
	}
	reply, err = script.Parse(raw)
	if err == nil {
		a.clock.Learn(reply.Now, a.sent)
	}
	return reply, acknowledged, err
}

// acknowledging is how much longer a reply may take because replicas have to
// acknowledge what was asked for.
func (c *Caller) acknowledging(r script.Request) time.Duration {
	if r.Acknowledged {
		return c.config.AckTimeout
	}
	return 0
}

// publishCommand asks the driver once how releases are announced.
func (c *Caller) publishCommand(ctx context.Context) (string, error) {
	if known := c.publish.Load(); known != nil {
		return *known, nil
	}
	command, err := c.config.Driver.PublishCommand(ctx)
	if err == nil {
		c.publish.Store(&command)
	}
	return command, err
}

// Result waits for the attempt to end, for ctx to end, or for the timeout. The error
// is the attempt's, the context's cause, or [ErrNoAnswer].
func (a *Attempt) Result(ctx context.Context, timeout time.Duration) Result {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-a.done:
		return Result{Reply: a.reply, Acknowledged: a.acknowledged, Sent: a.sent, Err: a.err}
	case <-ctx.Done():
		return Result{Err: context.Cause(ctx)}
	case <-timer.C:
		return Result{Err: ErrNoAnswer}
	}
}

// Over is from when on the script can have no effect any more, as far as is known
// now. If the server has not answered yet, it is known better once it has.
func (a *Attempt) Over() time.Time { return a.clock.Over(a.sent, a.timeout, a.limit) }

// due is when it is over, unless the server's clock is further off than is known
// from an answer within the timeout. The driver has let go of it by then.
func (a *Attempt) due() time.Time { return a.sent.Add(3*a.timeout/2 + 2*servertime.Slack) }

// Pending reports whether the driver has not answered yet.
func (a *Attempt) Pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// unknown reports, of an attempt whose reply is not used, whether it may have had,
// or may still have, an effect. It may well have been answered at the very moment at
// which its caller stopped waiting.
func (a *Attempt) unknown() bool { return a.Pending() || a.err == nil || mayHaveRun(a.err) }

// mayHaveRun takes an error of unknown kind for the worse case. Our scripts look
// at the types of their keys before they write.
func mayHaveRun(err error) bool {
	if err == nil || errors.Is(err, ErrClosed) {
		return false
	}
	var failed *driver.Error
	return !errors.As(err, &failed) || failed.MayHaveRun && failed.Code != script.WrongType
}
