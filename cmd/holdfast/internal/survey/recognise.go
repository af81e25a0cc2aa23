package survey

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// What is ours, and what is somebody else's data, is decided in this file alone, and without
// asking Redis. A call that names a lock asks less of what stands there: see foreign in
// internal/protocol/lua/common.lua.

// What names a lock in the keys and channels beside it.
var (
	linePrefix      = prefixOf(protocol.LineKey)
	queuePrefix     = prefixOf(protocol.FairQueueKey)
	tokenPrefix     = prefixOf(protocol.TokenKey)
	nextPrefix      = prefixOf(protocol.ReservationKey)
	callsPrefix     = prefixOf(protocol.CallsKey)
	zeroPrefix      = prefixOf(protocol.LatchZeroKey)
	semaphorePrefix = prefixOf(protocol.SemaphoreChannel)
	latchPrefix     = strings.TrimSuffix(protocol.LatchChannel("x"), "{x}")
	permitsSuffix   = strings.TrimPrefix(protocol.PermitsKey("x"), "{x}")
	readHoldInfix   = strings.TrimSuffix(strings.TrimPrefix(protocol.ReadHoldKey("x", "o", 1), protocol.ReadPrefix("x")+"o"), "1")
)

const (
	unlockPrefix      = "redisson_unlock_latch"
	modeField         = "mode"   // of a read-write lock
	writerSuffix      = ":write" // of its writer's field
	permitIDLength    = 16
	longestInteger    = 20 // bytes, with a sign; one more is read than that
	uuidLength        = 36
	longestOwner      = 256 // of ours, and of Redisson's with a transaction, with room
	versionOfHoldfast = '8' // of the UUIDs of its clients
)

// prefixOf is what stands before a name, without the colon.
func prefixOf(key func(string) string) string { return strings.TrimSuffix(key("x"), ":{x}") }

// clientPrefix is what the keys begin with under which clients say who they are.
func clientPrefix() string {
	prefix, _, _ := strings.Cut(protocol.ClientKey("99f17b91-c6cc-889e-88f6-8265bee545cf:1"), ":")
	return prefix
}

// auxPrefixes are those of all keys beside a lock's own.
var auxPrefixes = []string{
	linePrefix, prefixOf(protocol.AsksKey), prefixOf(protocol.TurnKey), queuePrefix, prefixOf(protocol.FairTimeoutsKey), prefixOf(protocol.FairHeartbeatsKey), tokenPrefix, nextPrefix, callsPrefix,
	zeroPrefix, unlockPrefix, clientPrefix(),
}

// auxiliary reports whether a key is one that stands beside a lock's own.
func auxiliary(key string) bool {
	prefix, _, found := strings.Cut(key, ":")
	return found && slices.Contains(auxPrefixes, prefix) || strings.Contains(key, readHoldInfix)
}

// names are the names of which key may be one that prefix was joined to: none, one, or two, since
// the locks x and {x} share such a key. The likelier one is first. See [protocol.Prefixed].
func names(prefix, key string) []string {
	rest, found := strings.CutPrefix(key, prefix+":")
	if !found {
		return nil
	}
	return tagged(rest)
}

// namesSuffixed is names for a key with a suffix; see [protocol.Suffixed].
func namesSuffixed(key, suffix string) []string {
	rest, found := strings.CutSuffix(key, suffix)
	if !found {
		return nil
	}
	return tagged(rest)
}

// tagged are the names that a key may hold as text: one with braces put around it, and one that has its own.
func tagged(text string) (all []string) {
	if inner, found := strings.CutPrefix(text, "{"); found && strings.HasSuffix(inner, "}") {
		inner = strings.TrimSuffix(inner, "}")
		if !strings.Contains(inner, "{") && protocol.CheckName(inner) == nil {
			all = append(all, inner)
		}
	}
	if strings.Contains(text, "{") && protocol.CheckName(text) == nil {
		all = append(all, text)
	}
	return all
}

// latchNames are the names of which channel may be a latch's; its braces are always there.
func latchNames(channel string) []string {
	rest, found := strings.CutPrefix(channel, latchPrefix+"{")
	if !found || len(rest) < 2 || !strings.HasSuffix(rest, "}") {
		return nil
	}
	return []string{strings.TrimSuffix(rest, "}")}
}

// isOwner reports whether a text is what stands for an owner: a UUID, a colon and a number.
// Redisson's transactions have something more behind another colon.
func isOwner(text string) bool {
	if len(text) < uuidLength+2 || len(text) > longestOwner || !isUUID(text[:uuidLength]) || text[uuidLength] != ':' {
		return false
	}
	number, _, _ := strings.Cut(text[uuidLength+1:], ":")
	_, err := strconv.ParseInt(number, 10, 64)
	return err == nil
}

func isUUID(text string) bool {
	for i := range len(text) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (text[i] == '-') || !dash && !isHex(text[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// ofHoldfast reports whether an owner is one of holdfast's clients.
func ofHoldfast(owner string) bool { return isOwner(owner) && owner[14] == versionOfHoldfast }

// permitOfHoldfast reports whether a permit, by its id in hexadecimal digits, is one of holdfast's.
func permitOfHoldfast(id string) bool {
	mark := hex.EncodeToString([]byte(protocol.PermitMark))
	return protocol.ClientKey(id) != "" && strings.HasPrefix(id[2*protocol.PermitPrefix:], mark)
}

// integer reads what may be a semaphore or a latch.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// field is one of a hash.
type field struct{ name, value string }

// holders are those of a hash that is a lock, without regard to who of them lives; ok is false if it
// is none.
func holders(mode string, fields []field) (found []Holder, ok bool) {
	for _, f := range fields {
		if f.name == modeField && mode != "" {
			continue
		}
		h := Holder{Owner: f.name}
		if mode != "" {
			h.Mode = Reads
			if owner, writes := strings.CutSuffix(f.name, writerSuffix); writes {
				h.Owner, h.Mode = owner, Writes
			}
		}
		if !isOwner(h.Owner) {
			return nil, false
		}
		if n, ok := integer(f.value); ok { // else it keeps others out all the same
			h.Count = n
		}
		found = append(found, h)
	}
	return found, len(found) == 1 || len(found) > 1 && mode != ""
}

// facts are what a kind is recognised by.
type facts struct {
	keyType string // what TYPE says; "none" if there is no key
	text    string // of a string: what it begins with
	// lock says that a hash is one of ours, and mode that it is a read-write lock.
	lock bool
	mode string
	// What stands beside it. queue is the line of a fair lock, and line that of a plain or a read-write lock, in which there may be a
	// writer, or of permits.
	line, writer, queue, heartbeats, token, permits, calls, zero bool
	next                                                         string
	// Who listens on which channel.
	onLock, onOwner, onRW, onSemaphore, onPermits, onLatch int64
}

// The types of keys.
const (
	typeNone   = "none"
	typeHash   = "hash"
	typeString = "string"
	typeList   = "list"
	typeZSet   = "zset"
)

// recognise returns the kind of what has these facts; ours is false if only its value speaks for it. Where
// there is nothing it is empty, and where there is something else an [ErrOtherKind].
func (f facts) recognise() (kind Kind, ours bool, err error) {
	_, number := integer(f.text)
	switch {
	case f.keyType == typeHash && f.lock:
		return f.hash(), true, nil
	case f.keyType == typeString && number:
		kind = cmp.Or(f.counted(), Number)
		return kind, kind != Number || f.calls, nil
	case f.keyType == typeNone:
		return f.nothing(), true, nil
	}
	return "", false, ErrOtherKind
}

// hash is the kind of a lock that somebody holds.
func (f facts) hash() Kind {
	switch {
	case f.mode != "":
		return RW
	case !f.line && (f.heartbeats || f.onOwner > 0), f.queue:
		return Fair
	}
	return Mutex
}

// nothing is the kind of what has no key of its own; empty if nothing tells.
func (f facts) nothing() Kind {
	switch {
	case f.queue:
		return Fair
	case isOwner(f.next) || f.onRW > 0 || f.writer:
		return RW
	case f.line && f.wanted() == 0 || f.token || f.onLock > 0:
		return Mutex
	}
	return f.counted()
}

// counted is the kind of a semaphore or a latch; empty if nothing tells.
func (f facts) counted() Kind {
	switch {
	case f.permits || f.onPermits > 0 || f.line:
		return Permits
	case f.onLatch > 0 || f.zero:
		return Latch
	case f.onSemaphore > 0 || f.wanted() > 0:
		return Semaphore
	}
	return ""
}

// wanted is how many permits the one who is next at a semaphore wants.
func (f facts) wanted() int64 {
	n, _, _ := parseReservation(f.next)
	return n
}

// parseReservation reads who is next at a semaphore: how many permits it wants, since when others
// are held back, and 16 bytes for who it is.
func parseReservation(text string) (wants int64, id string, ok bool) {
	number, rest, _ := strings.Cut(text, " ")
	_, id, _ = strings.Cut(rest, " ")
	wants, ok = integer(number)
	return wants, id, ok && wants > 0 && len(id) == permitIDLength
}

// namesOf are the names of the locks beside which a key stands, or on whose channel somebody listens;
// see [names].
func namesOf(key string) []string {
	for _, prefix := range []string{linePrefix, queuePrefix, tokenPrefix, nextPrefix, callsPrefix, zeroPrefix, semaphorePrefix} {
		if found := names(prefix, key); found != nil {
			return found
		}
	}
	if found := namesSuffixed(key, permitsSuffix); found != nil {
		return found
	}
	return latchNames(key)
}
