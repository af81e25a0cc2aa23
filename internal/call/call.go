package call

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/servertime"
	"github.com/holdfast-go/holdfast/internal/tasks"
)

const (
	// firstPause is that between the first two attempts; each one after that is twice
	// as long.
	firstPause = 20 * time.Millisecond
	// LongestPause is the longest of them.
	LongestPause = 500 * time.Millisecond
	// lateReplies is how often in a row a server may call a fresh attempt late:
	// once corrects our guess of its clock, more means a clock gone wild.
	lateReplies = 5
)

var (
	// ErrNoAnswer is the error of a call that Redis did not answer in time.
	ErrNoAnswer = errors.New("Redis did not answer in time") //nolint:staticcheck // Redis is a name
	// ErrLate is the error of a call that the server takes for too late, whatever its
	// limit.
	ErrLate = errors.New("the server's clock jumps: it takes every call for one that comes too late")
	// ErrClosed is the error of an attempt that begins after Config.Tasks has ended. To
	// users it says that their client is closed.
	ErrClosed = errors.New("the client is closed")
)

// Config is what a [Caller] works with.
type Config struct {
	Driver driver.Driver
	// Tasks count the attempts.
	Tasks *tasks.Group
	// Life ends every attempt, and Closing those of DoBriefly. After Closing has ended,
	// nobody waits for a server's clock that is far off.
	Life, Closing context.Context
	// Timeout bounds one call, repetitions included.
	Timeout time.Duration
	// So many replicas acknowledge what asks for that, within AckTimeout; 0: none.
	Replicas   int
	AckTimeout time.Duration
}

// Caller sends scripts. Use [New]. It is safe for concurrent use.
type Caller struct {
	config  Config
	clocks  *servertime.Clocks
	publish publishing
	bounds  bounds
}

// New returns a caller. It does no I/O.
func New(config Config) *Caller {
	c := &Caller{config: config, clocks: &servertime.Clocks{}}
	if config.Driver.Slotted() {
		c.clocks = servertime.New(script.Slots)
	}
	context.AfterFunc(config.Closing, c.bounds.endAtClosing)
	context.AfterFunc(config.Life, c.bounds.endAll)
	return c
}

// Slot is that of a key, where the server has slots.
func (c *Caller) Slot(key string) int {
	if c.config.Driver.Slotted() {
		return script.Slot(key)
	}
	return 0
}

// Result is what came of a call.
type Result struct {
	Reply        script.Reply
	Acknowledged int       // by so many replicas, if they were asked
	Sent         time.Time // when the answered attempt was sent
	Err          error     // of the last attempt, or of the context
	// LastFailure is the last error of an attempt, also if the context ended later.
	LastFailure error
	// Unknown are attempts other than the answered one that may yet have an effect,
	// or have had one.
	Unknown []*Attempt
}

// Has reports whether there was a reply with this code.
func (r *Result) Has(code script.Code) bool { return r.Err == nil && r.Reply.Code == code }

// Do sends a request until it is answered, ctx ends, the error is not one that
// passes, or the timeout has run out. It starts no goroutine, unless replicas are to
// acknowledge the request. What comes of an attempt that is given up because ctx ends is
// known if the driver tells.
func (c *Caller) Do(ctx context.Context, request script.Request) Result {
	if request.Acknowledged && c.config.Replicas > 0 { // the driver may not return at once
		return c.DoApart(ctx, request)
	}
	return c.repeat(ctx, request, time.Now(), Result{}, c.Once)
}

// DoBriefly is Do for a call that waits for a lock. Its first attempt, which is mostly the
// last, ends with ctx, with Config.Closing, and after patience; only if it fails is there a
// need for bound, which returns the context for the others.
func (c *Caller) DoBriefly(
	ctx context.Context, patience time.Duration, bound func() context.Context, request script.Request,
) Result {
	if request.Acknowledged && c.config.Replicas > 0 {
		return c.Do(bound(), request)
	}
	began := time.Now()
	r := c.once(ctx, request, patience, true)
	if r.Err == nil && r.Reply.Code != script.Late {
		return r
	}
	if r.Err != nil {
		r.failed(ctx, r.Err)
		if !r.WorthRepeating() {
			return r
		}
		if !errors.Is(r.Err, ErrNoAnswer) { // else it has waited already
			Sleep(ctx, firstPause)
		}
	}
	return c.repeat(bound(), request, began, Result{LastFailure: r.LastFailure, Unknown: r.Unknown}, c.Once)
}

// DoApart is Do, but every attempt has a goroutine of its own: what comes of the last one
// is known as soon as Redis answers, though nobody waits for it any more.
func (c *Caller) DoApart(ctx context.Context, request script.Request) Result {
	return c.repeat(ctx, request, time.Now(), Result{}, func(ctx context.Context, request script.Request, timeout time.Duration) Result {
		a := c.Send(request, timeout)
		res := a.Result(ctx)
		if res.Err != nil && a.unknown() {
			res.Unknown = []*Attempt{a}
		}
		return res
	})
}

// repeat makes attempts until one is answered. The call began then, and r is what has come
// of it so far.
func (c *Caller) repeat(
	ctx context.Context, request script.Request, began time.Time, r Result,
	once func(context.Context, script.Request, time.Duration) Result,
) Result {
	end := began.Add(c.config.Timeout)
	pause, lates := firstPause, 0
	for {
		if ctx.Err() != nil {
			r.Err = context.Cause(ctx)
			return r
		}
		patience := min(c.config.Timeout/3, time.Until(end)) // the last one may begin late
		one := once(ctx, request, patience)
		switch {
		case one.Err != nil:
			r.failed(ctx, one.Err)
			r.Unknown = append(r.Unknown, one.Unknown...)
			if !r.WorthRepeating() || !time.Now().Add(pause).Before(end) {
				return r
			}
			if !errors.Is(one.Err, ErrNoAnswer) { // else it has waited already
				Sleep(ctx, pause)
				pause = min(2*pause, LongestPause)
			}
		case one.Reply.Code == script.Late && lates < lateReplies && time.Now().Before(end):
			lates++
		case one.Reply.Code == script.Late:
			r.Err = ErrLate
			return r
		default:
			one.Unknown, one.LastFailure = r.Unknown, r.LastFailure
			return one
		}
	}
}

// failed takes note of the error of an attempt.
func (r *Result) failed(ctx context.Context, err error) {
	r.Err = err
	if ctx.Err() == nil && (r.LastFailure == nil || !errors.Is(err, ErrNoAnswer)) {
		r.LastFailure = err // silence says less than a refusal before it
	}
}

// Why is what says most of why a call failed: silence says less than a refusal
// before it.
func (r *Result) Why() error {
	if errors.Is(r.Err, ErrNoAnswer) && r.LastFailure != nil {
		return r.LastFailure
	}
	return r.Err
}

// WorthRepeating reports whether the error is one that passes.
func (r *Result) WorthRepeating() bool {
	if errors.Is(r.Err, ErrNoAnswer) {
		return true
	}
	var failed *driver.Error
	return errors.As(r.Err, &failed) && failed.Transient
}

// Sleep waits for d or the end of ctx.
func Sleep(ctx context.Context, d time.Duration) {
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
