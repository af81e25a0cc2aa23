package survey

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// This file makes a [Lock] of what was read.

// nextOwner is who is next at a semaphore; empty if nobody is.
func (one *raw) nextOwner() string {
	_, id, _ := protocol.ReadReservation(one.next)
	return hex.EncodeToString([]byte(id))
}

// askWho asks who an owner is, and since when it holds the lock, unless that is asked already.
func (one *raw) askWho(ctx context.Context, pipe redis.Pipeliner, owner string) {
	if key := protocol.ClientKey(owner); key != "" && one.who[owner] == nil {
		one.who[owner] = pipe.HMGet(ctx, key, "program", "version", "host", "pid", "since", protocol.HeldField(owner, one.name))
	}
}

// identity is who an owner is, and since when it holds the lock.
func (one *raw) identity(owner string) (who holdfast.Identity, since time.Time) {
	answer := one.who[owner]
	if answer == nil || len(answer.Val()) < 6 {
		return who, since
	}
	text := func(i int) string { s, _ := answer.Val()[i].(string); return begin(s, longestName) }
	who = holdfast.Identity{Program: text(0), Version: text(1), Host: text(2), Since: moment(text(4))}
	if pid, err := strconv.Atoi(text(3)); err == nil {
		who.PID = max(pid, 0)
	}
	return who, moment(text(5))
}

// moment reads ms since the epoch; zero if it is none that makes sense, since anybody may write there.
func moment(text string) time.Time {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 && ms < neverExpires {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// arrival is when one in line came, by its score; like [moment], it is zero for a number that is no time.
func arrival(score float64) time.Time {
	us := score
	if us < 0 { // it has a place in front
		us += protocol.Ahead
	}
	if us >= 1 && us < neverExpires*1000 {
		return time.UnixMicro(int64(us))
	}
	return time.Time{}
}

// expiry makes a time to live of what [pttl] says.
func expiry(ms time.Duration) time.Duration {
	if ms == -1 {
		return holdfast.NoExpiry
	}
	return protocol.Milliseconds(int64(ms))
}

// result makes a lock of what was read.
func (one *raw) result(at time.Time) result {
	kind, ours, err := one.recognise()
	if err == nil && kind == "" {
		err = ErrNotFound
	}
	if err != nil {
		return result{err: err}
	}
	l := Lock{Name: one.name, Kind: kind, Ours: ours, At: at, TTL: one.ttl, State: Free}
	switch kind {
	case Mutex, Fair, RW:
		one.fillLock(&l)
	case Permits:
		one.fillPermits(&l)
	default:
		one.fillNumber(&l)
	}
	if l.HolderCount > 0 {
		l.State = Held
	}
	return result{Lock: l}
}

// waiter is one of whom is known who it is.
func (one *raw) waiter(w Waiter) Waiter {
	w.Who, _ = one.identity(w.Owner)
	return w
}

func (one *raw) fillLock(l *Lock) {
	l.Token, _ = protocol.Integer(one.token)
	for _, h := range one.found {
		if h.TTL = one.holdTTL(h); h.TTL == 0 {
			one.fieldCount-- // it has died
			continue
		}
		h.Who, h.Since = one.identity(h.Owner)
		l.Holders = append(l.Holders, h)
	}
	slices.SortStableFunc(l.Holders, func(a, b Holder) int { return cmp.Compare(b.Mode, a.Mode) })
	l.HolderCount = int(one.fieldCount)
	if l.Kind == RW && one.mode != "" {
		l.HolderCount = max(l.HolderCount-1, len(l.Holders)) // the mode may have been of another moment
	}
	if l.HolderCount > 0 {
		l.Mode = one.mode
	}
	switch l.Kind {
	case Fair:
		one.fillQueue(l)
	case RW:
		one.fillLine(l, one.onRW)
	default:
		one.fillLine(l, one.onLock)
	}
}

// holdTTL is for how long one holds the lock; 0 if it is a reader that has died.
func (one *raw) holdTTL(h Holder) (ttl time.Duration) {
	if h.Mode != Reads {
		return cmp.Or(one.ttl, time.Millisecond) // it has expired meanwhile
	}
	for _, hold := range one.readHolds[h.Owner] {
		left := expiry(hold.Val())
		if left == holdfast.NoExpiry {
			return left
		}
		ttl = max(ttl, left)
	}
	if ttl == 0 && !protocol.Ours(h.Owner) {
		return min(unkeptReader, cmp.Or(max(one.ttl, 0), unkeptReader))
	}
	return ttl
}

// listeningHolders guesses how many of those who listen are processes that hold the lock: holdfast's
// listen once they have held it for a second, which is when they say since when.
func (one *raw) listeningHolders(l *Lock) int {
	clients := map[string]bool{}
	for _, h := range l.Holders {
		if protocol.Ours(h.Owner) && (!h.Since.IsZero() || h.Who.IsZero()) {
			client, _, _ := strings.Cut(h.Owner, ":")
			clients[client] = true
		}
	}
	return len(clients)
}

// fillLine sets who stands in line for a plain or a read-write lock, and how many wait besides, as so many listen.
func (one *raw) fillLine(l *Lock, listeners int64) {
	foreign := slices.ContainsFunc(l.Holders, func(h Holder) bool { return !protocol.Ours(h.Owner) })
	one.addLine(l, listeners-int64(one.listeningHolders(l)), foreign)
	l.Listeners = int(listeners)
}

// addLine sets who stands in line, and how many wait besides: those who listen, less the first of the line, who do so while one of
// Redisson's holds the lock.
func (one *raw) addLine(l *Lock, listening int64, foreign bool) {
	until, wants := one.asked()
	for i, field := range one.inLine {
		owner, writes := strings.CutSuffix(field, writerSuffix)
		w := Waiter{Owner: owner, Wants: wants[i], Since: one.inLineSince[i], Silent: until[i] > 0 && until[i] <= l.At.UnixMilli()}
		switch {
		case l.Kind != RW:
		case writes:
			w.Mode = Writes
		default:
			w.Mode = Reads
		}
		l.Waiters = append(l.Waiters, one.waiter(w))
	}
	if foreign {
		listening -= min(one.inLineCount, nearPlaces)
	}
	l.Line = int(one.inLineCount)
	l.Waiting = int(protocol.Sum(one.inLineCount, max(listening, 0)))
}

// asked is until when those in line are believed to wait, ms, and how many permits they want; 0 if it is not known, since one has left
// meanwhile.
func (one *raw) asked() (until, wants []int64) {
	n := len(one.inLine)
	until, wants = make([]int64, n), make([]int64, n)
	if one.asks == nil {
		return until, wants
	}
	for i, ask := range one.asks.Val() {
		text, _ := ask.(string)
		until[i], wants[i] = protocol.ReadRequest(text)
	}
	return until, wants
}

// fillQueue sets who stands in line for a fair lock.
func (one *raw) fillQueue(l *Lock) {
	l.Line, l.Waiting = int(one.queueLength), int(one.queueLength)
	asks := make([]any, len(one.queue))
	if one.fairAsks != nil {
		copy(asks, one.fairAsks.Val())
	}
	for i, owner := range one.queue {
		ask, _ := asks[i].(string)
		l.Waiters = append(l.Waiters, one.waiter(Waiter{Owner: owner, Since: moment(protocol.FairSince(ask)), Silent: one.silent(owner, l.At)}))
	}
}

// silent reports whether nothing speaks for one in line. Of those of Redisson, any score does.
func (one *raw) silent(owner string, at time.Time) bool {
	for _, z := range one.heartbeats {
		if entryOf(z) == owner {
			return z.Score <= float64(at.UnixMilli())
		}
	}
	for _, z := range one.scores {
		if entryOf(z) == owner {
			return false
		}
	}
	return one.queueLength <= int64(len(one.queue)) // of a longer line not all scores are read
}

func (one *raw) fillPermits(l *Lock) {
	available, _ := protocol.Integer(one.text)
	l.Taken, l.Available = one.heldCount, available
	if one.keyType == typeString { // one that was deleted does not get them back
		l.Available = protocol.Sum(l.Available, one.expired)
	}
	l.Total = protocol.Sum(l.Available, l.Taken)
	l.HolderCount = int(one.heldCount)
	for _, z := range one.held {
		h := Holder{Owner: permitID(z), Count: 1, TTL: holdfast.NoExpiry}
		if z.Score < neverExpires {
			h.TTL = time.UnixMilli(int64(z.Score)).Sub(l.At)
		}
		h.Who, h.Since = one.identity(h.Owner)
		l.Holders = append(l.Holders, h)
	}
	if !one.line {
		one.fillNext(l)
		return
	}
	one.addLine(l, one.onSemaphore, slices.ContainsFunc(l.Holders, func(h Holder) bool { return !protocol.OurPermit(h.Owner) }))
	l.Listeners = int(one.onSemaphore)
}

// fillNext sets who waits at a semaphore.
func (one *raw) fillNext(l *Lock) {
	l.Listeners = int(one.onSemaphore)
	if wants, _, ok := protocol.ReadReservation(one.next); ok {
		l.Waiters = []Waiter{one.waiter(Waiter{Owner: one.nextOwner(), Wants: wants})}
	}
	l.Waiting = max(l.Listeners, len(l.Waiters))
}

// fillNumber fills in what has no holders.
func (one *raw) fillNumber(l *Lock) {
	n, _ := protocol.Integer(one.text)
	switch l.Kind {
	case Latch:
		l.Count, l.State = n, Open
		if n > 0 {
			l.State = Closed
		}
		l.Listeners = int(one.onLatch)
		l.Waiting = l.Listeners
	case Semaphore:
		l.Available = n
		if n <= 0 {
			l.State = Exhausted
		}
		one.fillNext(l)
	default:
		l.Count, l.State = n, Unknown
	}
}
