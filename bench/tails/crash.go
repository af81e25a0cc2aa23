package tails

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// From the death of a holder until the next one has its lock: it may have it as soon as the key has
// gone, since nothing tells that a holder is dead.

// crashLease is the lease of holders that are killed.
const crashLease = 3 * time.Second

func Crash(t *testing.T) {
	forSubjects(t, all, func(t *testing.T, s subject) {
		server, rng := redistest.Start(t), random(s)
		rdb := direct(t, server)
		to := at(crashLease, server.Addr())
		var after sampler
		rounds(1000, func(n int) {
			p, names := begin(t, order{Subject: s.name, Target: to, Names: make([]string, n), Role: holds, Spread: crashLease / 3, Seed: rng.Uint64()}, s)
			waiter := open(t, s, to)
			next := wait(t, waiter, names)
			longest := crashLease
			if !s.renews { // it holds for as long as its first lease
				longest = crashLease / 4
			}
			time.Sleep(crashLease/6 + time.Duration(rng.Int64N(int64(longest))))
			p.Kill()
			time.Sleep(20 * time.Millisecond) // for what the server has still received
			ends := expiries(t, rdb, s, names)
			for i, at := range next.granted(t) {
				after.since(ends[i], at)
			}
			waiter.close()
		})
		r := after.done(t, "crash", s.name)
		if !s.peer && r.at(0) < -2 && s.key("x") == "x" {
			t.Errorf("granted %v ms before the key had gone", -r.at(0))
		}
	})
}

// crowd is how many clients wait for one lock.
const crowd = 24

// The same, while a crowd waits.
func CrashCrowd(t *testing.T) {
	t.Parallel()
	onlyMeasured(t)
	s, err := subjectNamed("mutex")
	if err != nil {
		t.Fatal(err)
	}
	server, rng := redistest.Start(t), random(s)
	rdb := direct(t, server)
	to := at(crashLease, server.Addr())
	var after sampler
	for range (part(100) + 4) / 5 {
		names := fresh(5)
		p := start(t, order{Subject: s.name, Target: to, Names: names, Role: holds, Spread: crashLease / 3, Seed: rng.Uint64()})
		p.collect(t, "held", len(names))
		var waiters []session
		var waits []*waiting
		for range crowd {
			waiter := open(t, s, to)
			waiters, waits = append(waiters, waiter), append(waits, wait(t, waiter, names))
		}
		time.Sleep(crashLease + time.Duration(rng.Int64N(int64(crashLease))))
		p.Kill()
		time.Sleep(20 * time.Millisecond) // for what the server has still received
		ends := expiries(t, rdb, s, names)
		first := make([]time.Time, len(names))
		for _, w := range waits {
			for i, at := range w.granted(t) {
				if first[i].IsZero() || at.Before(first[i]) {
					first[i] = at
				}
			}
		}
		for i, at := range first {
			after.since(ends[i], at)
		}
		for _, waiter := range waiters {
			waiter.close()
		}
	}
	after.done(t, "crash-crowd", s.name)
}

// A waiter dies, and then the lock is free: until the next one who lives has it.
func DeadWaiter(t *testing.T) {
	waitersFall(t, "dead-waiter", 1, func(p process) { p.Kill() })
}

// A waiter is stopped: its connections stay, and it does not hear that the lock is its.
func StoppedWaiter(t *testing.T) {
	waitersFall(t, "stopped-waiter", 1, func(p process) { p.signal(t, syscall.SIGSTOP) })
}

// Five are stopped that come one after the other.
func StoppedWaiters(t *testing.T) {
	onlyMeasured(t)
	waitersFall(t, "stopped-waiters", 5, func(p process) { p.signal(t, syscall.SIGSTOP) })
}

// waitersFall measures from a release until one who lives has the lock, if so many who came before fall just then.
func waitersFall(t *testing.T, measure string, n int, fall func(p process)) {
	inLine := func(s subject) bool { return s.line != nil || s.name == "mutex" || s.peer }
	forSubjects(t, inLine, func(t *testing.T, s subject) {
		server, rng := redistest.Start(t), random(s)
		rdb := direct(t, server)
		to := at(30*time.Second, server.Addr())
		var after sampler
		rounds(200, func(locks int) {
			holder, names, held := holding(t, s, to, locks, 0, rng)
			waiter := open(t, s, to)
			var fallen []process
			for range n {
				fallen = append(fallen, start(t, order{Subject: s.name, Target: to, Names: names, Role: dies, Spread: 3 * time.Second, Seed: rng.Uint64()}))
			}
			if s.line != nil {
				stand(t, rdb, s, names, int64(n))
			} else {
				time.Sleep(4 * time.Second)
			}
			next := wait(t, waiter, names)
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
			for _, p := range fallen {
				fall(p)
			}
			free := make([]time.Time, locks)
			each(names, func(i int, _ string) {
				free[i] = time.Now()
				if err := held[i].Unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
			})
			for i, at := range next.granted(t) {
				after.since(free[i], at)
			}
			for _, p := range fallen {
				p.Kill()
			}
			holder.close()
			waiter.close()
		})
		after.done(t, measure, s.name)
	})
}
