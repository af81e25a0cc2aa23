package hold

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One who polls listens to nobody, and says nothing when it gives back.
func TestPollingIsSilent(t *testing.T) {
	fake(t, func(s *stage) {
		holder, _ := s.Client()
		seen := kit.Count(s.d)
		polling := holdfast.Polling(time.Millisecond, 10*time.Millisecond)
		h := s.must(holder.NewMutex("x", polling).Lock(background))
		got := kit.Waiting(s.T, s.c.NewMutex("x", polling), background)
		time.Sleep(500 * time.Millisecond)
		if tries := seen.Of("acquire"); tries < 10 {
			s.Errorf("asked %d times", tries)
		}
		s.WantReply("", "PUBSUB", "CHANNELS", "*x*")
		var messages atomic.Int32
		listener := s.Server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				messages.Add(1)
			}
		})
		defer listener.Close()
		listener.Subscribe(s.Kind.Channel("x"))
		synctest.Wait()
		start := time.Now()
		s.unlock(h)
		next := <-got
		s.within(start, 0, 20*time.Millisecond)
		s.unlock(next)
		synctest.Wait()
		if n := messages.Load(); n > 0 {
			s.Errorf("%d messages", n)
		}
		s.unlock(s.beside()) // one who does not poll says something
		synctest.Wait()
		if messages.Load() == 0 {
			s.Error("the test does not hear what is said")
		}
	})
}
