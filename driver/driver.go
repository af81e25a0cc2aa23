package driver

import (
	"context"
	"encoding/hex"
	"time"
)

// Script is a Lua script that servers may cache. It is immutable and shared.
type Script struct {
	name   string
	source string
	sha    string
}

// NewScript returns a script with the given name, which appears in errors and
// nowhere on the wire.
func NewScript(name, source string) *Script {
	sum := digest(source)
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Name returns the script's name, for messages to people.
func (s *Script) Name() string { return s.name }

// Source returns the Lua text.
func (s *Script) Source() string { return s.source }

// SHA returns the SHA-1 of the source as lower-case hex, as EVALSHA wants it.
func (s *Script) SHA() string { return s.sha }

// Call is one execution of a script. All keys lie in one cluster slot.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
	// Late is told what came of the call if Eval returns before that is known, with an
	// [Error] that is Pending: once, from any goroutine, and perhaps before Eval has returned.
	// An adapter that sets Pending must tell it. nil: nobody wants to know.
	Late Late
}

// Late hears of a call that was given up.
type Late interface {
	// Tell is told what came of the call, as Eval would have returned it. It does not block.
	Tell(reply any, err error)
}

// Driver is what holdfast needs of a Redis client. The package comment says
// what an implementation must promise. All methods are safe for concurrent use.
type Driver interface {
	// Check returns an error if no call can ever succeed: there is no client, or one that cannot carry locks.
	// It does no I/O, and nothing else is called of a driver that it refuses.
	Check() error

	// Eval runs the call once and returns its reply as nil, int64, string or
	// []any of these. It returns as soon as the context ends, or half a second later.
	// After a call that was not answered, or was refused by a server that is not the primary, it prefers
	// connections that have answered since: see the package comment.
	Eval(ctx context.Context, call Call) (any, error)

	// EvalReplicated is Eval followed by WAIT on the same connection. It returns
	// the reply, and how many replicas have acknowledged what the script wrote, and
	// all that the primary had written before, whoever wrote it. A script that wrote
	// nothing learns less: Redis 8 and Valkey 8 then count who has acknowledged
	// what this connection wrote before, if anything. It returns as soon as
	// these are as many as replicas says, or else after the timeout, which is cut
	// to milliseconds and is at least one. If that number is not known, since WAIT
	// was refused or not answered, acknowledged is 0. An error is one that Eval
	// would return, and never comes from WAIT.
	EvalReplicated(ctx context.Context, call Call, replicas int, timeout time.Duration) (reply any, acknowledged int, err error)

	// Slotted reports whether the keys of one call must share a cluster slot.
	// It does no I/O and never changes.
	Slotted() bool

	// PublishCommand returns the command that releases are announced with:
	// "SPUBLISH" on a cluster with sharded pub/sub, as Redisson chooses it, and
	// "PUBLISH" everywhere else. It may ask the server once, and need not heed the
	// context at once.
	PublishCommand(ctx context.Context) (string, error)

	// Listen returns a new listener that delivers to sink. It does no I/O until
	// the first Subscribe.
	Listen(sink func(Event)) Listener
}

// Listener keeps channels subscribed. It listens in the way that matches
// [Driver.PublishCommand].
type Listener interface {
	// Subscribe adds a channel to the wanted subscriptions, and Unsubscribe removes
	// it. Neither blocks, and doing either twice is doing it once. After Close both
	// do nothing.
	Subscribe(channel string)
	Unsubscribe(channel string)

	// Close ends all subscriptions, stops the listener's goroutines and waits
	// for them. No event is delivered after it returns.
	Close()
}

// EventKind says what an [Event] tells.
type EventKind int

const (
	// Subscribed tells that the server has confirmed the subscription, for the
	// first time or again after a lost connection.
	Subscribed EventKind = iota + 1
	// Message tells that a message came.
	Message
)

// Event is something that happened on a channel.
type Event struct {
	Kind    EventKind
	Channel string
	Payload string
}
