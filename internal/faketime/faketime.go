// Package faketime runs tests under fake time, as testing/synctest does, on one
// processor.
//
// The race detector of Go 1.26 does not bear more (golang/go#78156): the timers of
// a bubble share one state of it, and two goroutines that look at channels of
// timers in the same instant use it at once. The program then ends in a SIGSEGV,
// or in a failed check of ThreadSanitizer's. On one processor they cannot.
package faketime

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// longest is more fake time than any test takes. A test that waits for ever while something renews, or asks, would
// otherwise run until the time limit of go test.
const longest = 7 * 24 * time.Hour

// running is held while a bubble runs: the number of processors is the process's.
var running sync.Mutex

// Test is synctest.Test on one processor. Tests that are parallel take turns; but all
// goroutines of the process share that processor meanwhile, so it is not for tests that
// are parallel to some which wait for servers. If a week of fake time passes, the process panics, and prints the stacks of all goroutines.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	running.Lock()
	defer running.Unlock()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		limit := time.AfterFunc(longest, func() {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("%s: %v of fake time have passed: something waits for ever", t.Name(), longest))
		})
		t.Cleanup(func() { limit.Stop() })
		f(t)
	})
}
