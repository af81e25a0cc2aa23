package drivertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// both counts at two keys.
var both = driver.NewScript("both", "redis.call('INCR', KEYS[2]) return redis.call('INCR', KEYS[1])")

// testMovingSlot has many calls under way at once while a slot moves and scripts are
// forgotten, so that in the middle of those that travel together some are refused: with ASK,
// MOVED and NOSCRIPT, which an adapter follows (without that the test fails), and with TRYAGAIN,
// which it returns. Each of the others gets its own reply, and runs once.
func testMovingSlot(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 0)
	d := open(t, clustered(cluster))
	m := &movingSlot{t: t, driver: d, slot: "{" + unique("slot") + "}", seen: map[string]*atomic.Int32{}}
	for _, code := range []string{"", "TRYAGAIN"} {
		m.seen[code] = new(atomic.Int32)
	}
	for i := range 2 * pairs {
		count(t, d, fmt.Sprint(m.slot, i), 1)
	}
	move := cluster.BeginMove(t, m.slot)
	for i := range pairs {
		move.Key(t, fmt.Sprint(m.slot, i)) // the other half stays
	}
	m.round("moving")
	stop := make(chan struct{})
	var callers sync.WaitGroup
	callers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				m.round(fmt.Sprint("finishing", i))
			}
		}
	})
	for _, node := range cluster.Nodes {
		node.Cli(t, "SCRIPT", "FLUSH")
	}
	move.Finish(t)
	close(stop)
	callers.Wait()
	m.round("moved")
	for code, n := range m.seen {
		if n.Load() == 0 {
			t.Errorf("no call ended with %q", code)
		}
	}
}

// pairs is how many pairs of keys there are of which one has moved.
const pairs = 10

// movingSlot is what the calls of testMovingSlot have in common.
type movingSlot struct {
	t      *testing.T
	driver driver.Driver
	slot   string
	seen   map[string]*atomic.Int32 // by the code of the error
}

// round makes many calls at once: at new keys of the slot and of others, and at pairs of keys
// of the slot.
func (m *movingSlot) round(name string) {
	var callers sync.WaitGroup
	for i := range 60 {
		callers.Go(func() {
			switch key := fmt.Sprint(name, ":", i); i % 3 {
			case 0:
				m.once(m.slot + key)
			case 1:
				m.once(key)
			default:
				m.pair(i % pairs)
			}
		})
	}
	callers.Wait()
}

// once counts at a key of its own.
func (m *movingSlot) once(key string) {
	reply, err := m.driver.Eval(testContext(m.t), driver.Call{Script: incr, Keys: []string{key}})
	if err != nil || reply != int64(1) {
		m.t.Errorf("%s: %v, %v", key, reply, err)
		return
	}
	m.seen[""].Add(1)
}

// pair counts at two keys, which Redis refuses as long as one has moved, and the other not.
func (m *movingSlot) pair(i int) {
	keys := []string{fmt.Sprint(m.slot, i), fmt.Sprint(m.slot, i+pairs)}
	_, err := m.driver.Eval(testContext(m.t), driver.Call{Script: both, Keys: keys})
	var failed *driver.Error
	switch {
	case err == nil:
		m.seen[""].Add(1)
	case errors.As(err, &failed) && failed.Code == "TRYAGAIN" && failed.Transient && !failed.MayHaveRun:
		m.seen["TRYAGAIN"].Add(1)
	default:
		m.t.Errorf("%q: %v", keys, err)
	}
}
