package drivertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// short is for waits that nothing ends but their timeout.
const short = 100 * time.Millisecond

// touch writes what stands there, which is a write to the server.
var touch = driver.NewScript("touch", "redis.call('INCRBY', KEYS[1], 0) return redis.call('GET', KEYS[1])")

// countReplicated runs incr, and checks that it is the want-th time and that
// all replicas acknowledge.
func countReplicated(t testing.TB, d driver.Driver, target Target, key string, want int64) {
	t.Helper()
	call := driver.Call{Script: incr, Keys: []string{key}}
	got, acknowledged, err := d.EvalReplicated(testContext(t), call, target.Replicas, limit)
	if err != nil || got != want || acknowledged != target.Replicas {
		t.Fatalf("got %v, %d acknowledged, %v, want %d and %d", got, acknowledged, err, want, target.Replicas)
	}
}

func testReplicated(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("replicated")
	countReplicated(t, d, target, key, 1)
	countReplicated(t, d, target, key, 2)
	call := driver.Call{Script: echo, Keys: []string{key}, Args: []string{"a\x00b"}}
	reply, _, err := d.EvalReplicated(testContext(t), call, 0, short)
	if want := []any{key, "a\x00b"}; err != nil || !reflect.DeepEqual(reply, want) {
		t.Errorf("got %q, %v, want %q", reply, err, want)
	}
	reply, _, err = d.EvalReplicated(testContext(t), driver.Call{Script: get, Keys: []string{key + "none"}}, 0, short)
	if err != nil || reply != nil {
		t.Errorf("got %v, %v, want nil", reply, err)
	}
}

// testReplicatedTooFew asks for more replicas than there are, for about as long
// as each timeout says; zero would mean forever to Redis.
func testReplicatedTooFew(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("too-few")
	const enough = time.Second // for a busy replica, too
	for i, timeout := range []time.Duration{enough, time.Microsecond, 0, -time.Second} {
		start := time.Now()
		call := driver.Call{Script: incr, Keys: []string{key}}
		reply, acknowledged, err := d.EvalReplicated(testContext(t), call, target.Replicas+1, timeout)
		// Within a millisecond a replica may not have acknowledged yet.
		few := acknowledged > target.Replicas || timeout == enough && acknowledged < target.Replicas
		if err != nil || reply != int64(i+1) || few {
			t.Errorf("%v: got %v, %d acknowledged, %v, want %d and %d", timeout, reply, acknowledged, err, i+1, target.Replicas)
		}
		if took := time.Since(start); took < timeout/2 {
			t.Errorf("%v: came back after %v", timeout, took)
		}
	}
}

func testReplicatedFlushedScripts(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("flushed")
	for want := int64(1); want <= 3; want++ {
		target.FlushScripts(t)
		countReplicated(t, d, target, key, want)
	}
	countReplicated(t, d, target, key, 4) // from the cache
}

func testReplicatedErrors(t *testing.T, target Target) {
	d := target.Open(t)
	for message, want := range map[string]driver.Error{
		"BUSY Redis is busy running a script": {Transient: true},
		"LOADING Redis is loading":            {Transient: true},
		"CROSSSLOT Keys in request":           {},
		"ERR something":                       {MayHaveRun: true},
	} {
		call := driver.Call{Script: fail, Keys: []string{unique("words")}, Args: []string{message}}
		reply, acknowledged, err := d.EvalReplicated(testContext(t), call, 0, short)
		CheckError(t, message, err, want)
		if reply != nil || acknowledged != 0 {
			t.Errorf("%s: got %v, %d acknowledged", message, reply, acknowledged)
		}
	}
}

func testReplicatedContextEnded(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("ended")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := d.EvalReplicated(ctx, driver.Call{Script: incr, Keys: []string{key}}, 0, short)
	CheckError(t, "cancelled before", err, driver.Error{Transient: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	got, err := d.Eval(testContext(t), driver.Call{Script: get, Keys: []string{key}})
	if got != nil || err != nil {
		t.Errorf("got %v, %v, want nil, since nothing ran", got, err)
	}
}

// testReplicatedDeadline lets the deadline pass while replicas are waited for
// that do not exist. The reply has come by then, and must not get lost.
func testReplicatedDeadline(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("deadline")
	countReplicated(t, d, target, key, 1) // so that there is a connection, and the script is known
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	call := driver.Call{Script: incr, Keys: []string{key}}
	reply, acknowledged, err := d.EvalReplicated(ctx, call, target.Replicas+1, time.Hour)
	if err != nil || reply != int64(2) || acknowledged > target.Replicas {
		t.Errorf("got %v, %d acknowledged, %v, want 2 and %d at most", reply, acknowledged, err, target.Replicas)
	}
	if took := time.Since(start); took > limit {
		t.Errorf("took %v", took)
	}
	countReplicated(t, d, target, key, 3)
}

// testReplicatedParallel checks that no call gets another's reply, also after
// calls have ended in the middle of their WAIT.
func testReplicatedParallel(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("parallel")
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 20 {
				text := fmt.Sprintf("%d-%d", worker, i)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				replicas, hasty := target.Replicas, i%5 == 0
				if hasty {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
					replicas++
				}
				call := driver.Call{Script: echo, Keys: []string{key}, Args: []string{text}}
				got, acknowledged, err := d.EvalReplicated(ctx, call, replicas, limit)
				cancel()
				if err == nil && !reflect.DeepEqual(got, []any{key, text}) {
					t.Errorf("got %v, want %s", got, text)
				}
				if !hasty && (err != nil || acknowledged != target.Replicas) {
					t.Errorf("%s: %d acknowledged, %v", text, acknowledged, err)
				}
			}
		})
	}
	workers.Wait()
}

// testNoWait checks that it takes EvalReplicated to send WAIT.
func testNoWait(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("no-wait")
	before := target.Waits(t)
	target.FlushScripts(t)
	count(t, d, key, 1)
	count(t, d, key, 2)
	if got := target.Waits(t) - before; got != 0 {
		t.Errorf("Eval has sent %d WAIT", got)
	}
	countReplicated(t, d, target, key, 3)
	if got := target.Waits(t) - before; got != 1 {
		t.Errorf("EvalReplicated has sent %d WAIT", got)
	}
}

// testSuspendedReplicas also finds a WAIT that is sent on a connection which has
// seen nothing since before the script: it would be told all replicas.
func testSuspendedReplicas(t *testing.T, target Target) {
	d, other := target.Open(t), target.Open(t)
	key := unique("suspended")
	countReplicated(t, d, target, key, 1)
	if _, err := other.Eval(testContext(t), driver.Call{Script: get, Keys: []string{key}}); err != nil {
		t.Fatal(err) // a client that is new might ask a replica for the nodes
	}
	suspend := func(on bool) { target.SuspendReplicas(t, on) }
	suspend(true)
	t.Cleanup(func() { suspend(false) })
	for _, flush := range []bool{false, true} {
		if flush {
			target.FlushScripts(t)
		}
		start := time.Now()
		reply, acknowledged, err := d.EvalReplicated(testContext(t), driver.Call{Script: incr, Keys: []string{key}}, target.Replicas, short)
		if _, ok := reply.(int64); !ok || err != nil || acknowledged != 0 {
			t.Errorf("got %v, %d acknowledged, %v, want a number and none", reply, acknowledged, err)
		}
		if took := time.Since(start); took < short/2 {
			t.Errorf("came back after %v", took)
		}
	}
	// What others wrote before counts as well, also if the script changes nothing.
	same := driver.Call{Script: touch, Keys: []string{key}}
	reply, acknowledged, err := other.EvalReplicated(testContext(t), same, target.Replicas, short)
	if reply != "3" || err != nil || acknowledged != 0 {
		t.Errorf("got %v, %d acknowledged, %v, want 3 and none", reply, acknowledged, err)
	}
	suspend(false)
	countReplicated(t, d, target, key, 4)
	reply, acknowledged, err = other.EvalReplicated(testContext(t), same, target.Replicas, limit)
	if reply != "4" || err != nil || acknowledged != target.Replicas {
		t.Errorf("got %v, %d acknowledged, %v, want 4 and all", reply, acknowledged, err)
	}
}

// testOthersGoOn lets one call wait for suspended replicas while others are made.
func testOthersGoOn(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("others")
	count(t, d, key, 1) // see testSuspendedReplicas
	target.SuspendReplicas(t, true)
	t.Cleanup(func() { target.SuspendReplicas(t, false) })
	type answer struct {
		reply        any
		acknowledged int
		err          error
	}
	waiting := make(chan answer, 1)
	go func() {
		call := driver.Call{Script: incr, Keys: []string{key}}
		var a answer
		a.reply, a.acknowledged, a.err = d.EvalReplicated(t.Context(), call, target.Replicas, time.Minute)
		waiting <- a
	}()
	eventually(t, "the script has run", func() bool {
		got, err := d.Eval(testContext(t), driver.Call{Script: get, Keys: []string{key}})
		return err == nil && got == "2"
	})
	for i := range int64(20) {
		count(t, d, key, i+3)
	}
	select {
	case a := <-waiting:
		t.Fatalf("got %+v while the replicas were suspended", a)
	default:
	}
	target.SuspendReplicas(t, false)
	if got, want := <-waiting, (answer{int64(2), target.Replicas, nil}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
