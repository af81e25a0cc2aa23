package redistest

import (
	"bytes"
	"strings"
)

// Aftermath is what becomes of a connection on which a reply was swallowed.
type Aftermath int

const (
	// ThenSilence leaves the connection open. The client's requests still
	// reach the server, but nothing that the server sends reaches the client.
	ThenSilence Aftermath = iota
	// ThenReset resets the connection to the client in place of the reply.
	ThenReset
)

// A swallow is a reply yet to be lost.
type swallow struct {
	match func(request []byte) bool
	then  Aftermath
	done  chan struct{} // closed when the reply has come and been dropped
}

// An exchange pairs the replies on one connection with its requests. Redis
// answers in order, so counting both is enough; what it sends without being
// asked is left out. Proxy.mu guards it.
type exchange struct {
	sent       int // requests that have a reply
	replied    int // replies that have come
	subscribed bool
	streaming  bool // the server now sends a stream that is not replies

	loss   *swallow // nil until a reply on this connection is to be lost
	lossAt int      // the number of that reply
}

// request counts a request. A loss that is not nil applies to its reply.
func (x *exchange) request(raw []byte, loss *swallow) {
	args := Args(raw)
	if len(args) == 0 {
		return
	}
	switch name := strings.ToLower(args[0]); {
	case strings.HasSuffix(name, "subscribe"):
		// The server confirms each channel, in RESP3 by push messages.
		x.subscribed = true
		return
	case name == "monitor" || name == "sync" || name == "psync":
		x.streaming = true
	}
	x.sent++
	if loss != nil {
		x.loss, x.lossAt = loss, x.sent
	}
}

// A fate is what to do with something that the server sent.
type fate int

const (
	deliver fate = iota
	drop
	dropAndReset
)

// reply counts what the server sent, if it is a reply, and decides its fate.
func (x *exchange) reply(v value) fate {
	if x.loss != nil && x.replied >= x.lossAt {
		return drop
	}
	if v.kind == 0 || v.kind == '>' || x.subscribed && pubSub(v.raw) {
		return deliver
	}
	x.replied++
	if x.loss == nil || x.replied < x.lossAt {
		return deliver
	}
	close(x.loss.done)
	if x.loss.then == ThenReset {
		return dropAndReset
	}
	return drop
}

// pubSub says whether this is a message or a confirmation of a subscription,
// which RESP2 sends as an array that begins with one of a few names.
func pubSub(raw []byte) bool {
	lines := bytes.SplitN(raw, []byte("\r\n"), 4)
	return raw[0] == '*' && len(lines) > 2 &&
		(bytes.HasSuffix(lines[2], []byte("subscribe")) || bytes.HasSuffix(lines[2], []byte("message")))
}
