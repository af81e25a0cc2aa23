package protocol

import (
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// What is announced on a latch's channel.
const (
	// Zero says that the count has come to zero.
	Zero = "0"
	// NewCount says that a latch has been made, or deleted.
	NewCount = "1"
)

// LatchChannel is where a latch announces. Its braces stand around the name
// even if that has some of its own; see [LatchFits].
func LatchChannel(name string) string { return latchPrefix + "{" + name + "}" }

// LatchFits reports whether the channel of a latch lies in the slot of its name,
// as a cluster wants it.
func LatchFits(name string) bool { return script.Slot(LatchChannel(name)) == script.Slot(name) }

// LatchZeroKey is the key of when a latch came to zero last. Redisson does not know
// it.
func LatchZeroKey(name string) string { return Prefixed(zeroPrefix, name) }

var latchScripts = struct{ await, down, set *driver.Script }{
	await: load("latch", "await"),
	down:  load("latch", "down"),
	set:   load("latch", "set"),
}

// Latch is a number at its name. To acquire it is to find it at zero.
type Latch struct{ Name string }

// Acquire asks whether the count is zero, or has been since a.Since. It changes
// nothing.
func (l Latch) Acquire(a Acquire) script.Request {
	return script.Request{
		Script: latchScripts.await, Keys: []string{l.Name, LatchZeroKey(l.Name)},
		Args: []string{strconv.FormatInt(a.Since, 10)},
	}
}

// Release has nothing to give back.
func (Latch) Release(string, int, int) script.Request { return script.Request{} }

// Leave has nothing to ask.
func (Latch) Leave(string) script.Request { return script.Request{} }

// Channel is one for all.
func (l Latch) Channel(string) string { return LatchChannel(l.Name) }

// request is a call that has its effect once.
func (l Latch) request(which *driver.Script, o Once, args ...string) script.Request {
	return script.Request{
		Script: which, Keys: append([]string{l.Name}, l.auxKeys()...), Channel: LatchChannel(l.Name),
		Args: append(o.args(), args...),
	}
}

func (l Latch) auxKeys() []string { return []string{CallsKey(l.Name), LatchZeroKey(l.Name)} }

// Down lowers the count by one, unless it is zero.
func (l Latch) Down(o Once) script.Request { return l.request(latchScripts.down, o, Zero) }

// Set sets the count if it is zero; 0 deletes it.
func (l Latch) Set(o Once, n int) script.Request {
	request := l.request(latchScripts.set, o, NewCount, strconv.Itoa(n))
	request.Once = true
	return request
}

// ReadCount reads the refusal of a latch: the count, and the server's time, µs.
func ReadCount(r script.Reply) (count int, at int64, err error) {
	n, err := r.Int(3)
	if err != nil {
		return 0, 0, err
	}
	at, err = r.Int(4)
	return int(n), at, err
}
