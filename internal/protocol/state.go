package protocol

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// Refusal is the reply of a lock that others hold.
type Refusal struct {
	// TTL is how long it lives unless it is renewed: 0 if it is free, but somebody
	// else's turn, -1 if it does not expire.
	TTL    time.Duration
	Holder string // one of them; empty if it is not said
	// Retry is the time after which to ask again at the latest; below 0 if what is waited for does not expire.
	Retry time.Duration
	// Position is the index of the owner's entry in the waitlist; below 0: it has none. New is set if it had none before.
	Position int64
	New      bool
	Beside   bool // the owner, which has an entry, listens where Redisson does as well
}

// ReadRefusal reads the refusal of a lock: {pttl, holder, hint, position, new, listens}. Some kinds leave out what they do not say; others
// say -1 there.
func ReadRefusal(r script.Reply) Refusal {
	found := Refusal{Retry: -1, Position: -1}
	pttl, err := r.Int(0)
	if err == nil {
		found.TTL = lifetime(pttl)
	}
	found.Holder, _ = r.Text(1)
	switch hint, said := r.Number(2); {
	case said && hint >= 0:
		found.Retry = Milliseconds(hint) + time.Millisecond
	case !said && found.TTL >= 0:
		found.Retry = found.TTL + time.Millisecond
	}
	if position, listed := r.Number(3); listed {
		anew, _ := r.Number(4)
		listens, _ := r.Number(5)
		found.Position, found.New, found.Beside = position, anew == 1, listens == 1
	}
	return found
}

// FoundCount reads how often the owner holds the lock, from the answer that this is another count than it was asked about.
func FoundCount(r script.Reply) (count int, ok bool) {
	n, err := r.Int(0)
	return int(n), err == nil
}

// lifetime makes a duration of what PTTL says.
func lifetime(pttl int64) time.Duration {
	switch pttl {
	case -2:
		return 0
	case -1:
		return -1
	}
	return Milliseconds(pttl)
}

// Milliseconds makes a duration of a number of them: 0 of what is below that, and no more than a
// duration can be. A key can live for longer, and scripts compute with what others have written.
func Milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), mostMillis)) * time.Millisecond
}

// mostMillis is how many milliseconds a duration has room for, with one to spare.
const mostMillis = math.MaxInt64/int64(time.Millisecond) - 1

// Sum returns a+b, or the nearest number if there is no such one: anybody may have written a and b.
func Sum(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// Message is what a client hears on its [GrantChannel]: that an ask was granted, or after how long to ask again.
type Message struct {
	Number  string // of the ask; only its name, as [AskName] has it, if it was not granted
	Granted bool
	After   time.Duration
}

const (
	// numberLength is how long the number of an ask is, as crypto/rand.Text makes it, and askNameLength how much of it names
	// the ask in messages that grant nothing: NAME_LENGTH in lua/waitlist.lua.
	numberLength, askNameLength = 26, 13
)

// AskName is the part of an ask's number that names the ask. Everyone may know it. The other half is a secret, which only a
// grant discloses: whoever knows that and may publish could have the waiter believe that it was granted the lock.
func AskName(number string) string { return number[:min(askNameLength, len(number))] }

// ReadMessage reads one: the whole number of an ask that was granted; or the name of an ask, and behind it after how many
// milliseconds to ask again. What is no such time says to ask at once. It reports false for anything else. The number ends at
// an underscore: see [FairSince].
func ReadMessage(payload string) (m Message, ok bool) {
	number, after, later := strings.Cut(payload, " ")
	number, _, _ = strings.Cut(number, sinceMark)
	if later {
		ms, err := strconv.Atoi(after)
		if err != nil || ms < 0 || ms > 1000 { // nobody of ours has said that
			ms = 0
		}
		return Message{Number: number, After: time.Duration(ms) * time.Millisecond}, len(number) == askNameLength
	}
	return Message{Number: number, Granted: true}, len(number) == numberLength
}

// ReadHeard reads from the reply to a release how many have heard of it who do not stand in line, as far as the node can say, and
// whether one who stands there has the lock now.
func ReadHeard(r script.Reply) (others int64, granted bool) {
	others, _ = r.Number(0)
	n, _ := r.Number(1)
	return others, n == 1
}

// Ours reports whether an owner is a client of this library, whose UUIDs have a version of their own.
func Ours(owner string) bool { return len(owner) > versionAt && owner[versionAt] == '8' }

// Kept reports whether an owner stands for nobody, so that MinHold keeps the lock from all others: its number is negative.
func Kept(owner string) bool { return Ours(owner) && strings.Contains(owner, ":-") }

// versionAt is where a UUID has its version.
const versionAt = 14

// State is how a lock, a semaphore or a latch stands.
type State struct {
	TTL     time.Duration // 0: nobody holds it, or it is not there; -1: it does not expire
	Token   int64         // the last one; 0: none
	Holders []Holder
	Waiters []string
	Number  int // of permits that are available; or the count of a latch
}

// Holder is one who holds a lock.
type Holder struct {
	Owner string
	Mode  string // of a read-write lock: read or write
	Count int    // how often it holds the lock
	TTL   time.Duration
}

// ReadState reads the reply to Inspect.
func ReadState(r script.Reply) (s State, err error) {
	pttl, err := r.Int(0)
	if err != nil {
		return s, err
	}
	s.TTL = lifetime(pttl)
	token, err := r.Text(1)
	if err != nil {
		return s, err
	}
	s.Token = number(token)
	holders, err := r.List(2)
	if err != nil {
		return s, err
	}
	for holder := range slices.Chunk(holders, 4) {
		h, err := readHolder(holder)
		if err != nil {
			return s, err
		}
		s.Holders = append(s.Holders, h)
	}
	if s.Waiters, err = r.List(3); err != nil || len(r.Rest) <= 4 {
		return s, err
	}
	number, err := r.Int(4)
	s.Number = int(number)
	return s, err
}

// readHolder reads an owner, a mode, a count and a time to live.
func readHolder(texts []string) (Holder, error) {
	if len(texts) < 4 {
		return Holder{}, fmt.Errorf("a holder of %d texts", len(texts))
	}
	pttl, err := strconv.ParseInt(texts[3], 10, 64)
	return Holder{Owner: texts[0], Mode: texts[1], Count: int(number(texts[2])), TTL: lifetime(pttl)}, err
}

// number reads what stands in Redis; 0 if that is none, since anybody may write there. A lock must be to be
// forced whatever its count is.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
