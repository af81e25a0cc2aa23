package servers

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// countable is what can be done with a semaphore or a latch as with any object.
type countable interface {
	Name() string
	kit.Inspectable
	Expire(ctx context.Context, d time.Duration) (bool, error)
	Delete(ctx context.Context) (bool, error)
}

func TestObjectOperations(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(t *testing.T, c *holdfast.Client, name string) (o countable, create func()){
		"semaphore": func(t *testing.T, c *holdfast.Client, name string) (countable, func()) {
			s := c.NewUnleasedSemaphore(name)
			return s, func() {
				if set, err := s.TrySetPermits(background, 3); !set || err != nil {
					t.Fatal(set, err)
				}
			}
		},
		"permits": func(t *testing.T, c *holdfast.Client, name string) (countable, func()) {
			s := c.NewPermitSemaphore(name)
			return s, func() {
				if set, err := s.TrySetPermits(background, 3); !set || err != nil {
					t.Fatal(set, err)
				}
				h := kit.Must(t)(s.Lock(background))
				t.Cleanup(func() { kit.WantError(t, h.Unlock(), holdfast.ErrLost) })
			}
		},
		"latch": func(t *testing.T, c *holdfast.Client, name string) (countable, func()) {
			l := c.NewLatch(name)
			return l, func() {
				if set, err := l.TrySetCount(background, 3); !set || err != nil {
					t.Fatal(set, err)
				}
			}
		},
	}
	for _, p := range kit.Standalone(t) {
		for kind, create := range kinds {
			t.Run(p.Name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				name := kit.Fresh()
				o, fill := create(t, p.Client(t), name)
				is := func(ttl, within time.Duration) {
					t.Helper()
					got, err := kit.TTLOf(o)
					if err != nil || got > ttl || got < ttl-within {
						t.Errorf("TTL %v, %v; want %v", got, err, ttl)
					}
				}
				is(0, 0)
				if there, err := o.Expire(background, time.Minute); there || err != nil {
					t.Errorf("Expire of nothing: %v, %v", there, err)
				}
				if there, err := o.Delete(background); there || err != nil {
					t.Errorf("Delete of nothing: %v, %v", there, err)
				}
				fill()
				is(holdfast.NoExpiry, 0)
				if there, err := o.Expire(background, time.Minute); !there || err != nil {
					t.Errorf("Expire: %v, %v", there, err)
				}
				is(time.Minute, 10*time.Second)
				if there, err := o.Expire(background, holdfast.NoExpiry); !there || err != nil {
					t.Errorf("Expire never: %v, %v", there, err)
				}
				is(holdfast.NoExpiry, 0)
				_, err := o.Expire(background, 0)
				kit.WantError(t, err, holdfast.ErrInvalid)
				if there, err := o.Delete(background); !there || err != nil {
					t.Errorf("Delete: %v, %v", there, err)
				}
				is(0, 0)
			})
		}
	}
}
