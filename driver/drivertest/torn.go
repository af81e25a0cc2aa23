package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// tornCall is a call that counts at a key of its own, and what Eval and Late said of it.
type tornCall struct {
	key   string
	reply any
	err   error

	mu        sync.Mutex
	told      int // how often Late was called; guarded by mu, as the rest
	lateReply any
	lateErr   error
}

// testTorn has many calls under way at once while their connections are torn, the server
// forgets its scripts, and callers give up: each runs once at most, gets its own reply, and
// is only said not to have run if it has not.
func testTorn(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := open(t, single(server).through(server, proxy))
	cli := open(t, single(server))
	var callers sync.WaitGroup
	calls := make([][]*tornCall, 16)
	prefix := unique("torn")
	for i := range calls {
		callers.Go(func() {
			for j := range 100 {
				c := &tornCall{key: fmt.Sprintf("%s:%d:%d", prefix, i, j)}
				calls[i] = append(calls[i], c)
				c.eval(t.Context(), d)
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the callers
		defer close(done)
		callers.Wait()
	}()
	tear(t, server, proxy, done)
	replied := 0
	for _, mine := range calls {
		for _, c := range mine {
			if c.err == nil {
				replied++
			}
			c.check(t, cli)
		}
	}
	if replied == 0 {
		t.Error("no call was answered")
	}
}

// tear resets the connections, and has the server forget its scripts, until done.
func tear(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, done <-chan struct{}) {
	t.Helper()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(5+rand.IntN(20)) * time.Millisecond):
			if i%3 == 0 {
				server.Cli(t, "SCRIPT", "FLUSH")
			} else {
				proxy.Cut()
			}
		}
	}
}

// eval makes the call, and gives some up.
func (c *tornCall) eval(ctx context.Context, d driver.Driver) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rand.IntN(4) == 0 {
		timer := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	c.reply, c.err = d.Eval(ctx, driver.Call{Script: incr, Keys: []string{c.key}, Late: c})
}

// Tell notes what was told late.
func (c *tornCall) Tell(reply any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lateReply, c.lateErr = reply, err
	c.told++
}

// check compares what was said of the call with what it has done.
func (c *tornCall) check(t *testing.T, d driver.Driver) {
	t.Helper()
	var failed *driver.Error
	switch pending := errors.As(c.err, &failed) && failed.Pending; {
	case pending:
		eventually(t, "Late is told", func() bool { return c.timesTold() > 0 })
	case c.timesTold() > 0:
		t.Errorf("%s: Late was told of a call that is not pending: %v", c.key, c.err)
	}
	if n := c.timesTold(); n > 1 {
		t.Errorf("%s: Late was told %d times", c.key, n)
	}
	ran, err := ask(t, d, driver.Call{Script: get, Keys: []string{c.key}})
	if err != nil || ran != nil && ran != "1" {
		t.Errorf("%s: the count is %v, %v", c.key, ran, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compare(t, "the reply", c.reply, c.err, ran)
	if c.told > 0 {
		c.compare(t, "what came late", c.lateReply, c.lateErr, ran)
	}
}

func (c *tornCall) timesTold() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// compare checks what was said of a call that has run or not.
func (c *tornCall) compare(t *testing.T, what string, reply any, err error, ran any) {
	t.Helper()
	var failed *driver.Error
	switch {
	case err == nil && (reply != int64(1) || ran == nil):
		t.Errorf("%s: %s is %v, and the count %v", c.key, what, reply, ran)
	case err != nil && !errors.As(err, &failed):
		t.Errorf("%s: %s is %T %v", c.key, what, err, err)
	case err != nil && failed.Code == "NOSCRIPT":
		t.Errorf("%s: it was not sent again with its source", c.key)
	case err != nil && !failed.MayHaveRun && ran != nil:
		t.Errorf("%s: it has run, and %s says that it has not: %v", c.key, what, err)
	}
}
