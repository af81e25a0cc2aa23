// Package script is what every script call has in common: the frame of a request,
// and that of a reply. The scripts themselves are in package protocol, and package
// call sends them.
package script

import (
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// Request is a script call, without the arguments that every call begins with:
// its limit on the server's clock, Channel, and the command that publishes there.
type Request struct {
	Script *driver.Script
	Keys   []string // all in one slot; at least one
	// Channel is where a change is announced; empty: nowhere.
	Channel string
	Args    []string
	// Acknowledged says that replicas are to acknowledge it, if the client asks for
	// that.
	Acknowledged bool
	// Once says that the call has an id, by which Redis knows its effect, and that nobody takes the effect
	// back: so a refusal is only the last word if no earlier attempt of it can have one. See Final.
	Once bool
}

// Final returns the request for a call that was refused after an earlier attempt was not answered:
// Redis keeps its refusal, and so refuses the earlier one, too, should it arrive yet.
func (r Request) Final() Request {
	r.Args = append(slices.Clone(r.Args), "final")
	return r
}

// IsZero reports whether there is nothing to ask.
func (r Request) IsZero() bool { return r.Script == nil }
