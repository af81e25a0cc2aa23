package interop

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// contest is one of TestSharesOfTheLine: so many waiters a side, and for how long each holds the lock.
type contest struct {
	kind         string
	java, golang int
	inside       time.Duration
}

// Threads of a JVM and clients of ours take one lock again and again. Ours stand in line, and Redisson's do not. Each side
// has a part of the turns that are due to it by the number of those who wait: a tenth at least, since a JVM on a busy machine comes late
// for its turn. That it is left a third is shown under fake time (TestLineR7_RedissonWaits).
func TestSharesOfTheLine(t *testing.T) {
	const takes = time.Second
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			s := redistest.Start(t)
			c := Config{Version: version, Mode: Single, Addresses: []string{s.Addr()}}
			java, golang := startBoth(t, c)
			for _, kind := range []string{"mutex", "fenced", "permits", "write"} {
				for _, inside := range []time.Duration{0, time.Millisecond} {
					for _, n := range [][2]int{{1, 1}, {8, 1}, {1, 8}} {
						c := contest{kind, n[0], n[1], inside}
						name := fmt.Sprintf("%s/java:%d_go:%d/%v", kind, c.java, c.golang, inside)
						t.Run(name, func(t *testing.T) {
							if kind == "permits" {
								if _, err := within(patience, golang.Ask("set", "set", kind, t.Name(), 2)); err != nil {
									t.Fatal(err)
								}
							}
							c.hold(t, java, golang, takes/4) // what is compiled late has run then
							theirs, ours := c.hold(t, java, golang, takes)
							share := float64(ours) / float64(ours+theirs)
							fair := float64(c.golang) / float64(c.golang+c.java)
							t.Logf("java %d, go %d turns: %.1f%% are ours, %.1f%% of those who wait", theirs, ours, 100*share, 100*fair)
							if share < fair/10 || 1-share < (1-fair)/10 {
								t.Errorf("%.1f%% of the turns are ours, who are %.1f%% of those who wait", 100*share, 100*fair)
							}
						})
					}
				}
			}
		})
	}
}

// Whoever listens and never takes its turn, as a process that is stopped, costs ours little.
func TestSharesOfTheLineBesideOneWhoSleeps(t *testing.T) {
	s := redistest.Start(t)
	golang := startPeer(t, StartGo, Config{Mode: Single, Addresses: []string{s.Addr()}})
	if golang == nil {
		t.FailNow()
	}
	for _, n := range []int{1, 2} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			c := contest{kind: "mutex", golang: n}
			_, alone := c.hold(t, nil, golang, time.Second)
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			defer rdb.Close()
			sleeper := rdb.Subscribe(background, on(lockChannel)(t.Name()))
			defer sleeper.Close()
			if _, err := sleeper.Receive(background); err != nil {
				t.Fatal(err)
			}
			_, beside := c.hold(t, nil, golang, time.Second)
			t.Logf("%d turns alone, %d beside one who sleeps", alone, beside)
			if beside < alone/4 {
				t.Errorf("%d turns beside one who sleeps, %d alone", beside, alone)
			}
		})
	}
}

// hold has all of them take the lock for a time. It returns how often they had it.
func (c contest) hold(t *testing.T, java, golang *Peer, takes time.Duration) (theirs, ours int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	side := func(p *Peer, n int, sum *int) {
		for i := range n {
			wait := p.Ask(fmt.Sprint("turns", i), "turns", c.kind, t.Name(), c.inside.Microseconds(), takes.Milliseconds())
			all.Go(func() {
				value, err := within(takes+patience, wait)
				turns, bad := strconv.Atoi(value)
				if err != nil || bad != nil {
					t.Error(err, bad)
				}
				mu.Lock()
				defer mu.Unlock()
				*sum += turns
			})
		}
	}
	side(java, c.java, &theirs)
	side(golang, c.golang, &ours)
	all.Wait()
	return theirs, ours
}
