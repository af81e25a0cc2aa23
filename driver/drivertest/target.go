package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Target is an adapter under test and the server behind it.
type Target struct {
	// Open returns a driver on a client of its own, and closes that client in a
	// cleanup. All drivers of a target reach the same server, which must not be
	// used by anything else meanwhile.
	Open func(t testing.TB) driver.Driver

	// FlushScripts empties the script cache of every node.
	FlushScripts func(t testing.TB)

	// Subscribers returns how many connections, over all nodes, are subscribed
	// to a channel in the way that the adapter listens.
	Subscribers func(t testing.TB, channel string) int

	// KillSubscribers ends all subscriber connections from the server's side.
	// A target without connections leaves it nil; then resubscription is not
	// tested.
	KillSubscribers func(t testing.TB)

	// Replicas is how many replicas each primary has.
	Replicas int

	// SuspendReplicas keeps all replicas from acknowledging anything, or lets
	// them go on. A target without replicas leaves it nil.
	SuspendReplicas func(t testing.TB, on bool)

	// Waits returns how many WAIT all nodes together have carried out. A target
	// that needs no such command leaves it nil.
	Waits func(t testing.TB) int
}

// Exercise runs the suite against a target, one subtest a promise.
func Exercise(t *testing.T, target Target) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, Target)
	}{
		{"Eval/Replies", testReplies},
		{"Eval/BinaryArguments", testBinaryArguments},
		{"Eval/FlushedScripts", testFlushedScripts},
		{"Eval/ScriptErrors", testScriptErrors},
		{"Eval/ServerErrors", testServerErrors},
		{"Eval/ContextEnded", testContextEnded},
		{"Eval/Parallel", testParallel},
		{"EvalReplicated/Replies", testReplicated},
		{"EvalReplicated/TooFew", testReplicatedTooFew},
		{"EvalReplicated/FlushedScripts", testReplicatedFlushedScripts},
		{"EvalReplicated/Errors", testReplicatedErrors},
		{"EvalReplicated/ContextEnded", testReplicatedContextEnded},
		{"EvalReplicated/Deadline", testReplicatedDeadline},
		{"EvalReplicated/Parallel", testReplicatedParallel},
		{"PublishCommand", testPublishCommand},
		{"Listen/Messages", testMessages},
		{"Listen/Order", testOrder},
		{"Listen/Twice", testTwice},
		{"Listen/Unsubscribe", testUnsubscribe},
		{"Listen/SubscribeAgain", testSubscribeAgain},
		{"Listen/Flapping", testFlapping},
		{"Listen/ManyChannels", testManyChannels},
		{"Listen/TwoListeners", testTwoListeners},
		{"Listen/FromSink", testFromSink},
		{"Listen/Concurrent", testConcurrent},
		{"Listen/Close", testClose},
		{"Listen/CloseUnused", testCloseUnused},
		{"Listen/CloseWhileBusy", testCloseWhileBusy},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, target) })
	}
	if target.Waits != nil {
		t.Run("Eval/NoWait", func(t *testing.T) { testNoWait(t, target) })
	}
	if target.SuspendReplicas != nil {
		t.Run("EvalReplicated/Suspended", func(t *testing.T) { testSuspendedReplicas(t, target) })
		t.Run("EvalReplicated/OthersGoOn", func(t *testing.T) { testOthersGoOn(t, target) })
	}
	if target.KillSubscribers != nil {
		t.Run("Listen/Killed", func(t *testing.T) { testKilled(t, target) })
	}
}

const limit = 10 * time.Second

// eventually polls until done, and fails the test if that takes too long.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	within(t, limit, what, done)
}

func within(t testing.TB, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// unanswered reports whether no reply came. On a busy machine that may take longer than an adapter waits for it, if
// the caller is alone.
func unanswered(err error) bool {
	var failed *driver.Error
	return errors.As(err, &failed) && failed.MayHaveRun && failed.Transient
}

// ask makes a call that changes nothing, and so makes it again if it is not answered.
func ask(t testing.TB, d driver.Driver, call driver.Call) (reply any, err error) {
	t.Helper()
	ctx := testContext(t)
	for reply, err = d.Eval(ctx, call); unanswered(err) && ctx.Err() == nil; reply, err = d.Eval(ctx, call) {
	}
	return reply, err
}

var serial atomic.Int64

// unique returns a name that no other test uses. The braces keep what is
// derived from it in one cluster slot.
func unique(what string) string {
	return fmt.Sprintf("{%s-%d}", what, serial.Add(1))
}

// recorder is a sink.
type recorder struct {
	mu         sync.Mutex
	subscribed map[string]int
	messages   map[string][]string
	total      int
}

func newRecorder() *recorder {
	return &recorder{subscribed: map[string]int{}, messages: map[string][]string{}}
}

func (r *recorder) sink(event driver.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	switch event.Kind {
	case driver.Subscribed:
		r.subscribed[event.Channel]++
	case driver.Message:
		r.messages[event.Channel] = append(r.messages[event.Channel], event.Payload)
	}
}

// events returns the number of all events so far.
func (r *recorder) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// subscriptions returns how often a channel was said to be subscribed.
func (r *recorder) subscriptions(channel string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subscribed[channel]
}

// payloads returns the messages of a channel, oldest first.
func (r *recorder) payloads(channel string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.messages[channel]...)
}

// received reports whether a message has come.
func (r *recorder) received(channel, payload string) bool {
	return slices.Contains(r.payloads(channel), payload)
}
