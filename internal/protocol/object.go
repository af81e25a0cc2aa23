package protocol

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// These are the same for all kinds.
var (
	deleteKey = load("object", "delete")
	expire    = load("object", "expire")
	inspect   = load("object", "inspect")
)

// Delete asks that none of these keys is there, and tells those who hold something of it on
// holders, unless that is empty.
func Delete(keys []string, holders string) script.Request {
	return script.Request{Script: deleteKey, Keys: keys, Channel: holders}
}

// Expire asks that these keys end after d, 0: never, and tells holders as [Delete] does.
func Expire(keys []string, d time.Duration, holders string) script.Request {
	return script.Request{Script: expire, Keys: keys, Channel: holders, Args: []string{millis(d)}}
}

// InspectNumber asks for the number of a key, and for how long it lives; see [ReadState].
func InspectNumber(key string) script.Request {
	return script.Request{Script: inspect, Keys: []string{key}}
}

// Once makes a call without an owner have its effect once: Redis keeps its id for a
// while.
type Once struct {
	ID  string        // 16 random bytes
	TTL time.Duration // how long Redis keeps it
}

// args are the arguments that such a call begins with.
func (o Once) args(more ...int64) []string {
	all := make([]string, 0, 2+len(more))
	all = append(all, o.ID, millis(o.TTL))
	for _, n := range more {
		all = append(all, strconv.FormatInt(n, 10))
	}
	return all
}
