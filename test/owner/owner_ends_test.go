package owner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestRefusalOfTwoCallsOfOneOwnerThatEndTogether: the second one has asked nothing. What it is told is what the first one was refused with.
func TestRefusalOfTwoCallsOfOneOwnerThatEndTogether(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		for _, wait := range []time.Duration{time.Second, 6 * time.Second} {
			call := func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx, holdfast.Wait(wait)) }
			first, second := kit.Begin(call), kit.Begin(call)
			for i, got := range []kit.Result{<-first, <-second} {
				var locked *holdfast.LockedError
				if !errors.As(got.Err, &locked) || locked.Holder != theirs.Owner() {
					t.Errorf("call %d of two: %v", i+1, got.Err)
				}
			}
			time.Sleep(time.Second)
		}
		kit.Unlock(t, theirs)
	})
}

// TestErrorOfACallThatWasBehindAnother: the call has waited for an earlier one of its owner for a second, and ends 20 ms after its own
// first request. Redis is not blamed for the second.
func TestErrorOfACallThatWasBehindAnother(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(other.NewMutex("x").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		begin := func(wait time.Duration) <-chan kit.Result {
			return kit.Begin(func() (*holdfast.Hold, error) { return c.NewMutex("x").Lock(ctx, holdfast.Wait(wait)) })
		}
		first := begin(time.Second)
		synctest.Wait()
		second := begin(time.Second + 70*time.Millisecond)
		slow := time.Now().Add(time.Second)
		d.SetFaults(func(driver.Call) memdriver.Fault { // of the first call's leave, and of the second call's request
			if time.Now().Before(slow) {
				return memdriver.Fault{}
			}
			return memdriver.Fault{DelayReply: 50 * time.Millisecond}
		})
		<-first
		got := <-second
		var locked *holdfast.LockedError
		if !errors.As(got.Err, &locked) || locked.Holder != theirs.Owner() {
			t.Error(got.Err)
		}
		d.SetFaults(nil)
		kit.Unlock(t, theirs)
	})
}

// TestErrorAfterASlowHook: a call was refused, its OnWait took five seconds, and it is cancelled 50 ms after its next request. Redis is
// not blamed for the five seconds.
func TestErrorAfterASlowHook(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		theirs := s.heldByOther()
		ctx, cancel := context.WithCancel(s.own)
		hook := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) {
			time.Sleep(5 * time.Second)
			kit.All(s.d, memdriver.Fault{DelayReply: 100 * time.Millisecond})
			time.AfterFunc(50*time.Millisecond, cancel)
		}})
		_, err := s.x.Lock(ctx, hook)
		var locked *holdfast.LockedError
		if kit.WantError(s.T, err, context.Canceled); !errors.As(err, &locked) || locked.Holder != theirs.Owner() {
			s.Error(err)
		}
		time.Sleep(time.Second)
		s.Unlock(theirs)
	})
}
