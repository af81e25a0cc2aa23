package line

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One who waits where others make way for it is killed, and then the lock is free: the next one who
// lives has it within five seconds, in each kind that knows such a thing.
func TestDeadWaiterCostsFiveSeconds(t *testing.T) {
	type acquire func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error)
	fairly := func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
		return c.NewFairMutex("x").Lock(ctx)
	}
	take := func(n int) acquire {
		return func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
			return c.NewPermitSemaphore("x").Acquire(ctx, n)
		}
	}
	read := func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
		return c.NewRWMutex("x", holdfast.WritersFirst()).RLock(ctx)
	}
	write := func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
		return c.NewRWMutex("x", holdfast.WritersFirst()).Lock(ctx)
	}
	permitted := func(t *testing.T, f func(*testing.T, *kit.World)) { kit.PermitsWorld(t, 2, f) }
	for name, kind := range map[string]struct {
		world              func(t *testing.T, f func(*testing.T, *kit.World))
		holds, dies, lives acquire
	}{
		"fair":          {kit.Fake, fairly, fairly, fairly},
		"writers first": {kit.Fake, read, write, read},
		"permits":       {permitted, take(2), take(2), take(1)},
	} {
		for phase := time.Duration(0); phase < 3*time.Second; phase += 250 * time.Millisecond {
			t.Run(fmt.Sprint(name, "/", phase), func(t *testing.T) {
				kind.world(t, func(t *testing.T, w *kit.World) {
					holder, _ := w.Client()
					h := kit.Must(t)(kind.holds(background, holder))
					dead, d := w.Client()
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					go func() {
						_, err := kind.dies(ctx, dead)
						kit.WantError(t, err, context.Canceled)
					}()
					synctest.Wait()
					time.Sleep(time.Second)
					c, _ := w.Client()
					granted := make(chan time.Time, 1)
					go func() {
						h := kit.Must(t)(kind.lives(background, c))
						granted <- time.Now()
						kit.Unlock(t, h)
					}()
					time.Sleep(3*time.Second + phase)
					kit.Silent(d, kit.LostRequest)
					d.LoseMessages(true)
					free := time.Now()
					kit.Unlock(t, h)
					kit.Took(t, (<-granted).Sub(free), 0, 5*time.Second, "had after %v")
					cancel()
					synctest.Wait()
					time.Sleep(2 * time.Minute)
				})
			})
		}
	}
}
