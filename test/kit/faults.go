package kit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Refusal is that of a full memory, or nil.
func Refusal(yes bool) error {
	if !yes {
		return nil
	}
	return driver.ServerError("OOM command not allowed", errors.New("OOM command not allowed"))
}

// Faults are what can happen to the first send of a call, beyond the timeout of
// a send (2 s) where that matters.
var Faults = map[string]memdriver.Fault{
	"request lost":                       {LoseRequest: true},
	"request delayed":                    {DelayRequest: 2100 * time.Millisecond},
	"request much delayed":               {DelayRequest: 10 * time.Second},
	"reply lost":                         {LoseReply: true},
	"reply delayed":                      {DelayReply: 3 * time.Second},
	"reply much delayed":                 {DelayReply: 20 * time.Second},
	"request delivered twice":            {Repeat: true},
	"request delivered twice, far apart": {Repeat: true, RepeatAfter: 4 * time.Second},
	"delivered twice, reply lost":        {Repeat: true, RepeatAfter: time.Second, LoseReply: true},
	"refused":                            {Refuse: errors.New("connection refused")},
}

// NextFrom makes a fault happen to the first call of a script from then on; those before it are refused.
func NextFrom(d *memdriver.Driver, script string, from time.Time, f memdriver.Fault) {
	var hit atomic.Bool
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		switch {
		case call.Script.Name() != script:
		case time.Now().Before(from):
			return memdriver.Fault{Refuse: errors.New("connection refused")}
		case !hit.Swap(true):
			return f
		}
		return memdriver.Fault{}
	})
}

// LostRequest loses what is sent.
var LostRequest = memdriver.Fault{LoseRequest: true}

// Next makes the next calls of a script suffer these, one each.
func Next(d *memdriver.Driver, script string, fs ...memdriver.Fault) {
	var n atomic.Int32
	d.SetFaults(func(c driver.Call) (f memdriver.Fault) {
		if c.Script.Name() == script {
			if i := int(n.Add(1)) - 1; i < len(fs) {
				return fs[i]
			}
		}
		return f
	})
}

// Every makes a fault happen to each call of a script from now on.
func Every(d *memdriver.Driver, script string, f memdriver.Fault) {
	d.SetFaults(func(c driver.Call) memdriver.Fault {
		if c.Script.Name() == script {
			return f
		}
		return memdriver.Fault{}
	})
}

// All makes the same fault happen to every call from now on.
func All(d *memdriver.Driver, f memdriver.Fault) {
	d.SetFaults(func(driver.Call) memdriver.Fault { return f })
}

// Away makes Redis unreachable for a driver, as if its process had crashed.
func Away(d *memdriver.Driver) { All(d, LostRequest) }

// Spy makes a driver remember the arguments of its calls, and returns them.
func Spy(d *memdriver.Driver) func() [][]string {
	var mu sync.Mutex
	var seen [][]string
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, call.Args)
		return memdriver.Fault{}
	})
	return func() [][]string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}
