package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/servertime"
)

// This file holds the retry policy, the only one there is. Scripts set a state,
// so an order may be sent again until it is answered.

const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// lateAnswers is how often in a row a server may call a fresh order late:
	// once corrects our guess of its clock, more means a clock gone wild.
	lateAnswers = 5
)

var (
	errNoAnswer = errors.New("Redis did not answer in time") //nolint:staticcheck // Redis is a name
	errLate     = errors.New("the server's clock jumps: it takes every call for one that comes too late")
)

// flight is one script on its way to the server and back. Its goroutine ends
// with the driver's answer, for which nobody may be waiting any more.
type flight struct {
	clock servertime.Clock
	sent  time.Time
	// The server does nothing with it after timeout, which is limit on its clock.
	timeout time.Duration
	limit   int64
	// done is closed when answer and err are set.
	done   chan struct{}
	answer script.Answer
	acked  int // how many replicas have acknowledged it, if they were asked
	err    error
}

// launch sends a request. The server does nothing with it after timeout.
func (c *Client) launch(ask request, timeout time.Duration) *flight {
	now, clock := time.Now(), c.clocks.Of(c.slot(ask.keys[0])) // all keys have one slot
	f := &flight{
		clock: clock, sent: now, timeout: timeout, limit: clock.Limit(now, timeout), done: make(chan struct{}),
	}
	started := c.tasks.Go(func() {
		ctx, cancel := context.WithDeadline(c.life, now.Add(timeout+c.acknowledging(ask)))
		defer cancel()
		defer close(f.done)
		f.answer, f.acked, f.err = c.fly(ctx, ask, f)
	})
	if !started {
		f.err = ErrClosed
		close(f.done)
	}
	return f
}

// fly is the flight's goroutine.
func (c *Client) fly(ctx context.Context, ask request, f *flight) (
	answer script.Answer, acked int, err error,
) {
	publish, err := c.publishCommand(ctx)
	if err != nil {
		return script.Answer{}, 0, err
	}
	limit := strconv.FormatInt(f.limit, 10)
	call := driver.Call{
		Script: ask.script, Keys: ask.keys, Args: append([]string{limit, ask.channel, publish}, ask.args...),
	}
	var reply any
	if ask.acks && c.config.replicas > 0 {
		reply, acked, err = c.driver.EvalReplicated(ctx, call, c.config.replicas, c.config.ackTimeout)
	} else {
		reply, err = c.driver.Eval(ctx, call)
	}
	if err != nil {
		return script.Answer{}, 0, err
	}
	answer, err = script.Parse(reply)
	if err == nil {
		f.clock.Learn(answer.Now, f.sent)
	}
	return answer, acked, err
}

// acknowledging is how much longer an answer may take because replicas have to
// acknowledge what was asked for.
func (c *Client) acknowledging(ask request) time.Duration {
	if ask.acks {
		return c.config.ackTimeout
	}
	return 0
}

// over is when the script can have no more effect, as far as that is known now.
// If the server has not answered yet, it is known better once it has.
func (f *flight) over() time.Time { return f.clock.Over(f.sent, f.timeout, f.limit) }

// due is when it is over, unless the server's clock is further off than is known
// from an answer within the timeout. The driver has let go of it by then.
func (f *flight) due() time.Time { return f.sent.Add(3*f.timeout/2 + 2*servertime.Slack) }

// inTheAir reports whether the driver has not answered yet.
func (f *flight) inTheAir() bool {
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// loose reports, of a flight whose answer is not used, whether it may have had,
// or may still have, an effect. It may well have been answered at the very
// moment at which its caller stopped waiting.
func (f *flight) loose() bool {
	return f.inTheAir() || f.err == nil || mayHaveRun(f.err)
}

// mayHaveRun takes an error of unknown kind for the worse case. Our scripts look
// at the types of their keys before they write.
func mayHaveRun(err error) bool {
	if err == nil || errors.Is(err, ErrClosed) {
		return false
	}
	var failed *driver.Error
	return !errors.As(err, &failed) || failed.MayHaveRun && failed.Code != wrongType
}

// outcome is what came of an order.
type outcome struct {
	answer script.Answer
	acked  int       // by so many replicas, if they were asked
	sent   time.Time // when the answered flight was sent
	err    error     // of the last flight, or of the context
	// trouble is the last error of a flight, also if the context ended later.
	trouble error
	// unknown are flights other than the answered one that may yet have an
	// effect, or have had one.
	unknown []*flight
}

// order sends a request until it is answered, the context ends, the error is
// not one that passes, or the client's timeout has run out.
func (c *Client) order(ctx context.Context, ask request) outcome {
	var o outcome
	end := time.Now().Add(c.config.timeout)
	pause, lates := firstPause, 0
	for {
		if ctx.Err() != nil {
			o.err = context.Cause(ctx)
			return o
		}
		patience := min(c.config.timeout/3, time.Until(end)) // the last one may begin late
		f := c.launch(ask, patience)
		ended := f.await(ctx, patience+c.acknowledging(ask))
		switch {
		case ended != nil:
			o.failed(ctx, ended)
			if f.loose() {
				o.unknown = append(o.unknown, f)
			}
			if !o.worthRepeating() || !time.Now().Add(pause).Before(end) {
				return o
			}
			if !errors.Is(ended, errNoAnswer) { // else it has waited already
				sleep(ctx, pause)
				pause = min(2*pause, longestPause)
			}
		case f.answer.Code == script.Late && lates < lateAnswers && time.Now().Before(end):
			lates++
		case f.answer.Code == script.Late:
			o.err = errLate
			return o
		default:
			o.answer, o.acked, o.sent, o.err = f.answer, f.acked, f.sent, nil
			return o
		}
	}
}

// failed takes note of the error of an attempt.
func (o *outcome) failed(ctx context.Context, err error) {
	o.err = err
	if ctx.Err() == nil && (o.trouble == nil || !errors.Is(err, errNoAnswer)) {
		o.trouble = err // silence says less than a refusal before it
	}
}

// worthRepeating reports whether the error is one that passes.
func (o *outcome) worthRepeating() bool {
	return errors.Is(o.err, errNoAnswer) || transient(o.err)
}

// await waits for a flight to end, and returns its error, the context's cause,
// or errNoAnswer after the timeout.
func (f *flight) await(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return errNoAnswer
	}
}

// backendError tells a user about an order that was not answered.
func (o *outcome) backendError(op, name string) error {
	return &BackendError{Op: op, Name: name, MayHaveRun: len(o.unknown) > 0, Err: explained(o.why())}
}

// why is what says most of why an order failed: silence says less than a refusal
// before it.
func (o *outcome) why() error {
	if errors.Is(o.err, errNoAnswer) && o.trouble != nil {
		return o.trouble
	}
	return o.err
}

// untold tells a user about an order that has had its effect, of which Redis told
// nobody. It is nil if Redis did.
func (o *outcome) untold(name string, ask request) error {
	if o.err != nil {
		return nil //nolint:nilerr // it has had no effect to be told of
	}
	why := o.answer.Untold()
	if o.answer.Code != script.Done || why == "" {
		return nil
	}
	return problem(name, fmt.Sprintf("let the Redis user publish on %q (docs/acl.md): %s", ask.channel, why), ErrUntold)
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
