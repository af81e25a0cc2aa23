// Package protocol is what each kind of lock asks of Redis, and reads from its
// replies: keys, channels, payloads, arguments, and the Lua in lua/. It does no I/O
// and has no state, so everything in it can be tested by comparing values.
//
// # Kinds
//
// A kind is a row of [Kinds], a file in lua/, and a type that builds its requests. Others learn from the row what they need to know
// of it; see docs/internals/change.md.
//
// # Names
//
// The functions in names.go, and those that begin a kind's file, name everything
// that holdfast and Redisson both see. Nothing else spells one of these names, and
// golden tests hold each of them. Two rules join a prefix or a suffix to a lock's
// name so that all keys of one lock share a cluster slot. Both put braces around
// the name unless it has an opening brace already; see [Prefixed]. [CheckName]
// refuses the names for which that does not work. recognise.go is the way back: which lock a key belongs to, and whether
// a text is an owner.
//
// # Scripts
//
// There is one Lua file an operation, of one kind or of several. Its header is its contract: keys, arguments,
// replies; what all begin with stands in lua/frame.lua. The other files are libraries,
// from which assemble takes the pieces that an operation asks for. Scripts take the lock
// from one state to another (this owner, from count n to n + 1) and never add to
// one, so that a call whose reply was lost can be asked again, and one that arrives
// late finds another state and does nothing. They check their arguments before they
// write, since Redis does not roll back.
//
// What costs a server as much as half a command, beside a list as the reply: a number as an
// argument of a command where the same stands in ARGV as text, and the text of a score, as
// ZSCORE and WITHSCORES make it. `go run ./bench --scripts` measures it.
package protocol
