package tails

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// From a release until the next one has the lock, though it was not told.

// released has one wait for each lock, brings the fault about, and gives the lock back in the same
// moment; after that, the fault is over.
func released(t *testing.T, s subject, measure string, trials int, waitsAt target, server *redistest.Server, fault, over func(), rest time.Duration) {
	t.Helper()
	rng := random(s)
	waiter := open(t, s, waitsAt)
	defer waiter.close()
	var after sampler
	rounds(trials, func(n int) {
		holder, names, held := holding(t, s, at(30*time.Second, server.Addr()), n, 0, rng)
		defer holder.close()
		next := wait(t, waiter, names)
		time.Sleep(time.Second)
		free := make([]time.Time, n)
		for i := range names {
			time.Sleep(rest/2 + time.Duration(rng.Int64N(int64(rest))))
			fault()
			free[i] = time.Now()
			if err := held[i].Unlock(); err != nil {
				t.Fatal(err)
			}
			over()
		}
		for i, at := range next.granted(t) {
			after.since(free[i], at)
		}
	})
	after.done(t, measure, s.name)
}

func nothing() {}

func Released(t *testing.T) {
	forSubjects(t, all, func(t *testing.T, s subject) {
		server := redistest.Start(t)
		to := at(30*time.Second, server.Addr())
		released(t, s, "released", 200, to, server, nothing, nothing, 20*time.Millisecond)
	})
}

// The connection on which the waiter listens is closed by the server, just before.
func MessageConnectionClosed(t *testing.T) {
	forSubjects(t, func(s subject) bool { return !s.peer }, func(t *testing.T, s subject) {
		server := redistest.Start(t)
		rdb := direct(t, server)
		to := at(30*time.Second, server.Addr())
		released(t, s, "message-closed", 200, to, server, func() {
			if err := rdb.Do(background, "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
				t.Error(err)
			}
		}, nothing, 200*time.Millisecond)
	})
}

// All connections of the waiter are reset, just before.
func MessageConnectionsCut(t *testing.T) {
	forSubjects(t, all, func(t *testing.T, s subject) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		to := at(30*time.Second, proxy.Addr())
		released(t, s, "message-cut", 200, to, server, proxy.Cut, nothing, 200*time.Millisecond)
	})
}

// What the server says to those who listen is lost, and nothing tells of that: the connection stays.
// Of a peer that listens all that the server says in that moment is lost.
func MessageLost(t *testing.T) {
	listens := func(s subject) bool { return !s.peer || s.tells }
	forSubjects(t, listens, func(t *testing.T, s subject) {
		server := redistest.Start(t)
		ears := &lossy{all: s.peer}
		to := at(30*time.Second, server.Addr())
		to.Dialer = ears.dial
		released(t, s, "message-lost", 100, to, server, func() { ears.on.Store(true) }, func() {
			time.Sleep(20 * time.Millisecond)
			ears.on.Store(false)
		}, 100*time.Millisecond)
	})
}
