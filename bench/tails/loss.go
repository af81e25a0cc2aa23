package tails

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// From the loss of a lock until its holder is told.

// cutOffLease is the lease of holders that are cut off. The signal comes a hundredth of it before the key
// ends, and two milliseconds: so long may the machine keep the holder from a processor.
const cutOffLease = 5 * time.Second

// stoppedLease is the lease of holders that are stopped until it is over.
const stoppedLease = 2 * time.Second

// margin is what holders keep off their deadlines beside that. In a test it is enough for a busy machine; what
// is measured is the default.
func margin() time.Duration {
	if settings.trials == 0 {
		return time.Second
	}
	return 0
}

func oneHolder(s subject) bool {
	return s.line == nil || s.name == "fair" || s.name == "permits"
}

// forTelling runs a measure for each subject that has one holder and tells it of a loss. Of the others it notes that they never do.
func forTelling(t *testing.T, measure string, run func(t *testing.T, s subject)) {
	t.Helper()
	forSubjects(t, oneHolder, func(t *testing.T, s subject) {
		if !s.tells {
			(&sampler{}).done(t, measure, s.name)
			return
		}
		run(t, s)
	})
}

// The holder is cut off from Redis, silently. Its locks are for others as soon as their keys have
// gone, and it must know before.
func LossCutOff(t *testing.T) {
	forTelling(t, "loss-cutoff", func(t *testing.T, s subject) {
		server, rng := redistest.Start(t), random(s)
		rdb := direct(t, server)
		var afterKey sampler
		rounds(1000, func(n int) {
			proxy := redistest.NewProxy(t, server.Addr())
			to := at(cutOffLease, proxy.Addr())
			to.Margin = margin()
			holder, names, grants := holding(t, s, to, n, cutOffLease/2, rng)
			time.Sleep(time.Duration(rng.Int64N(int64(cutOffLease))))
			proxy.BlackHole(redistest.Both, true)
			time.Sleep(20 * time.Millisecond) // for what the server has still received
			ends := expiries(t, rdb, s, names)
			each(names, func(i int, name string) {
				select {
				case <-grants[i].Lost:
				case <-time.After(limit):
					t.Errorf("nobody was told of the loss of %q", name)
				}
				afterKey.add(time.Since(ends[i]))
			})
			proxy.Close()
			holder.close()
		})
		r := afterKey.done(t, "loss-cutoff", s.name)
		if settings.trials == 0 && r.most() > 0 {
			t.Errorf("told %v ms after the key had gone", r.most())
		}
	})
}

// The holder's process is stopped until its leases have run out, and goes on.
func LossStopped(t *testing.T) {
	forTelling(t, "loss-stopped", func(t *testing.T, s subject) {
		server, rng := redistest.Start(t), random(s)
		var told sampler
		rounds(1000, func(n int) {
			to := at(stoppedLease, server.Addr())
			p, _ := begin(t, order{Subject: s.name, Target: to, Names: make([]string, n), Role: holds, Spread: stoppedLease / 2, Seed: rng.Uint64()}, s)
			time.Sleep(time.Duration(rng.Int64N(int64(stoppedLease))))
			p.signal(t, syscall.SIGSTOP)
			time.Sleep(stoppedLease + 200*time.Millisecond)
			goesOn := time.Now()
			p.signal(t, syscall.SIGCONT)
			for _, at := range p.collect(t, "lost", n) {
				told.add(at.Sub(goesOn))
			}
			p.Kill()
		})
		told.done(t, "loss-stopped", s.name)
	})
}

// Somebody takes the lock away by force, or deletes the key of a peer.
func LossForced(t *testing.T) {
	forTelling(t, "loss-forced", func(t *testing.T, s subject) {
		server, rng := redistest.Start(t), random(s)
		rdb := direct(t, server)
		to := at(30*time.Second, server.Addr())
		other := open(t, s, to)
		defer other.close()
		var told sampler
		rounds(1000, func(n int) {
			holder, names, grants := holding(t, s, to, n, 0, rng)
			defer holder.close()
			time.Sleep(1500 * time.Millisecond) // holds listen when they have lasted for a second
			for i, name := range names {
				time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
				begun := time.Now()
				if s.peer {
					if err := rdb.Del(background, s.key(name)).Err(); err != nil {
						t.Fatal(err)
					}
				} else if err := force(other, s, name); err != nil {
					t.Fatal(err)
				}
				select {
				case <-grants[i].Lost:
				case <-time.After(limit):
					t.Fatalf("nobody was told of the loss of %q", name)
				}
				told.add(time.Since(begun))
			}
		})
		told.done(t, "loss-forced", s.name)
	})
}
