package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// object is what can be done with a semaphore or a latch as with any object. Its
// keys are those that it is made of; what helps its calls beside them expires by
// itself.
type object struct {
	handle  handle
	keys    []string
	holders string      // where those who hold its permits listen; empty if there are none
	permits int         // to set, by trySet, if nobody has; 0: none
	differs atomic.Bool // it was told that there are others than that
	trySet  func(ctx context.Context, n int) (bool, error)
	ensured atomic.Bool // they have been set
	setting atomic.Bool // they are being set again
}

// Name returns the name.
func (o *object) Name() string { return o.handle.Name }

// expire is Expire of each kind.
func (o *object) expire(ctx context.Context, d time.Duration) (bool, error) {
	if d == NoExpiry {
		d = 0
	} else if _, err := checkLease(d); err != nil {
		return false, err
	}
	n, answered, err := o.number(ctx, "expire", protocol.Expire(o.keys, d, o.holders))
	if err != nil && !lockerr.IsUntold(err) {
		return false, err
	}
	o.handle.Recheck()
	return n > 0, cmp.Or(o.outlast(ctx, "expire", answered), err)
}

// remove is Delete of a semaphore.
func (o *object) remove(ctx context.Context) (bool, error) {
	n, answered, err := o.number(ctx, "delete", protocol.Delete(o.keys, o.holders))
	o.handle.Recheck()
	if err != nil && !lockerr.IsUntold(err) {
		return false, err
	}
	// If an attempt was lost, the one that was answered may have found its work done.
	return n > 0 || len(answered.Unknown) > 0, cmp.Or(o.outlast(ctx, "delete", answered), err)
}

// outlast returns when earlier attempts, which were not answered, can do nothing any more: late, they would hit what
// is made next. It is an error if that is not so within the client's timeout, or when ctx ends.
func (o *object) outlast(ctx context.Context, op string, answered call.Result) error {
	e := o.handle.Engine
	if len(answered.Unknown) == 0 || !e.Tasks.Begin() {
		return nil
	}
	defer e.Tasks.End()
	ctx, cancel := engine.WithTimeout(ctx, e.Timeout)
	defer cancel()
	open, stop := e.UntilClosing(ctx)
	defer stop()
	e.Calls.Outlast(open, answered.Unknown)
	if open.Err() == nil {
		return nil
	}
	return &BackendError{Op: op, Name: o.handle.Name, MayHaveRun: true, Err: fmt.Errorf("it is done, but an earlier attempt may still arrive: %w", engine.ForUser(context.Cause(open)))}
}

// number asks for what is answered by a number.
func (o *object) number(ctx context.Context, op string, request script.Request) (n int64, answered call.Result, err error) {
	answered, told := o.handle.invoke(ctx, op, request)
	if told != nil && !lockerr.IsUntold(told) {
		return 0, answered, told
	}
	if n, err = answered.Reply.Int(0); err != nil {
		return 0, answered, &BackendError{Op: op, Name: o.handle.Name, MayHaveRun: true, Err: err}
	}
	return n, answered, told
}

// detached is a call that takes no context, and that goes on in the background if Redis does not answer in time.
func (o *object) detached(op string, request script.Request) (call.Result, error) {
	if o.handle.made().invalid != nil {
		return call.Result{}, o.handle.invalid
	}
	return o.handle.Detached(o.handle.Engine.Life, op, request)
}

// configure applies the options of a semaphore.
func (o *object) configure(options []SemaphoreOption) {
	o.handle.refuse(applyAll(options, func(option SemaphoreOption) error { return option.applySemaphore(o) }))
}

// ensurePermits sets the permits that [Permits] says, once, and takes the time for that
// off the wait. What the acquire is going to refuse anyway is not set.
func (o *object) ensurePermits(ctx context.Context, config *lockConfig) error {
	if o.permits == 0 || o.ensured.Load() {
		return nil
	}
	late := engine.TooLate(ctx, engine.OpAcquire, o.handle.Name, engineErrors{})
	checked := *config
	if err := o.handle.complete(&checked); err != nil || o.handle.Engine.Draining.Err() != nil || late != nil {
		return nil // the acquire says why
	}
	began := time.Now()
	bounded, stop := ctx, context.CancelFunc(func() {})
	if config.Wait > 0 {
		bounded, stop = engine.WithTimeout(ctx, config.Wait)
	}
	defer stop()
	if _, err := o.trySet(bounded, o.permits); err != nil && !lockerr.IsUntold(err) {
		tellResult(ctx, onRefuse, &o.handle, config.hooks, report{started: began}, err)
		return err
	}
	o.ensured.Store(true)
	if config.Wait > 0 {
		config.Wait = max(time.Nanosecond, config.Wait-time.Since(began))
	}
	return nil
}

// wanting returns what acquires n permits, with traits of its own. It sets how many there are before, if it has to.
func (o *object) wanting(ctx context.Context, n, most int, config *lockConfig) (one handle, err error) {
	if err := checkCount(o.handle.Name, n, 1, most); err != nil {
		return one, err
	}
	if err := o.ensurePermits(ctx, config); err != nil {
		return one, err
	}
	one = *o.handle.made()
	// One queue for all would have one wait behind another who wants more than there are.
	one.Queue, one.Refuser = one.Namespace+" "+strconv.Itoa(n), wants{o, n}
	return one, nil
}

// counted makes a call that takes a count of at least so many, and reports whether it has done what it was to do.
func (o *object) counted(ctx context.Context, op string, n, least int, request script.Request) (bool, error) {
	if err := checkCount(o.handle.Name, n, least, MaxCount); err != nil {
		return false, err
	}
	res, err := o.handle.invoke(ctx, op, request)
	return res.Reply.Code == script.Done, err
}

// setAgain sets the permits that [Permits] says in the background: there is no semaphore any more. Who waits
// is told, and asks again; so does the next refusal if it fails.
func (o *object) setAgain() {
	if o.permits == 0 || o.setting.Swap(true) {
		return
	}
	e := o.handle.Engine
	e.Tasks.Go(func() {
		defer o.setting.Store(false)
		if _, err := o.trySet(e.Life, o.permits); err != nil && !errors.Is(err, ErrClosed) {
			o.handle.client.failed(&o.handle.Lock, "", err)
		}
	})
}

// wants makes the refusals of either semaphore to a caller that wants n permits. It has them set again if they are lost.
type wants struct {
	*object

	n int
}

// Refusal reads what is available.
func (w wants) Refusal(r script.Reply) error {
	l := &w.handle
	short, err := protocol.ReadShortage(r)
	if err != nil {
		return &BackendError{Op: engine.OpAcquire, Name: l.Name, Err: err}
	}
	e := &PermitsError{
		Name: l.Name, Wanted: w.n, Available: short.Available, Total: -1, Reserved: short.Reserved, Unset: !short.Exists, TTL: expiry(short.TTL),
		option: w.permits,
	}
	if short.Held >= 0 {
		e.Total = int(protocol.Sum(int64(e.Available), int64(short.Held)))
	}
	if e.Unset {
		w.setAgain()
	} else if e.ignoresOption() && !w.differs.Swap(true) {
		l.client.failed(&l.Lock, "", e)
	}
	return e
}

// checkCount refuses counts that are out of bounds.
func checkCount(name string, n, least, most int) error {
	if n < least || n > most {
		return invalid("count: %d is not between %d and %d for %q", n, least, most, name)
	}
	return nil
}

// MaxCount is how many permits a semaphore, and what count a latch can be given:
// as many as Redisson's can.
const MaxCount = math.MaxInt32

// A SemaphoreOption sets something for one semaphore.
type SemaphoreOption interface{ applySemaphore(o *object) error }

// permitsOption is what [Permits] says.
type permitsOption int

func (o permitsOption) applySemaphore(s *object) error {
	if o < 1 || o > MaxCount {
		return invalid("count: %d permits are not between 1 and %d", int(o), MaxCount)
	}
	s.permits = int(o)
	return nil
}

// Permits says how many permits a semaphore has if nobody has said so yet: the first
// acquire through the value that it was given for sets them, with a call of its own, as
// TrySetPermits would. The call may take as long as the acquire. If the semaphore is deleted later, or expires, or
// the server loses its data, who is refused for that has them set again. If it has another number already, that stays:
// [PermitSemaphore.SetPermits] changes it. The refusals of a [PermitSemaphore] then say so, and the first one is told to OnError, too.
// Without this option an acquire sets none. The bounds are 1 and [MaxCount]; [ErrInvalid] outside. Redisson:
// trySetPermits.
func Permits(n int) SemaphoreOption { return permitsOption(n) }
