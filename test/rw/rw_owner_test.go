package rw

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestOneOwnerOnBothSidesAtOnce: two goroutines of one owner, each on a side, do not wait for each other. Whichever comes first, both are in as soon
// as the other holder has left, or the writer hears that its owner reads.
func TestOneOwnerOnBothSidesAtOnce(t *testing.T) {
	for _, theyWrite := range []bool{false, true} {
		for _, readsFirst := range []bool{false, true} {
			for _, options := range [][]holdfast.RWOption{nil, {holdfast.WritersFirst()}} {
				fake(t, func(s *stage) {
					m, their := s.c.NewRWMutex("x", options...), s.other.RLocker()
					var theirs *holdfast.Hold
					if theyWrite {
						theirs = s.lock(s.other)
					} else {
						theirs = s.Must(their.Lock(background))
					}
					ctx := holdfast.WithOwner(background, s.c.NewOwner())
					write := func() (*holdfast.Hold, error) { return m.Lock(ctx) }
					read := func() (*holdfast.Hold, error) { return m.RLock(ctx) }
					var writes, reads <-chan kit.Result
					if readsFirst {
						reads = kit.Begin(read)
						writes = kit.Begin(write)
					} else {
						writes = kit.Begin(write)
						reads = kit.Begin(read)
					}
					time.Sleep(time.Second)
					start := time.Now()
					s.Unlock(theirs)
					w, r := <-writes, <-reads
					kit.Took(s.T, time.Since(start), 0, 100*time.Millisecond, "they waited for %v")
					kit.OK(s.T, r.Err)
					if w.Err == nil {
						s.Unlock(w.Hold)
					} else if !readsFirst || !errors.Is(w.Err, holdfast.ErrReentrant) {
						s.Errorf("reads first: %v; the writer: %v", readsFirst, w.Err)
					}
					s.Unlock(r.Hold)
				})
			}
		}
	}
}
