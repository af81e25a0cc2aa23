package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Java and Go stand in one line, and come in the order in which they came to it.
func TestFairOrder(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		mu := p.go1.NewFairMutex("fair")
		h := p.hold(mu.Lock(background))
		const waiters = 12
		came := make(chan string, waiters)
		var want []string
		var wg sync.WaitGroup
		for i := range waiters {
			who := fmt.Sprintf("%d", i)
			want = append(want, who)
			if i%3 == 0 || i%5 == 0 {
				answer := p.java.Ask("T"+who, "lock", "fair", "fair")
				wg.Go(func() {
					if _, err := answer(); err != nil {
						t.Error(err)
					}
					came <- who
					if _, err := p.java.Ask("T"+who, "unlock", "fair", "fair")(); err != nil {
						t.Error(err)
					}
				})
			} else {
				wg.Go(func() {
					h, err := mu.Lock(background)
					came <- who
					if err == nil {
						err = h.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			p.inLine("fair", i+1)
		}
		start := time.Now()
		p.unlock(h)
		var got []string
		for range waiters {
			got = append(got, <-came)
		}
		wg.Wait()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%d hand-overs took %v", waiters, took)
		}
		if !slices.Equal(got, want) {
			t.Errorf("they came in the order %v", got)
		}
	})
}

// inLine returns when so many wait.
func (p *pair) inLine(name string, n int) {
	p.Helper()
	for deadline := time.Now().Add(10 * time.Second); p.redis.Cli(p, "LLEN", "redisson_lock_queue:{"+name+"}") != strconv.Itoa(n); {
		if time.Now().After(deadline) {
			p.Fatalf("there are not %d in line: %s", n, p.redis.Cli(p, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1"))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Waiters of either sort give up, and those behind them come in.
func TestFairGivingUp(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		mu := p.go1.NewFairMutex("fair")
		h := p.hold(mu.Lock(background))
		java := p.java.Ask("A", "trylock", "fair", "fair", 700, 0)
		p.inLine("fair", 1)
		goWaits := make(chan error, 1)
		go func() {
			_, err := mu.Lock(background, holdfast.Wait(500*time.Millisecond))
			goWaits <- err
		}()
		p.inLine("fair", 2)
		last := p.java.Ask("B", "trylock", "fair", "fair", 20_000, 0)
		p.inLine("fair", 3)
		if err := <-goWaits; err == nil {
			t.Error("Go got it")
		}
		p.want(p.get(java), "false")
		p.inLine("fair", 1)
		p.unlock(h)
		left := time.Now()
		p.want(p.get(last), "true")
		if took := time.Since(left); took > soon {
			t.Errorf("the last one got it after %v", took)
		}
		p.do("B", "unlock", "fair", "fair")
		p.nothingLeft()
	})
}

// A Go waiter outlasts a line of Java ones whose grants take their time off
// everybody's.
func TestFairGoOutlastsJava(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		mu := p.go1.NewFairMutex("fair")
		p.do("H", "lock", "fair", "fair")
		var java []func() (string, error)
		for i := range 5 {
			java = append(java, p.java.Ask(fmt.Sprint("J", i), "lock", "fair", "fair"))
			p.inLine("fair", i+1)
		}
		got := make(chan *holdfast.Hold, 1)
		go func() {
			h, err := mu.Lock(background)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		p.inLine("fair", 6)
		p.do("H", "unlock", "fair", "fair")
		for i, wait := range java {
			p.get(wait)
			p.do(fmt.Sprint("J", i), "unlock", "fair", "fair")
		}
		h := <-got
		p.unlock(h)
		if line := p.redis.Cli(t, "LRANGE", "redisson_lock_queue:{fair}", "0", "-1"); strings.TrimSpace(line) != "" {
			t.Errorf("still in line: %s", line)
		}
	})
}
