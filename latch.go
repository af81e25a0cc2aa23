package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Latch is a count that goes down to zero, for which anybody can wait. Once it is zero it is gone, and can be set anew.
// Get one from [Client.NewLatch]. Redisson: RCountDownLatch.
type Latch struct {
	object
}

// notZero makes the refusals of the latch of a name.
type notZero struct{ name string }

// Refusal reads the count.
func (l notZero) Refusal(r script.Reply) error {
	count, _, err := protocol.ReadCount(r)
	if err != nil {
		return &BackendError{Op: "await", Name: l.name, Err: err}
	}
	return lockerr.Problem(l.name, fmt.Sprintf("it is %d", count), ErrNotZero)
}

// TrySetCount sets the count to n if it is zero, and reports whether it was.
// The error matches [ErrInvalid] if n is not between 1 and [MaxCount]; the others are those of
// [PermitSemaphore.TrySetPermits]. Redisson: trySetCount.
func (l *Latch) TrySetCount(ctx context.Context, n int) (bool, error) {
	return l.set(ctx, n, 1)
}

// Delete sets the count to zero without counting down, and reports whether it was not zero. Who waits with holdfast goes
// on; Redisson's are not woken. The errors are TrySetCount's. Redisson: delete.
func (l *Latch) Delete(ctx context.Context) (bool, error) { return l.set(ctx, 0, 0) }

// Expire lets the count become zero d from now, and reports whether it is not zero now. Those who wait see it within three
// seconds. Bounds and errors are [PermitSemaphore.Expire]'s. Redisson: expire, clearExpire.
func (l *Latch) Expire(ctx context.Context, d time.Duration) (bool, error) { return l.expire(ctx, d) }

func (l *Latch) set(ctx context.Context, n, least int) (bool, error) {
	return l.counted(ctx, "set", n, least, l.protocol().Set(l.handle.once(), n))
}

// CountDown lowers the count by one, unless it is zero. It takes no context, like [Hold.Unlock]. It counts once: if Redis
// does not answer within the client's timeout, it returns a [*BackendError], and the call goes on in the background for
// ten more timeouts or so. So do not repeat it. The error can match [ErrUntold], [ErrClosed] and [ErrInvalid], too.
// Redisson: countDown.
func (l *Latch) CountDown() error {
	_, err := l.detached("count down", l.protocol().Down(l.handle.once()))
	return err
}

// Inspect returns the count, as [State.Remaining], and how long the latch lives. It asks the primary, once.
// The errors are TrySetCount's. Redisson: getCount.
func (l *Latch) Inspect(ctx context.Context) (State, error) {
	found, count, err := inspectState(ctx, &l.handle, protocol.InspectNumber(l.handle.Name))
	found.Remaining = max(0, count)
	return found, err
}

// Await waits until the count is zero, the latch is deleted or expires, ctx ends, or [Wait] runs out. It looks when zero
// is announced, whenever its subscription is confirmed, and every three seconds. If the latch is set anew before it has
// looked again, it returns all the same, unless Redisson did both. Before Redis has answered it once it cannot know.
//
// The error matches [ErrNotZero] if Wait ran out; ctx.Err() and the context's cause if ctx ended; [*BackendError];
// [ErrClosed] or [ErrInvalid]. Redisson: await.
func (l *Latch) Await(ctx context.Context, options ...WaitOption) error {
	cfg := configOf(options)
	return l.handle.pass(ctx, &cfg)
}

func (l *Latch) protocol() protocol.Latch { return protocol.Latch{Name: l.handle.Name} }
