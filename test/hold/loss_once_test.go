package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A loss that the work returns as its own error, as in the first example, is said once.
func TestLossIsSaidOnce(t *testing.T) {
	for name, open := range map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex":   func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"permits": func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x", holdfast.Permits(1)) },
		"several": func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("{x}2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				l := open(c)
				wantOnce := func(what string, err error) {
					for _, name := range []string{"x", "{x}2", "x+{x}2"} {
						if n := strings.Count(fmt.Sprint(err), fmt.Sprintf("%q: the hold was lost", name)); n > 1 {
							t.Errorf("%s: the loss of %s, %d times: %v", what, name, n, err)
						}
					}
					kit.WantError(t, err, holdfast.ErrLost)
				}
				work := func(ctx context.Context, _ *holdfast.Hold) error {
					w.Do("FLUSHALL")
					<-ctx.Done()
					return fmt.Errorf("the work: %w", context.Cause(ctx))
				}
				wantOnce("Do", holdfast.Do(background, l, work))

				ctx, cancel := context.WithCancel(background)
				var told error
				hooks := holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) {
					told = e.Err
					cancel()
				}})
				if err := holdfast.Lead(ctx, l, work, hooks); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				wantOnce("Lead", told)
				w.Do("FLUSHALL")
				time.Sleep(time.Minute)
			})
		})
	}
}
