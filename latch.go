package holdfast

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Latch is a count that goes down to zero, for which anybody can wait. Once it
// is zero it is gone, and can be set anew. Get one from [Client.NewLatch]. All
// methods are safe for concurrent use.
//
// In Redis it is a number at its name; none is zero. Zero is announced on
// redisson_countdownlatch__channel__{name}, as are a new count and a deletion.
// Our own are holdfast_calls:{name}, the calls of the last minute or so that have
// changed the latch, and holdfast_zero:{name}, when it was zero last; both expire.
// Redisson: RCountDownLatch.
type Latch struct {
	object
}

// NewLatch returns the latch of the given name. It does no I/O. What a name can be
// is said at [Client.NewMutex]; on a cluster it has no braces, since its channel,
// as Redisson spells it, would lie in another slot: every call then returns
// [ErrInvalidName]. Redisson: getCountDownLatch.
func (c *Client) NewLatch(name string) *Latch {
	k := newKind(c, name, "latch", countdown{name: name}, mutexConfig{})
	if k.invalid == nil && c.driver.Slotted() && !wire.LatchFits(name) {
		k.invalid = fmt.Errorf("holdfast: %w: %q: with braces in its name, the channel of a latch is in another slot",
			ErrInvalidName, name)
	}
	k.shared, k.asks = true, true
	k.refusal = func(answer script.Answer) error {
		count, err := answer.Int(3)
		if err != nil {
			return &BackendError{Op: "await", Name: name, Err: err}
		}
		return problem(name, fmt.Sprintf("it is %d", count), ErrNotZero)
	}
	return &Latch{object{client: c, kind: k, keys: []string{name}}}
}

// TrySetCount sets the count to n if it is zero, and reports whether it was.
// Errors match [ErrInvalidCount] if n is not between 1 and [MaxCount], or are as
// those of [Hold.Extend]; after a [*BackendError] that says MayHaveRun it may have
// been set. Redisson: trySetCount.
func (l *Latch) TrySetCount(ctx context.Context, n int) (bool, error) {
	if err := checkCount(l.kind.name, n, 1, MaxCount); err != nil {
		return false, err
	}
	return l.set(ctx, n)
}

// Delete sets the count to zero without counting down, and reports whether it was
// not zero. Who waits with holdfast goes on; in Redisson they are not woken. The
// errors are TrySetCount's. Redisson: delete.
func (l *Latch) Delete(ctx context.Context) (bool, error) { return l.set(ctx, 0) }

func (l *Latch) set(ctx context.Context, n int) (bool, error) {
	o, err := l.client.ask(ctx, l.kind, "set", l.ask(script.Latch.Set, wire.NewCount, strconv.Itoa(n)))
	return o.answer.Code == script.Done, err
}

// CountDown lowers the count by one, unless it is zero. A call under a context that
// has not ended counts, and counts once: if ctx ends meanwhile, or Redis does not
// answer in time, CountDown returns an error that matches ctx.Err() and the
// context's cause, or a [*BackendError], and the call goes on in the background,
// for ten more timeouts or so if Redis is away. So do not repeat it. Under a context
// that has ended, nothing is sent. The error can match [ErrUntold], [ErrClosed] and
// [ErrInvalidName], too. Redisson: countDown.
func (l *Latch) CountDown(ctx context.Context) error {
	if ctx.Err() != nil {
		return gaveUp(ctx, l.kind.name)
	}
	_, err := l.client.see(ctx, l.kind, "count down", l.ask(script.Latch.Down, wire.Zero))
	return err
}

// Count returns the count. It asks the primary. Redisson: getCount.
func (l *Latch) Count(ctx context.Context) (int, error) {
	o, err := l.client.ask(ctx, l.kind, "inspect", l.kind.acquire(wish{}))
	if err != nil || o.answer.Code == script.Done {
		return 0, err
	}
	count, err := o.answer.Int(3)
	if err != nil {
		return 0, misread(l.kind.name, err)
	}
	return int(count), nil
}

// Await waits until the count is zero, the latch is deleted or expires, ctx ends,
// or [Wait] runs out, which is the one option that it takes. If the count is zero
// it returns at once. It looks when zero is announced, whenever its subscription
// is confirmed, and every three seconds. If the latch is set anew before it has
// looked, it returns all the same, unless it was Redisson that counted down to
// zero.
//
// The error matches [ErrNotZero] if Wait ran out; ctx.Err() and the context's
// cause if ctx ended; [*BackendError] if Redis did not answer, or refused;
// [ErrClosed], [ErrInvalidName] or [ErrInvalidOption]. Redisson: await.
func (l *Latch) Await(ctx context.Context, options ...LockOption) error {
	return l.client.await(ctx, l.kind, false, options)
}

// ask is a request for a call of its own.
func (l *Latch) ask(s *driver.Script, args ...string) request {
	name := l.kind.name
	return request{
		script: s, keys: []string{name, wire.Calls(name), wire.LatchZero(name)}, channel: wire.LatchChannel(name),
		args: append(l.client.oneCall(newID()), args...),
	}
}

// countdown is the dialect of the latch: to acquire it is to find it at zero.
// There are no holds, and so nothing to renew, look at or force.
type countdown struct {
	dialect
	name string
}

func (l countdown) acquire(w wish) request {
	return request{
		script: script.Latch.Await, keys: []string{l.name, wire.LatchZero(l.name)},
		args: []string{strconv.FormatInt(w.since, 10)},
	}
}

func (countdown) release(Owner, int, int) request { return request{} }
func (countdown) leave(Owner) request             { return request{} }
func (l countdown) channel(Owner) string          { return wire.LatchChannel(l.name) }

func (l countdown) size() request {
	return request{script: script.Size, keys: append([]string{l.name}, l.aside()...)}
}

func (l countdown) aside() []string { return []string{wire.Calls(l.name), wire.LatchZero(l.name)} }
