package rw

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/test/kit"
)

// TestForceUnlockOfTheirWriterWhoseReadHasExpired: all that it holds is taken from the writer, also a read whose lease has ended. That one might
// live, as Redisson renews them.
func TestForceUnlockOfTheirWriterWhoseReadHasExpired(t *testing.T) {
	fake(t, func(s *stage) {
		j := kit.NewRedisson(s.World, "x", redisson)
		for _, late := range []bool{false, true} {
			if !j.Write(time.Minute) || !j.Read(time.Second) {
				t.Fatal("it does not get in")
			}
			if late {
				time.Sleep(2 * time.Second)
			}
			kit.Force(t, s.m)
			h, err := s.m.TryLock(background)
			if err != nil {
				t.Fatalf("its read expired: %v; another writer: %v", late, err)
			}
			s.Unlock(h)
		}
	})
}
