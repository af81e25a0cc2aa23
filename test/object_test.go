package test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// object is what Redisson lets one do with any object.
type object interface {
	holdfast.Locker
	MemoryUsage(ctx context.Context) (int64, error)
	Delete(ctx context.Context) (bool, error)
}

func TestObjectOperations(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*holdfast.Client, string) object{
		"mutex":  func(c *holdfast.Client, name string) object { return c.NewMutex(name) },
		"reader": func(c *holdfast.Client, name string) object { return c.NewRWMutex(name).Reader() },
		"writer": func(c *holdfast.Client, name string) object { return c.NewRWMutex(name).Writer() },
		"fair":   func(c *holdfast.Client, name string) object { return c.NewFairMutex(name) },
	}
	for _, p := range standalone(t) {
		for kind, create := range kinds {
			t.Run(p.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				objectOperations(t, p, create)
			})
		}
	}
}

func objectOperations(t *testing.T, p *place, create func(*holdfast.Client, string) object) {
	c, name := p.client(t), fresh()
	l := create(c, name)
	if bytes, err := l.MemoryUsage(background); bytes != 0 || err != nil {
		t.Errorf("MemoryUsage of a free lock: %d, %v", bytes, err)
	}
	if did, err := l.Delete(background); did || err != nil {
		t.Errorf("Delete of a free lock: %v, %v", did, err)
	}
	h := must(t)(l.Lock(background))
	one, err := l.MemoryUsage(background)
	if one <= 0 || err != nil {
		t.Errorf("MemoryUsage: %d, %v", one, err)
	}
	if got := p.do(t, name, "PTTL", name); got[0] == "-1" {
		t.Error("the lock does not expire")
	}
	if did, err := create(p.client(t), name).Delete(background); !did || err != nil {
		t.Errorf("Delete: %v, %v", did, err)
	}
	nothingLeft(t, p, name)
	wantError(t, h.Unlock(), holdfast.ErrLost)
}

// Each read hold has a key of its own, which counts.
func TestMemoryUsageCountsAllKeys(t *testing.T) {
	t.Parallel()
	for _, p := range standalone(t) {
		t.Run(p.name, func(t *testing.T) {
			m := p.client(t).NewRWMutex(fresh()).Reader()
			one := must(t)(m.Lock(background))
			before, err := m.MemoryUsage(background)
			if err != nil {
				t.Fatal(err)
			}
			two := must(t)(m.Lock(one.Context()))
			if after, err := m.MemoryUsage(background); after <= before || err != nil {
				t.Errorf("%d bytes after one hold, %d after two, %v", before, after, err)
			}
			unlock(t, two)
			unlock(t, one)
		})
	}
}

// countable is what can be done with a semaphore or a latch as with any object.
type countable interface {
	Name() string
	TTL(ctx context.Context) (time.Duration, error)
	Expire(ctx context.Context, d time.Duration) (bool, error)
	ClearExpire(ctx context.Context) (bool, error)
	MemoryUsage(ctx context.Context) (int64, error)
	Delete(ctx context.Context) (bool, error)
}

func TestObjectOperationsWithoutLocks(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(t *testing.T, c *holdfast.Client, name string) (o countable, create func()){
		"semaphore": func(t *testing.T, c *holdfast.Client, name string) (countable, func()) {
			s := c.NewSemaphore(name)
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
				h := must(t)(s.Lock(background))
				t.Cleanup(func() { wantError(t, h.Unlock(), holdfast.ErrLost) })
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
	for _, p := range standalone(t) {
		for kind, create := range kinds {
			t.Run(p.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				name := fresh()
				o, fill := create(t, p.client(t), name)
				is := func(there bool, ttl, within time.Duration) {
					t.Helper()
					got, err := o.TTL(background)
					if err != nil || got > ttl || got < ttl-within {
						t.Errorf("TTL %v, %v; want %v", got, err, ttl)
					}
					bytes, err := o.MemoryUsage(background)
					if err != nil || there && bytes <= 0 {
						t.Errorf("MemoryUsage %d, %v", bytes, err)
					}
				}
				is(false, 0, 0)
				if there, err := o.Expire(background, time.Minute); there || err != nil {
					t.Errorf("Expire of nothing: %v, %v", there, err)
				}
				if there, err := o.Delete(background); there || err != nil {
					t.Errorf("Delete of nothing: %v, %v", there, err)
				}
				fill()
				is(true, -1, 0)
				if there, err := o.Expire(background, time.Minute); !there || err != nil {
					t.Errorf("Expire: %v, %v", there, err)
				}
				is(true, time.Minute, 10*time.Second)
				if there, err := o.ClearExpire(background); !there || err != nil {
					t.Errorf("ClearExpire: %v, %v", there, err)
				}
				is(true, -1, 0)
				_, err := o.Expire(background, 0)
				wantError(t, err, holdfast.ErrInvalidLease)
				if there, err := o.Delete(background); !there || err != nil {
					t.Errorf("Delete: %v, %v", there, err)
				}
				is(false, 0, 0)
			})
		}
	}
}
