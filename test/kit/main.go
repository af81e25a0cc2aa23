package kit

import (
	"flag"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testclient"
)

// aboutHandOver matches the tests of the hand-over, and of readers who share a hold: without
// it they have nothing to look at.
const aboutHandOver = "HandOver|HandedOver|Share|Sharing|WaitOverBefore|LeftBeside"

// Main runs the tests of a package, as its TestMain.
func Main(m *testing.M) {
	logging.Disable()                                    // go-redis tells of every switch and every lost connection
	defaults := map[string]string{"test.parallel": "16"} // most of the tests that are parallel wait most of the time
	if testclient.WithoutHandOver() {
		defaults["test.skip"] = aboutHandOver
	}
	for name, value := range defaults {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		// A cluster client of rueidis leaves these asleep for some seconds.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		// A client of go-redis that has found its server away leaves this one asleep for a second.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	)
}
