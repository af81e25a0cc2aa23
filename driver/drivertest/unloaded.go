package drivertest

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func testUnloaded(t *testing.T, open Open) {
	server := redistest.Start(t)
	checkUnloaded(t, open, single(server), server)
}

func testUnloadedOnCluster(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 0)
	checkUnloaded(t, open, clustered(cluster), cluster.Nodes...)
}

// checkUnloaded has a user who may not use EVAL run a script that is loaded, and one that is not: alone, in a batch, and with
// replicas to acknowledge it.
func checkUnloaded(t *testing.T, open Open, at Endpoint, nodes ...*redistest.Server) {
	t.Helper()
	every := func(args ...string) {
		for _, node := range nodes {
			node.Cli(t, args...)
		}
	}
	every("ACL", "SETUSER", "tenant", "on", ">pw", "~*", "&*", "+@all", "-eval", "-script")
	at.Username, at.Password = "tenant", "pw"
	d := open(t, at)
	key := unique("unloaded")
	call := driver.Call{Script: incr, Keys: []string{key}}
	unloaded := driver.Error{Code: "NOSCRIPT"}
	var want int64
	for range 2 { // a script that was loaded, too
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := ask(t, d, call)
				CheckError(t, "not loaded", err, unloaded)
			})
		}
		all.Wait()
		_, _, err := d.EvalReplicated(testContext(t), call, 1, time.Millisecond)
		CheckError(t, "not loaded, replicated", err, unloaded)
		every("SCRIPT", "LOAD", incr.Source())
		want++
		count(t, d, key, want)
		want++
		if got, _, err := d.EvalReplicated(testContext(t), call, 1, time.Millisecond); got != want || err != nil {
			t.Errorf("got %v, %v, want %d", got, err, want)
		}
		every("SCRIPT", "FLUSH")
	}
}
