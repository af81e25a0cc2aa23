//go:build unix

package runner

import (
	"github.com/holdfast-go/holdfast"
)

// locker is the lock of the configuration.
func (r *run) locker() holdfast.Locker {
	var options []holdfast.MutexOption
	if r.Fenced {
		options = append(options, holdfast.Fenced())
	}
	switch r.Kind {
	case Read:
		return r.client.NewRWMutex(r.Name).Reader()
	case Write:
		// Commands that read may come one after the other without end.
		return r.client.NewRWMutex(r.Name, append(options, holdfast.WritersFirst())...).Writer()
	default:
		return r.client.NewMutex(r.Name, options...)
	}
}
