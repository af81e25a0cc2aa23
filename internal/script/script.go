// Package script holds the Lua scripts, one file an operation. Each file's
// header is its contract: keys, arguments, replies.
//
// Scripts take the lock from one state to another (this owner, from count n to
// n + 1) and never add to one, so that a call whose reply was lost can be asked
// again, and one that arrives late finds another state and does nothing. They
// check their arguments before they write, since Redis does not roll back.
package script

import (
	_ "embed"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// MaxLeaseMillis is the longest lease that acquire.lua takes: twelve digits of
// milliseconds, some thirty years.
const MaxLeaseMillis = 999_999_999_999

var (
	//go:embed common.lua
	common string
	//go:embed acquire.lua
	acquire string
	//go:embed release.lua
	release string
	//go:embed renew.lua
	renew string
	//go:embed force.lua
	force string
	//go:embed inspect.lua
	inspect string
)

// The scripts of the plain lock.
var (
	Acquire = driver.NewScript("acquire", common+acquire)
	Release = driver.NewScript("release", common+release)
	Renew   = driver.NewScript("renew", common+renew)
	Force   = driver.NewScript("force", common+force)
	Inspect = driver.NewScript("inspect", common+inspect)
)

// Code is the first element of every reply.
type Code int64

// What the codes mean; the header of each script says it in its own terms.
const (
	Done    Code = 1
	Refused Code = 0
	Late    Code = -1
	Changed Code = -2
)

// Answer is a script's reply, taken apart.
type Answer struct {
	Code Code
	Now  int64 // the server's time, ms since the epoch
	Rest []any
}

// Parse takes a reply apart. An error means that something other than our
// script has answered.
func Parse(reply any) (Answer, error) {
	items, ok := reply.([]any)
	if !ok || len(items) < 2 {
		return Answer{}, fmt.Errorf("unexpected reply %T", reply)
	}
	code, ok := items[0].(int64)
	now, ok2 := items[1].(int64)
	if !ok || !ok2 {
		return Answer{}, fmt.Errorf("unexpected reply [%T %T]", items[0], items[1])
	}
	return Answer{Code: Code(code), Now: now, Rest: items[2:]}, nil
}

// Int returns element i of the rest.
func (a Answer) Int(i int) (int64, error) {
	if i < len(a.Rest) {
		if n, ok := a.Rest[i].(int64); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("reply has no integer at %d", i+2)
}

// Text returns element i of the rest.
func (a Answer) Text(i int) (string, error) {
	if i < len(a.Rest) {
		if s, ok := a.Rest[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("reply has no text at %d", i+2)
}
