package interop

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var (
	farAll  = flag.Bool("far.all", false, "have TestSharesFarAway try every distance and every number of waiters")
	farTime = flag.Duration("far.time", time.Second, "how long TestSharesFarAway measures each contest")
)

// Threads of a JVM that is some milliseconds away from Redis, and clients of ours beside it, take one mutex again and again. The JVM
// gets a yield window now and then, and uses it if it is long enough for a round trip.
func TestSharesFarAway(t *testing.T) {
	s := redistest.Start(t)
	far := redistest.NewProxy(t, s.Addr())
	java := startPeer(t, StartJava, Config{Version: Versions[0], Mode: Single, Addresses: []string{far.Addr()}})
	golang := startPeer(t, StartGo, Config{Mode: Single, Addresses: []string{s.Addr()}})
	if java == nil || golang == nil {
		t.FailNow()
	}
	distances, numbers := []time.Duration{5 * time.Millisecond}, [][2]int{{1, 1}}
	if *farAll {
		distances = []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond}
		numbers = [][2]int{{1, 8}, {1, 1}, {8, 1}}
	}
	for _, away := range distances {
		far.Delay(redistest.Both, away/2)
		for _, n := range numbers {
			c := contest{"mutex", n[0], n[1], 3 * time.Millisecond}
			t.Run(fmt.Sprintf("%v/java:%d_go:%d", away, c.java, c.golang), func(t *testing.T) {
				c.hold(t, java, golang, time.Second/2) // what is compiled late has run then
				theirs, ours := c.hold(t, java, golang, *farTime)
				share := float64(theirs) / float64(ours+theirs)
				fair := float64(c.java) / float64(c.golang+c.java)
				t.Logf("%.0f holds a second, %.1f%% are the JVM's", float64(ours+theirs)/farTime.Seconds(), 100*share)
				if share < fair/10 {
					t.Errorf("%.1f%% of the holds are the JVM's, which has %.1f%% of the waiters", 100*share, 100*fair)
				}
			})
		}
	}
}
