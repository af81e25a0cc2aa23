package permits

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who was woken, and gives up while a try of one who has left is still under way, passes the wake-up on. Those who wait for a
// semaphore without leases stand in no line, so nothing else tells the next one.
func TestWakeUpOfOneWhoLeavesDuringATry(t *testing.T) {
	on(t, "semaphore", 1, func(s *stage) {
		taken := s.other.NewUnleasedSemaphore("x")
		kit.OK(s.T, taken.Acquire(background, 1))
		waiting := func() (<-chan error, context.CancelFunc) {
			ctx, cancel := context.WithCancel(background)
			return kit.Aside(func() error { return s.semaphore.Acquire(ctx, 1) }), cancel
		}
		first, firstLeaves := waiting()
		second, secondLeaves := waiting()
		third, _ := waiting()
		kit.Every(s.d, "acquire", memdriver.Fault{DelayReply: 50 * time.Millisecond})
		s.Do("PUBLISH", "redisson_sc:{x}", "1") // the first asks, and is refused; nobody knows that yet
		time.Sleep(10 * time.Millisecond)
		kit.OK(s.T, taken.Release(1))
		firstLeaves() // the second is to ask, when that try is over
		time.Sleep(10 * time.Millisecond)
		secondLeaves()
		free := time.Now()
		kit.OK(s.T, <-third)
		kit.Took(s.T, time.Since(free), 0, 200*time.Millisecond, "the third has waited for %v")
		s.d.SetFaults(nil)
		kit.OK(s.T, s.semaphore.Release(1))
		if <-first == nil || <-second == nil {
			s.T.Error("one who has left was let in")
		}
	})
}
