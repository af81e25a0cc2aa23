package owner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who holds a lock, keeps it from others or waits for it is named for as long, though nothing is renewed. Who has died is
// named for six minutes.
func TestIdentityLastsAsLongAsTheLock(t *testing.T) {
	for name, test := range map[string]struct {
		begin func(t *testing.T, c *holdfast.Client)
		named bool
	}{
		"fixed lease": {named: true, begin: func(t *testing.T, c *holdfast.Client) {
			t.Helper()
			kit.Must(t)(c.NewMutex("x").TryLock(background, holdfast.FixedLease(time.Hour)))
		}},
		"least hold": {named: true, begin: func(t *testing.T, c *holdfast.Client) {
			t.Helper()
			kit.Unlock(t, kit.Must(t)(c.NewMutex("x").TryLock(background, holdfast.MinHold(time.Hour))))
		}},
		"waiter": {named: true, begin: func(t *testing.T, c *holdfast.Client) {
			t.Helper()
			kit.Waiting(t, c.NewMutex("held"), background)
		}},
		"nothing": {begin: func(t *testing.T, c *holdfast.Client) {
			t.Helper()
			kit.Unlock(t, kit.Must(t)(c.NewMutex("x").TryLock(background)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				other, _ := w.Client()
				held := kit.Must(t)(other.NewMutex("held").TryLock(background))
				c, d := w.Known()
				test.begin(t, c)
				for range 5 {
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if named := w.Do("EXISTS", clientKey(c)) == "1"; named != test.named {
						t.Fatalf("named: %t, want %t", named, test.named)
					}
				}
				kit.Away(d)
				time.Sleep(6*time.Minute + time.Second)
				if name != "least hold" { // that is known to last
					w.WantReply("0", "EXISTS", clientKey(c))
				}
				d.SetFaults(nil)
				kit.Unlock(t, held)
				kit.OK(t, c.Close())
				time.Sleep(time.Hour)
			})
		})
	}
}

// While Close waits for a release anyway, it tries as long to delete what the client has said of itself: the server may be
// failing over.
func TestIdentityGoesWithALateRelease(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"silent": {LoseRequest: true}, "away": {Refuse: driver.ConnectionError(errors.New("connection refused"), true)},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Known()
				kit.Must(t)(c.NewMutex("x").TryLock(background))
				synctest.Wait()
				w.WantReply("1", "EXISTS", clientKey(c))
				kit.All(d, fault)
				time.AfterFunc(2500*time.Millisecond, func() { d.SetFaults(nil) })
				began := time.Now()
				kit.OK(t, c.Close())
				kit.Took(t, time.Since(began), 2500*time.Millisecond, 4500*time.Millisecond, "Close took %v")
				w.WantReply("0", "EXISTS", clientKey(c))
				time.Sleep(2 * time.Second) // until the turn of others is forgotten
			})
		})
	}
}
