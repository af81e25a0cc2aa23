package call

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
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
)

// errNotSent is [lockerr.Closed] of an attempt that certainly has had no effect.
var errNotSent = &driver.Error{Err: lockerr.Closed}

// Config is what a [Caller] works with.
type Config struct {
	Driver driver.Driver
	// Tasks count the attempts.
	Tasks *tasks.Group
	// Life ends every attempt, and Closing the first ones of DoBriefly. After Closing has ended,
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
	// accepted says that Redis has executed a script, so the client's credentials were right once, and scripts were loaded.
	accepted atomic.Bool
}

// New returns a caller. It does no I/O.
func New(config Config) *Caller {
	c := &Caller{config: config, clocks: &servertime.Clocks{}}
	if config.Driver.Slotted() {
		c.clocks = servertime.New(script.Slots)
	}
	context.AfterFunc(config.Closing, func() { c.bounds.close(false) })
	context.AfterFunc(config.Life, func() { c.bounds.close(true) })
	return c
}

// Doubt returns by how much longer than its time a call for key that is sent now may have an
// effect.
func (c *Caller) Doubt(key string) time.Duration { return c.clocks.Of(c.Slot(key)).Doubt() }

// Slotted reports whether the server has slots.
func (c *Caller) Slotted() bool { return c.config.Driver.Slotted() }

// Sharded reports whether messages belong to the shard of a slot, as far as the server has said.
func (c *Caller) Sharded() bool {
	known := c.publish.known.Load()
	return known != nil && *known == sharded
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
	Sent         mono.Time // when the answered attempt was sent, or without a reply the last one; zero if none was
	Err          error     // of the last attempt, or of the context
	// LastFailure is what says most of the errors since Redis answered last, also if the context ended later: the last one
	// that was no timeout, if there was one.
	LastFailure error
	// Unknown are attempts other than the answered one that may yet have an effect,
	// or have had one.
	Unknown []*Attempt
}

// Has reports whether there was a reply with this code.
func (r *Result) Has(code script.Code) bool { return r.Err == nil && r.Reply.Code == code }

// Reporter receives each failure of a call that another attempt follows. It does not block.
type Reporter interface{ Failing(why error) }

// Do sends a request until it is answered, ctx ends, the error is not one that
// passes, or the timeout has run out. It starts no goroutine, unless replicas are to
// acknowledge the request. What comes of an attempt that is given up because ctx ends is
// known if the driver tells. The reporter may be nil.
func (c *Caller) Do(ctx context.Context, request script.Request, to Reporter) Result {
	if c.replicated(&request) { // the driver may not return at once
		return c.DoApart(ctx, request)
	}
	now := time.Now()
	r := c.begin(now, to)
	r.repeat(ctx, now, &request)
	if request.Once && r.Has(script.Refused) && len(r.Unknown) > 0 {
		r.notFinal, request = len(r.Unknown), request.Final()
		r.repeat(ctx, time.Now(), &request)
	}
	return r.Result
}

// DoBriefly is Do without a context for the whole call, if one attempt is enough, as mostly. That
// one ends with ctx, with Config.Closing, and after patience; only if it fails is there a
// need for bound, which returns the context for the others.
func (c *Caller) DoBriefly(
	ctx context.Context, patience time.Duration, bound func() context.Context, request script.Request, to Reporter,
) (res Result) {
	if c.replicated(&request) {
		return c.DoApart(bound(), request)
	}
	now := time.Now()
	res = c.once(ctx, now, &request, patience, patience, true)
	if res.Err != nil || res.Has(script.Late) {
		c.doAgain(ctx, now, bound, &request, to, &res)
	}
	return res
}

// doAgain goes on with a call that began at now, and whose first attempt was in vain. The result is replaced.
func (c *Caller) doAgain(
	ctx context.Context, now time.Time, bound func() context.Context, request *script.Request, to Reporter, res *Result,
) {
	r := c.begin(now, to)
	if pause, again := r.goesOn(ctx, res); again {
		ctx = bound()
		Sleep(ctx, pause)
		r.repeat(ctx, time.Now(), request)
	}
	*res = r.Result
}

// DoApart is Do, but every attempt has a goroutine of its own: what comes of the last one
// is known as soon as Redis answers, though nobody waits for it any more.
func (c *Caller) DoApart(ctx context.Context, request script.Request) Result {
	now := time.Now()
	r := c.begin(now, nil)
	r.apart = true
	r.repeat(ctx, now, &request)
	return r.Result
}

// replicated reports whether replicas are to acknowledge what a request writes.
func (c *Caller) replicated(r *script.Request) bool { return r.Acknowledged && c.config.Replicas > 0 }

// repetition is a call that is sent until it is answered.
type repetition struct {
	Result // of the attempts so far

	caller   *Caller
	apart    bool // each attempt has a goroutine of its own
	end      time.Time
	pause    time.Duration // before the next attempt
	lates    int           // how often in a row the server found it late
	notFinal int           // so many of Unknown were sent before [script.Request.Final]: another may have its effect after their refusal
	reporter Reporter
}

// begin begins a call now.
func (c *Caller) begin(now time.Time, to Reporter) repetition {
	return repetition{caller: c, end: now.Add(c.config.Timeout), pause: firstPause, reporter: to}
}

// repeat makes attempts, the first one now, until there is no need for another one.
func (r *repetition) repeat(ctx context.Context, now time.Time, request *script.Request) {
	for c := r.caller; ; now = time.Now() {
		if ctx.Err() != nil {
			r.Err = context.Cause(ctx)
			return
		}
		var one Result
		patience := min(c.config.Timeout/3, r.end.Sub(now)) // the last one may begin late
		if r.apart {
			one = c.apart(ctx, now, *request, patience)
		} else {
			one = c.once(ctx, now, request, patience, patience, false)
		}
		pause, again := r.goesOn(ctx, &one)
		if !again {
			return
		}
		Sleep(ctx, pause)
	}
}

// goesOn notes what came of an attempt, and reports whether another one is to be made, and after which pause.
func (r *repetition) goesOn(ctx context.Context, one *Result) (pause time.Duration, again bool) {
	// A late request is not looked at, so that says nothing of what Redis has refused.
	if one.Err == nil && (one.Reply.Code != script.Late || Code(r.LastFailure) == "") {
		r.LastFailure = nil
	}
	switch {
	case one.Err != nil:
		return r.afterFailure(ctx, one)
	case one.Reply.Code == script.Late && r.lates < lateReplies && time.Now().Before(r.end):
		r.lates++
		return 0, true
	case one.Reply.Code == script.Late:
		if r.Err = ErrLate; r.lates < lateReplies {
			r.Err = ErrNoAnswer // the server is slow, which is not its clock's doing
		}
		return 0, false
	default:
		one.Unknown = r.Unknown
		r.Result = *one
		return 0, false
	}
}

// afterFailure is goesOn after an attempt that has failed.
func (r *repetition) afterFailure(ctx context.Context, one *Result) (pause time.Duration, again bool) {
	r.failed(ctx, one)
	r.Unknown = append(r.Unknown, one.Unknown...)
	if r.answeredLate() {
		return 0, false
	}
	if !r.WorthRepeating() || !time.Now().Add(r.pause).Before(r.end) {
		return 0, false
	}
	if r.reporter != nil && r.LastFailure != nil {
		r.reporter.Failing(r.LastFailure)
	}
	if !errors.Is(one.Err, ErrNoAnswer) { // else it has waited already
		pause = r.pause
		r.pause = min(2*r.pause, LongestPause)
	}
	return pause, true
}

// answeredLate reports whether a reply to an attempt that was given up has arrived. If so, it is the call's result.
func (r *repetition) answeredLate() bool {
	for i, a := range r.Unknown {
		if res, ok := a.answered(); ok && res.Reply.Code != script.Late && (i >= r.notFinal || res.Reply.Code != script.Refused) {
			res.Unknown = slices.Delete(r.Unknown, i, i+1)
			r.Result = res
			return true
		}
	}
	return false
}

// failed records a failed attempt. If the context ended it, the attempt counts as a failure only if the driver reports another
// reason, such as a refused connection.
func (r *Result) failed(ctx context.Context, one *Result) {
	r.Err, r.Sent = one.Err, one.Sent
	err := one.Err
	if ctx.Err() != nil {
		err = one.LastFailure
	}
	if err != nil && (r.LastFailure == nil || !IsTimeout(err)) {
		r.LastFailure = err
	}
}

// silence is how long Redis may take to reply before the error of a call that ends without a reply blames Redis. A slow network is no
// outage.
const silence = 100 * time.Millisecond

// Patience returns how long Redis may have left the last request of a call without a reply, before the call's error blames Redis, when
// ctx ended the call. Replicas have ack to acknowledge the request. If first is set, Redis has replied to no request of the call: then a
// deadline, however short, means that Redis did not reply in time.
func Patience(ctx context.Context, first bool, ack time.Duration) time.Duration {
	if first && !errors.Is(ctx.Err(), context.Canceled) {
		return 0
	}
	return silence + ack
}

// Unanswered returns why Redis has not replied to a call that its context ended. It is nil if no attempt failed and the last one
// was sent less than patience ago: see [Patience].
func (r *Result) Unanswered(patience time.Duration) error {
	if r.LastFailure == nil && r.Err != nil && !r.Sent.IsZero() && mono.Now().Sub(r.Sent) >= patience {
		return ErrNoAnswer
	}
	return r.LastFailure
}

// IsTimeout reports whether an error says no more than that Redis did not answer in time. A client may copy the deadline of
// an attempt to its connection, or have one of its own; then the read ends before the context does.
func IsTimeout(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.Is(err, ErrNoAnswer) || errors.As(err, &timed) && timed.Timeout()
}

// Why is what says most of why a call failed: a timeout says less than a refusal
// before it.
func (r *Result) Why() error {
	if IsTimeout(r.Err) && r.LastFailure != nil {
		return r.LastFailure
	}
	return r.Err
}

// WorthRepeating reports whether the error is one that passes.
func (r *Result) WorthRepeating() bool { return Passes(r.Err) }

// Passes reports whether an error is one that passes.
func Passes(err error) bool {
	if errors.Is(err, ErrNoAnswer) {
		return true
	}
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Transient
}

// judged says of an error of the driver whether it passes, where more is known here. A refusal of credentials that were accepted
// before does: they are being rotated, and the client may soon have the new ones. So does a script that is not loaded, if others
// were: the server has restarted, and an administrator loads them again. A refusal by a node of a cluster does not, if the client
// knows no clusters.
func (c *Caller) judged(err error) error {
	var failed *driver.Error
	if !errors.As(err, &failed) {
		return err
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case !c.config.Driver.Slotted() && (failed.Code == "MOVED" || failed.Code == "ASK"):
		return &driver.Error{Code: failed.Code, Err: err}
	case c.accepted.Load() && (failed.Code == "WRONGPASS" || failed.Code == "NOAUTH" || failed.Code == "NOSCRIPT" || errors.As(err, &certificate)):
		passing := *failed
		passing.Transient = true
		return &passing
	}
	return err
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
