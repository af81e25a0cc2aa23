// Package script holds the Lua scripts, one file an operation. Each file's
// header is its contract: keys, arguments, replies; what all have in common
// stands in common.lua.
//
// Scripts take the lock from one state to another (this owner, from count n to
// n + 1) and never add to one, so that a call whose reply was lost can be asked
// again, and one that arrives late finds another state and does nothing. They
// check their arguments before they write, since Redis does not roll back.
package script

import (
	"embed"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// MaxLeaseMillis is the longest lease that the scripts take: twelve digits of
// milliseconds, some thirty years.
const MaxLeaseMillis = 999_999_999_999

//go:embed *.lua
var files embed.FS

// Lock are the scripts of one kind of lock.
type Lock struct {
	Acquire, Release, Renew, Adopt, Force, Inspect *driver.Script
	Leave                                          *driver.Script // nil if waiting leaves nothing in Redis
}

// Mutex are the scripts of the plain lock.
var Mutex = Lock{
	Acquire: load("mutex", "acquire"),
	Release: load("mutex", "release"),
	Renew:   load("mutex", "renew"),
	Adopt:   load("mutex", "adopt"),
	Force:   load("mutex", "force"),
	Inspect: load("mutex", "inspect"),
}

// Fair are the scripts of the fair lock, whose holds are renewed and adopted as
// those of the plain lock are.
var Fair = Lock{
	Acquire: load("fair", "acquire", "fair"),
	Release: load("fair", "release", "fair"),
	Renew:   Mutex.Renew,
	Adopt:   Mutex.Adopt,
	Force:   load("fair", "force", "fair"),
	Inspect: load("fair", "inspect", "fair"),
	Leave:   load("fair", "leave", "fair"),
}

// Read are the scripts of the read-write lock's readers, Write those of its
// writers, whose holds are renewed as those of the plain lock are.
var (
	Read = Lock{
		Acquire: load("read", "acquire", "rw"),
		Release: load("read", "release", "rw"),
		Renew:   load("read", "renew", "rw"),
		Adopt:   load("read", "adopt", "rw"),
		Force:   load("read", "force", "rw"),
		Inspect: load("read", "inspect", "rw"),
	}
	Write = Lock{
		Acquire: load("write", "acquire", "rw"),
		Release: load("write", "release", "rw"),
		Renew:   Mutex.Renew,
		Adopt:   load("write", "adopt", "rw"),
		Force:   load("write", "force", "rw"),
		Inspect: load("write", "inspect", "rw"),
		Leave:   load("write", "leave", "rw"),
	}
)

// MultiAcquire takes several plain locks at once.
var MultiAcquire = load("multi", "acquire")

// Size and Delete are the same for all kinds.
var (
	Size   = load("object", "size", "rw")
	Delete = load("object", "delete")
	Expire = load("object", "expire")
	TTL    = load("object", "ttl")
)

// load returns the script of a kind's operation, with the libraries that it
// needs. Its name is the operation's.
func load(kind, operation string, libraries ...string) *driver.Script {
	var text strings.Builder
	text.WriteString(source("common"))
	for _, library := range libraries {
		text.WriteString(source(library))
	}
	text.WriteString(source(kind + "_" + operation))
	return driver.NewScript(operation, text.String())
}

func source(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // it is embedded, or the package does not work at all
	}
	return string(text)
}

// Code is the first element of every reply.
type Code int64

// What the codes mean; the header of each script says it in its own terms.
const (
	Done    Code = 1
	Refused Code = 0
	Late    Code = -1
	Changed Code = -2
	Upgrade Code = -3
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

// Untold returns why Redis refused to announce what the script has done; empty
// if it did not. Only a script that gives something back, or makes it available,
// says so.
func (a Answer) Untold() string {
	if len(a.Rest) == 0 {
		return ""
	}
	why, _ := a.Rest[len(a.Rest)-1].(string)
	return why
}

// List returns element i of the rest, each of its elements as text.
func (a Answer) List(i int) ([]string, error) {
	if i >= len(a.Rest) {
		return nil, fmt.Errorf("reply has no list at %d", i+2)
	}
	items, ok := a.Rest[i].([]any)
	if !ok && a.Rest[i] != nil {
		return nil, fmt.Errorf("reply has no list at %d", i+2)
	}
	texts := make([]string, len(items))
	for j, item := range items {
		if texts[j], ok = item.(string); !ok {
			return nil, fmt.Errorf("reply has no text at %d, %d", i+2, j)
		}
	}
	return texts, nil
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
