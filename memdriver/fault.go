package memdriver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Fault is what happens to one call. The zero Fault is none.
type Fault struct {
	// Refuse, if set, is returned at once; nothing is sent. A [*driver.Error] is
	// returned as it is, any other one as that of a connection that cannot be made.
	Refuse error
	// LoseRequest: the server never gets it. The call returns when its context ends, and
	// nobody is told later.
	LoseRequest bool
	// DelayRequest is how long it takes to the server. It is executed even if
	// the caller has gone by then.
	DelayRequest time.Duration
	// Repeat: the server gets it once more, RepeatAfter later; that reply goes
	// nowhere. A real driver does not do that: see package driver.
	Repeat      bool
	RepeatAfter time.Duration
	// LoseReply: it is executed, and the caller learns nothing: the call returns when its
	// context ends, and nobody is told later.
	LoseReply bool
	// DelayReply is how long the reply takes to the caller.
	DelayReply time.Duration
}

// SetFaults has f decide what happens to each later call; nil ends all faults.
func (d *Driver) SetFaults(f func(driver.Call) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// suffer runs a call with a fault.
func (d *Driver) suffer(ctx context.Context, call driver.Call, f Fault) (any, error) {
	switch {
	case f.Refuse != nil:
		var said *driver.Error
		if errors.As(f.Refuse, &said) {
			return nil, said
		}
		return nil, driver.ConnectionError(f.Refuse, true)
	case f.LoseRequest:
		return nil, lost(ctx)
	}
	if f.LoseReply {
		d.server.wg.Go(func() { _, _ = d.deliver(call, f) }) // its reply goes nowhere
		return nil, lost(ctx)
	}
	d.server.wg.Add(1)
	return driver.Run(ctx, call, func() (any, error) {
		defer d.server.wg.Done()
		return d.deliver(call, f)
	})
}

// deliver is the way of a request through the network and back. It does not end
// with the caller, only with the server.
func (d *Driver) deliver(call driver.Call, f Fault) (any, error) {
	if !pause(d.server.ctx, f.DelayRequest) {
		return nil, driver.ConnectionError(errLost, true)
	}
	reply, err := d.execute(call)
	if f.Repeat && f.RepeatAfter == 0 {
		_, _ = d.execute(call) // before the caller can do anything; its reply goes nowhere
	} else if f.Repeat {
		d.server.wg.Go(func() {
			if pause(d.server.ctx, f.RepeatAfter) {
				_, _ = d.execute(call) // its reply goes nowhere
			}
		})
	}
	if !pause(d.server.ctx, f.DelayReply) {
		return nil, driver.ConnectionError(errLost, false)
	}
	return reply, err
}

// LoseMessages cuts the driver's listeners off from every message, or ends that.
// When it ends, the listeners are told that they are subscribed anew, as after a
// lost connection.
func (d *Driver) LoseMessages(on bool) {
	d.mu.Lock()
	d.noMessages = on
	listeners := slices.Collect(maps.Keys(d.listeners))
	d.mu.Unlock()
	if on {
		return
	}
	for _, l := range listeners {
		l.again()
	}
}
