package interop

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Permits that either side gives back are taken by the other, by message.
func TestSemaphore(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		s := p.go1.NewSemaphore("sem")
		p.want(p.do("T", "set", "semaphore", "sem", 2), "true")
		if set, err := s.TrySetPermits(background, 5); set || err != nil {
			t.Errorf("set twice: %v, %v", set, err)
		}
		p.ok(s.Acquire(background, 1))
		p.want(p.do("T", "tryacquire", "semaphore", "sem", 2, 0), "false")
		p.want(p.do("T", "available", "semaphore", "sem"), "1")
		waits := p.java.Ask("T", "tryacquire", "semaphore", "sem", 2, 20_000)
		p.subscribed("sem")
		p.ok(s.Release(1))
		left := time.Now()
		p.want(p.get(waits), "true")
		if took := time.Since(left); took > soon {
			t.Errorf("Go to Java took %v", took)
		}
		got := make(chan error, 1)
		go func() { got <- s.Acquire(background, 2) }()
		p.listening("sem", 1)
		p.do("T", "release", "semaphore", "sem", 2)
		left = time.Now()
		p.ok(<-got)
		if took := time.Since(left); took > soon {
			t.Errorf("Java to Go took %v", took)
		}
		p.do("T", "add", "semaphore", "sem", 5)
		if n, err := s.Drain(background); n != 5 || err != nil {
			t.Errorf("Drain: %d, %v", n, err)
		}
		p.want(p.do("T", "available", "semaphore", "sem"), "0")
	})
}

func (p *pair) ok(err error) {
	p.Helper()
	if err != nil {
		p.Error(err)
	}
}

// listening returns when so many clients listen to the channel of permits.
func (p *pair) listening(name string, n int) {
	p.Helper()
	channel := "redisson_sc:{" + name + "}"
	for deadline := time.Now().Add(10 * time.Second); p.redis.Cli(p, "PUBSUB", "NUMSUB", channel) != channel+"\n"+strconv.Itoa(n); {
		if time.Now().After(deadline) {
			p.Fatalf("%d do not listen", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Permits with leases: either side refuses, waits, releases by id, updates, and
// takes back what the other has let expire.
func TestPermitSemaphore(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		s := p.go1.NewPermitSemaphore("per")
		p.want(p.do("T", "set", "permits", "per", 2), "true")
		id := p.do("T", "acquire", "permits", "per", 60_000)
		if lease, err := s.LeaseOf(background, id); err != nil || lease < 50*time.Second {
			t.Errorf("the lease of Java's permit: %v, %v", lease, err)
		}
		h := p.hold(s.Lock(background))
		p.want(p.do("T", "available", "permits", "per"), "0")
		p.want(p.do("T", "total", "permits", "per"), "2")
		p.want(p.do("T", "acquired", "permits", "per"), "2")
		if _, err := s.TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("a third permit of two: %v", err)
		}
		got := make(chan *holdfast.Hold, 1)
		go func() { got <- p.hold(s.Lock(background)) }()
		p.listening("per", 1)
		p.do("T", "release", "permits", "per", id)
		left := time.Now()
		second := <-got
		if took := time.Since(left); took > soon {
			t.Errorf("Java to Go took %v", took)
		}
		waits := p.java.Ask("T", "tryacquire", "permits", "per", 20_000, 500)
		p.listening("per", 1)
		p.unlock(h)
		left = time.Now()
		id = p.get(waits)
		if took := time.Since(left); took > soon {
			t.Errorf("Go to Java took %v", took)
		}
		// Java's permit expires, and is ours.
		third := p.hold(s.Lock(background))
		p.want(p.do("T", "tryrelease", "permits", "per", id), "false")
		// Ours can be prolonged and released by its id from there.
		ids := s.IDs(third)
		p.want(p.do("T", "update", "permits", "per", ids[0], 90_000), "true")
		p.want(p.do("T", "tryrelease", "permits", "per", ids[0]), "true")
		if err := third.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("released by Java: %v", err)
		}
		p.unlock(second)
		p.want(p.do("T", "available", "permits", "per"), "2")
	})
}

func TestLatch(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		l := p.go1.NewLatch("latch")
		p.want(p.do("T", "set", "latch", "latch", 2), "true")
		if n, err := l.Count(background); n != 2 || err != nil {
			t.Errorf("Count: %d, %v", n, err)
		}
		waits := p.java.Ask("W", "await", "latch", "latch", 20_000)
		got := make(chan error, 1)
		go func() { got <- l.Await(background) }()
		channel := "redisson_countdownlatch__channel__{latch}"
		for p.redis.Cli(t, "PUBSUB", "NUMSUB", channel) != channel+"\n2" {
			time.Sleep(5 * time.Millisecond)
		}
		p.do("T", "down", "latch", "latch")
		p.ok(l.CountDown(background))
		left := time.Now()
		p.want(p.get(waits), "true")
		p.ok(<-got)
		if took := time.Since(left); took > soon {
			t.Errorf("Go's zero took %v", took)
		}
		if set, err := l.TrySetCount(background, 1); !set || err != nil {
			t.Errorf("set anew: %v, %v", set, err)
		}
		go func() { got <- l.Await(background) }()
		for p.redis.Cli(t, "PUBSUB", "NUMSUB", channel) != channel+"\n1" {
			time.Sleep(5 * time.Millisecond)
		}
		p.do("T", "down", "latch", "latch")
		left = time.Now()
		p.ok(<-got)
		if took := time.Since(left); took > soon {
			t.Errorf("Java's zero took %v", took)
		}
	})
}
