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
	refused := memdriver.Fault{Refuse: errors.New("connection refused")}
	// Each row is what happens to the first calls; the last is what happens to all others.
	rows(t, kinds, map[string][]memdriver.Fault{
		"silent":             {kit.LostRequest},
		"refused at first":   {refused, kit.LostRequest},
		"refused often":      {refused, refused, refused, refused, refused, refused, kit.LostRequest},
		"delayed replies":    {{DelayReply: 1999 * time.Millisecond}},
		"delayed, then lost": {{DelayReply: 1900 * time.Millisecond}, {LoseReply: true}},
	}, func(s *stage, pattern []memdriver.Fault) {
		bounded := func(what string, call func() error) {
			s.Helper()
			var n atomic.Int32
			s.d.SetFaults(func(driver.Call) memdriver.Fault { return pattern[min(int(n.Add(1)), len(pattern))-1] })
			began := time.Now()
			err := call()
			if took := time.Since(began); took > timeout {
				s.Errorf("%s took %v: %v", what, took, err)
			}
			s.heals() // what is left to reconcile
		}
		h := s.lock(holdfast.FixedLease(time.Hour))
		bounded("Inspect", func() error { return errOf(s.l.Inspect(background)) })
		bounded("Extend", func() error { return h.Extend(background, 2*time.Hour) })
		bounded("Unlock", h.Unlock)
		bounded("TryLock", func() error {
			h, err := s.l.TryLock(background)
			if err == nil {
				s.d.SetFaults(nil)
				s.unlock(h)
			}
			return err
		})
		h = s.lock(holdfast.FixedLease(time.Hour))
		bounded("ForceUnlock", func() error { return errOf(s.l.ForceUnlock(background)) })
		_ = h.Unlock()
	}, holdfast.WithTimeout(timeout))
}
