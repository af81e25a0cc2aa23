package hold

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestWaitIsNotExceeded by a first attempt that fails at once, so that there is a pause before the second one.
func TestWaitIsNotExceeded(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.All(d, memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
		start := time.Now()
		_, err := w.Lock(c).Lock(background, holdfast.Wait(5*time.Millisecond))
		if took := time.Since(start); took != 5*time.Millisecond || !errors.As(err, new(*holdfast.BackendError)) {
			t.Errorf("%v after %v", err, took)
		}
		d.SetFaults(nil)
	})
}

// TestWaitersFailTogether: Redis refuses what the first of several asks for, or does not answer it, and so for longer than a call bears it. Those
// behind it have waited for as long, and do not each begin anew. One that has come just before tries for itself, and then Redis answers:
// nobody behind it hears of what was before.
func TestWaitersFailTogether(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{"full": {Refuse: kit.Refusal(true)}, "silent": {LoseRequest: true}} {
		t.Run(name, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				kit.All(d, fault)
				start := time.Now()
				lock := func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background) }
				all := []<-chan kit.Result{kit.Begin(lock), kit.Begin(lock), kit.Begin(lock), kit.Begin(lock)}
				time.Sleep(5 * time.Second)
				use := func() error {
					h, err := lock()
					if err != nil {
						return err
					}
					time.Sleep(4 * time.Second)
					return h.Unlock()
				}
				late := []<-chan error{kit.Aside(use), kit.Aside(use), kit.Aside(use)}
				for i, one := range all {
					if err := (<-one).Err; !errors.As(err, new(*holdfast.BackendError)) || time.Since(start) > 6*time.Second {
						t.Errorf("number %d, after %v: %v", i+1, time.Since(start), err)
					}
				}
				d.SetFaults(nil)
				for i, one := range late {
					if err := <-one; err != nil {
						t.Errorf("late number %d: %v", i+1, err)
					}
				}
			})
		})
	}
}

// TestWaitersFailTogetherAfterAnOutage: they were refused before, so they have borne it for ten timeouts, all of them.
func TestWaitersFailTogetherAfterAnOutage(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		lock := func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background) }
		all := []<-chan kit.Result{kit.Begin(lock), kit.Begin(lock), kit.Begin(lock), kit.Begin(lock)}
		time.Sleep(10 * time.Second)
		kit.Away(d)
		start := time.Now()
		for i, one := range all {
			if err := (<-one).Err; !errors.As(err, new(*holdfast.BackendError)) {
				t.Errorf("number %d: %v", i+1, err)
			}
			kit.Took(t, time.Since(start), time.Minute, 75*time.Second, "it has borne %v")
		}
		d.SetFaults(nil)
		kit.Unlock(t, theirs)
	})
}
