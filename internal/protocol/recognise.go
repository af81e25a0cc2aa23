package protocol

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// What is ours is recognised here, without asking Redis, by those who go through its keys. A call that names a lock
// asks less of what stands there: see foreign in lua/common.lua.

// PermitID is how many bytes the id of a permit has.
const PermitID = 16

const (
	uuidLength = 36
	// MaxOwner is the longest owner, in bytes: of ours, and of Redisson's with a transaction, with room.
	MaxOwner = 256
	// MaxKey is the longest key or channel of a lock, in bytes: one with its name and an owner in it.
	MaxKey = MaxName + MaxOwner + 64
)

// auxPrefixes returns the prefixes of all keys beside a lock's own. Those of [ReadHoldKey] and [PermitsKey] have none.
var auxPrefixes = sync.OnceValue(func() []string {
	prefixes := []string{unlockPrefix, clientPrefix}
	keys := names(WaitlistKey, RequestsKey, YieldKey, TokenKey)
	for _, k := range Kinds {
		keys = append(keys, k.Keys...)
	}
	for _, key := range keys {
		if prefix, _, found := strings.Cut(key(""), ":{}"); found {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
})

// namingPrefixes are those of the keys and channels of which [NamesOf] knows the lock.
var namingPrefixes = []string{
	waitlistPrefix, queuePrefix, tokenPrefix, nextPrefix, callsPrefix, zeroPrefix, semaphorePrefix,
}

// Auxiliary reports whether a key is one that stands beside a lock's own, or of a client.
func Auxiliary(key string) bool {
	prefix, _, found := strings.Cut(key, ":")
	return found && slices.Contains(auxPrefixes(), prefix) || strings.Contains(key, readHoldInfix)
}

// IsTokenKey reports whether a key is of a fencing token, and IsPermitsKey whether it may be of permits that are held.
func IsTokenKey(key string) bool { return strings.HasPrefix(key, tokenPrefix+":") }

// IsPermitsKey is described at [IsTokenKey].
func IsPermitsKey(key string) bool { return strings.HasSuffix(key, ":"+permitsSuffix) }

// CounterChannels are patterns of the channels on which those listen who wait for semaphores and for latches.
func CounterChannels() []string { return []string{semaphorePrefix + ":*", latchPrefix + "*"} }

// NamesOf are the names of the locks beside which a key stands, or on whose channel somebody listens: none, one, or two,
// since the locks x and {x} share such a key. The likelier one is first.
func NamesOf(key string) []string {
	prefix, rest, _ := strings.Cut(key, ":")
	if slices.Contains(namingPrefixes, prefix) {
		if found := tagged(rest); found != nil {
			return found
		}
	}
	if rest, found := strings.CutSuffix(key, ":"+permitsSuffix); found {
		if found := tagged(rest); found != nil {
			return found
		}
	}
	// The braces of a latch's channel are always there.
	if rest, found := strings.CutPrefix(key, latchPrefix+"{"); found && len(rest) > 1 && len(rest) <= MaxName+1 && strings.HasSuffix(rest, "}") {
		return []string{strings.TrimSuffix(rest, "}")}
	}
	return nil
}

// tagged are the names that a key may hold as text: one with braces put around it, and one that has its own.
func tagged(text string) (all []string) {
	if inner, found := strings.CutPrefix(text, "{"); found && strings.HasSuffix(inner, "}") {
		inner = strings.TrimSuffix(inner, "}")
		if !strings.Contains(inner, "{") && CheckName(inner) == nil {
			all = append(all, inner)
		}
	}
	if strings.Contains(text, "{") && CheckName(text) == nil {
		all = append(all, text)
	}
	return all
}

// IsOwner reports whether a text is what stands for an owner: a UUID, a colon and a number.
// Redisson's transactions have something more behind another colon.
func IsOwner(text string) bool {
	if len(text) < uuidLength+2 || len(text) > MaxOwner || !isUUID(text[:uuidLength]) || text[uuidLength] != ':' {
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

// OurPermit reports whether a permit, by its id in hexadecimal digits, is of a client of this library.
func OurPermit(id string) bool {
	mark := hex.EncodeToString([]byte(PermitMark))
	return ClientKey(id) != "" && strings.HasPrefix(id[2*PermitPrefix:], mark)
}

// Integer reads an integer that stands as Redis writes them.
func Integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// ReadRequest reads from the last acquire request of an entry in a waitlist until when the entry is live, in ms, and how many permits its
// waiter wants; 0 if the request does not say.
func ReadRequest(text string) (until, wants int64) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) < 4 {
		return 0, 0
	}
	until, _ = Integer(parts[2])
	return until, int64(len(strings.Join(parts[4:], "")) / PermitID)
}

// ReadReservation reads who is next at a semaphore: how many permits it wants, since when others
// are held back, and the id of a permit for who it is.
func ReadReservation(text string) (wants int64, id string, ok bool) {
	number, rest, _ := strings.Cut(text, " ")
	_, id, _ = strings.Cut(rest, " ")
	wants, ok = Integer(number)
	return wants, id, ok && wants > 0 && len(id) == PermitID
}
