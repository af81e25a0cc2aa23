package hold

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Calls return within the client's timeout, however the server fails them: a try
// that begins shortly before the end is not waited for in full.
func TestCallsEndWithinTheTimeout(t *testing.T) {
	const timeout = 6 * time.Second
	// Each pattern is what happens to the n-th call.
	patterns := map[string]func(n int32) memdriver.Fault{
		"silent":           func(int32) memdriver.Fault { return memdriver.Fault{LoseRequest: true} },
		"refused at first": refusedAtFirst(1),
		"refused often":    refusedAtFirst(6),
		"delayed replies":  func(int32) memdriver.Fault { return memdriver.Fault{DelayReply: 1999 * time.Millisecond} },
		"delayed, then lost": func(n int32) memdriver.Fault {
			if n == 1 {
				return memdriver.Fault{DelayReply: 1900 * time.Millisecond}
			}
			return memdriver.Fault{LoseReply: true}
		},
	}
	for name, pattern := range patterns {
		t.Run(name, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client(holdfast.WithTimeout(timeout))
				l := w.Lock(c)
				bounded := func(what string, call func() error) {
					t.Helper()
					var n atomic.Int32
					d.SetFaults(func(driver.Call) memdriver.Fault { return pattern(n.Add(1)) })
					began := time.Now()
					err := call()
					if took := time.Since(began); took > timeout {
						t.Errorf("%s took %v: %v", what, took, err)
					}
					d.SetFaults(nil)
					time.Sleep(10 * timeout) // what is left to reconcile
				}
				h := kit.Must(t)(l.Lock(background, holdfast.FixedLease(time.Hour)))
				bounded("Inspect", func() error { _, err := l.Inspect(background); return err })
				bounded("Extend", func() error { return h.Extend(background, 2*time.Hour) })
				bounded("Unlock", h.Unlock)
				bounded("TryLock", func() error {
					h, err := l.TryLock(background)
					if err == nil {
						d.SetFaults(nil)
						_ = h.Unlock()
					}
					return err
				})
				h = kit.Must(t)(l.Lock(background, holdfast.FixedLease(time.Hour)))
				bounded("ForceUnlock", func() error { _, err := l.ForceUnlock(background); return err })
				_ = h.Unlock()
			})
		})
	}
}

// refusedAtFirst refuses so many calls at once, and then answers none.
func refusedAtFirst(n int32) func(int32) memdriver.Fault {
	return func(i int32) memdriver.Fault {
		if i <= n {
			return memdriver.Fault{Refuse: errors.New("connection refused")}
		}
		return memdriver.Fault{LoseRequest: true}
	}
}
