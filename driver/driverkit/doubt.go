package driverkit

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// Doubt says whether the open connections to a node are to be trusted. It is raised by a call that
// was sent and not answered, and by one that the server has refused because it is not the primary,
// or not yet: other open connections may be as dead, or lead to the same server. It is resolved
// before the next call is sent, by having that call use a new connection. The zero value trusts.
type Doubt struct {
	raised   atomic.Int64 // how often it was raised
	resolved atomic.Int64 // how often it had been when it was last resolved: the epoch

	mu sync.Mutex // held while it is being resolved
}

// Resolve calls renew if there is doubt. After renew, calls use new connections, or connections that have answered since. If there
// are none, renew calls [Doubt.Raise], and the next Resolve calls renew again. Concurrent calls of Resolve wait for renew. It returns
// the epoch, which [Doubt.Note] gets when the call that is sent next has ended.
func (d *Doubt) Resolve(renew func()) (epoch int64) {
	if epoch = d.resolved.Load(); d.raised.Load() == epoch {
		return epoch
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if raised := d.raised.Load(); raised != d.resolved.Load() {
		renew()
		d.resolved.Store(raised)
	}
	return d.resolved.Load()
}

// Note notes how a call has ended. One of an earlier epoch used an older connection, and raises no doubt.
func (d *Doubt) Note(epoch int64, err error) {
	if err != nil && IsDoubtful(err) {
		d.raise(epoch)
	}
}

// Raise raises doubt. It is for cases without a failed call: a connection that was found dead before a call was sent on it, or
// connections that calls use again although they have not answered.
func (d *Doubt) Raise() { d.raise(d.resolved.Load()) }

func (d *Doubt) raise(epoch int64) {
	if epoch == d.resolved.Load() {
		d.raised.Add(1)
	}
}

// IsDoubtful reports whether a call that has ended with an error may do better on another connection. One that was not sent
// says nothing of any.
func IsDoubtful(err error) bool {
	var failed *driver.Error
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code {
	case "READONLY", "LOADING", "MASTERDOWN":
		return true
	case "":
		return failed.MayHaveRun
	}
	return false
}
