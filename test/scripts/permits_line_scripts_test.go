package scripts

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// permitLine is a semaphore, and the server where those who wait for its permits stand in line.
type permitLine struct {
	*linedUp

	sem protocol.Permits
}

// wanting is who wants some permits.
type wanting struct {
	protocol.PermitSet

	owner string
}

// onEveryPermitLine runs f with a semaphore of n permits on the server in memory, and on a real one.
func onEveryPermitLine(t *testing.T, n int, f func(l *permitLine)) {
	t.Helper()
	onEveryLine(t, func(l *linedUp) {
		l.do("SET", l.name, strconv.Itoa(n))
		f(&permitLine{l, protocol.Permits{Name: l.name}})
	})
}

// inMemoryPermitLine runs f under fake time.
func inMemoryPermitLine(t *testing.T, n int, f func(l *permitLine)) {
	t.Helper()
	inMemoryLine(t, func(l *linedUp) {
		l.do("SET", l.name, strconv.Itoa(n))
		f(&permitLine{l, protocol.Permits{Name: l.name}})
	})
}

// who returns a new owner that wants n permits.
func (l *permitLine) who(n int) *wanting {
	client, _, _ := strings.Cut(l.owner(), ":")
	w := &wanting{PermitSet: protocol.PermitSet{Permits: l.sem}}
	for i := range n {
		w.IDs = append(w.IDs, fmt.Sprintf("%s\x80-h\x00\x00\x00\x00\x00%c%c", client[2:8], 1+i/100, 1+i%100))
	}
	w.owner = client + ":257"
	return w
}

func (l *permitLine) held() string { return protocol.PermitsKey(l.name) }

func (w *wanting) ask(number string) script.Request {
	return w.Acquire(protocol.Acquire{Owner: w.owner, To: 1, Lease: lineLease, Waiting: true, Number: number})
}

func (w *wanting) try() script.Request {
	return w.Acquire(protocol.Acquire{Owner: w.owner, To: 1, Lease: lineLease})
}

func (w *wanting) release() script.Request { return w.Release(w.owner, 1, 0) }

// has has somebody hold n permits.
func (l *permitLine) has(n int) *wanting {
	l.t.Helper()
	w := l.who(n)
	l.wantCode("take", script.Done, w.try())
	return w
}

// stands has somebody ask for n permits, who is refused and stands in line. What its client hears is heard.
func (l *permitLine) stands(number string, n int, place int64) (w *wanting, heard func() string) {
	l.t.Helper()
	w = l.who(n)
	heard = l.listen(l.grants(w.owner))
	l.standsAgain(w, number, place)
	time.Sleep(2 * time.Microsecond)
	return w, heard
}

func (l *permitLine) standsAgain(w *wanting, number string, place int64) script.Reply {
	l.t.Helper()
	reply := l.wantCode("ask "+number, script.Refused, w.ask(number))
	if got, _ := protocol.ReadPlace(reply); got != place {
		l.t.Errorf("ask %s: place %d, want %d", number, got, place)
	}
	return reply
}

// wantPermits checks how many are available, and that just these are held: as long as a grant lasts, or for a lease, or up to three
// seconds less.
func (l *permitLine) wantPermits(free int, granted []*wanting, others ...*wanting) {
	l.t.Helper()
	l.wantReply(strconv.Itoa(free), "GET", l.name)
	n := 0
	for i, w := range append(granted, others...) {
		lives, least := 3*time.Second, time.Second
		if i >= len(granted) {
			lives, least = lineLease, lineLease-5*time.Second
		}
		for _, id := range w.IDs {
			n++
			score, _ := strconv.ParseFloat(l.do("ZSCORE", l.held(), id), 64)
			if left := time.Until(time.UnixMilli(int64(score))); left > lives || left < least {
				l.t.Errorf("%q is held for %v, want %v", id, left, lives)
			}
		}
	}
	l.wantReply(strconv.Itoa(n), "ZCARD", l.held())
}

func grantedTo(all ...*wanting) []*wanting { return all }

func (l *permitLine) wantStanding(all ...*wanting) {
	l.t.Helper()
	var owners []string
	for _, w := range all {
		owners = append(owners, w.owner)
	}
	l.wantLine(owners...)
}

// Who is refused stands in line with the ids that it wants, and has them when they are given back: the first ones, as many as there is
// enough for, in one script. Each is told. It asks again, and has its full lease.
func TestPermitLineRelease(t *testing.T) {
	onEveryPermitLine(t, 4, func(l *permitLine) {
		all := l.listen(protocol.SemaphoreChannel(l.name))
		l.notOpen()
		l.do("DEL", protocol.TurnKey(l.name))
		a, b := l.has(3), l.has(1)
		one, oneHears := l.stands("1", 1, 0)
		two, twoHears := l.stands("2", 2, 1)
		three, threeHears := l.stands("3", 1, 2)
		l.wantReply(strings.Join(two.IDs, ""), "HGET", l.asks(), two.owner+" ids")
		l.notOpen()
		l.wantCode("release", script.Done, b.release())
		l.wantHeard(oneHears, "1")
		l.wantHeard(twoHears, "")
		l.wantStanding(two, three)
		l.wantHeard(all, "") // nothing is left

		l.notOpen()
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(twoHears, "2")
		l.wantHeard(threeHears, "3")
		l.wantPermits(0, grantedTo(one, two, three))
		l.wantStanding()
		l.wantHeard(all, "")

		l.wantCode("ask again", script.Done, two.ask("4"))
		l.wantCode("release", script.Done, one.release())
		l.wantCode("release", script.Done, three.release())
		l.wantPermits(2, nil, two)
		l.wantHeard(all, "1, 2")
	})
}

// Who wants many is not overtaken: those behind it wait, and so does who comes later or only tries. After ten seconds others are let by
// for as long.
func TestPermitLineOfMany(t *testing.T) {
	inMemoryPermitLine(t, 3, func(l *permitLine) {
		a, b, c := l.has(1), l.has(1), l.has(1)
		many, manyHears := l.stands("m", 3, 0)
		one, oneHears := l.stands("o", 1, 1)
		l.do("DEL", protocol.ReservationKey(l.name)) // whether or not there is one
		l.wantCode("release", script.Done, a.release())
		l.wantCode("try", script.Refused, l.who(1).try())
		l.wantHeard(manyHears, "")
		l.wantHeard(oneHears, "")
		l.wantStanding(many, one)
		l.wantPermits(1, nil, b, c)
		l.standsAgain(many, "m", 0)
		start := time.Now()
		l.standsAgain(one, "o", 1)
		later := l.who(1)
		l.wantCode("try", script.Refused, later.try())
		for time.Since(start) < 9900*time.Millisecond {
			time.Sleep(900 * time.Millisecond)
			l.standsAgain(many, "m", 0)
			l.standsAgain(one, "o", 1)
		}
		time.Sleep(time.Until(start.Add(10 * time.Second)))
		l.wantCode("it is let by", script.Done, one.ask("o"))
		l.wantCode("renew", script.Done, b.Renew("", 1, lineLease))
		l.wantCode("renew", script.Done, c.Renew("", 1, lineLease))
		l.wantStanding(many)
		l.wantPermits(0, nil, b, c, one)
		l.standsAgain(many, "m", 0)
		behind, behindHears := l.stands("b", 1, 1)
		l.wantCode("release", script.Done, one.release()) // likewise
		l.wantHeard(behindHears, "b")
		l.wantHeard(manyHears, "")
		l.wantCode("release", script.Done, behind.release())
		l.wantCode("release", script.Done, b.release())
		l.wantCode("release", script.Done, c.release())
		l.wantHeard(manyHears, "m")
		l.wantPermits(0, grantedTo(many))
		l.wantReply("0", "EXISTS", protocol.ReservationKey(l.name))
	})
}

// Who wants more than there are keeps nobody waiting, and stays in line until there are as many.
func TestPermitLineOfTooMany(t *testing.T) {
	onEveryPermitLine(t, 2, func(l *permitLine) {
		a, b := l.has(1), l.has(1)
		many, manyHears := l.stands("m", 3, 0)
		one, oneHears := l.stands("o", 1, 1)
		l.notOpen()
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(oneHears, "o")
		l.wantStanding(many)
		l.wantCode("release", script.Done, b.release())
		l.wantCode("release", script.Done, one.release())
		l.wantPermits(2, nil)
		l.wantCode("try", script.Done, b.try())
		l.notOpen()
		l.wantCode("add", script.Done, l.sem.Add(protocol.Once{ID: "id", TTL: time.Second}, 1))
		l.wantHeard(manyHears, "")
		l.notOpen()
		l.wantCode("release", script.Done, b.release())
		l.wantHeard(manyHears, "m")
		l.wantPermits(0, grantedTo(many))
	})
}

// Who leaves is out of the line, and gives back just what it was granted, however late. What it was to have others have.
func TestPermitLineLeave(t *testing.T) {
	onEveryPermitLine(t, 2, func(l *permitLine) {
		a, b := l.has(1), l.has(1)
		first, _ := l.stands("f", 2, 0)
		second, secondHears := l.stands("s", 1, 1)
		third, thirdHears := l.stands("t", 1, 2)
		l.notOpen()
		l.wantCode("release", script.Done, a.release())
		l.wantStanding(first, second, third)
		l.notOpen()
		l.wantCode("leave", script.Done, first.Leave(first.owner)) // nobody waits behind it any more
		l.wantHeard(secondHears, "s")
		l.wantStanding(third)
		l.wantPermits(0, grantedTo(second), b)

		l.notOpen()
		l.wantCode("leave", script.Done, second.Leave(second.owner)) // it was granted
		l.wantHeard(thirdHears, "t")
		l.wantPermits(0, grantedTo(third), b)
		l.wantCode("leave late", script.Done, second.Leave(second.owner))
		l.wantCode("leave late", script.Done, first.Leave(first.owner))
		l.wantPermits(0, grantedTo(third), b)
		l.wantStanding()
		l.wantReply("0", "EXISTS", protocol.ReservationKey(l.name))
		l.wantCode("leave", script.Done, third.Leave(third.owner))
		l.wantPermits(1, nil, b)
	})
}

// However permits become available, those in line have them: 64 at a time, and the first of the others is told to ask.
func TestPermitLineServesMany(t *testing.T) {
	inMemoryPermitLine(t, 0, func(l *permitLine) {
		var all []*wanting
		var heard []func() string
		for i := range 70 {
			w, hears := l.stands("n", 1, int64(i))
			all, heard = append(all, w), append(heard, hears)
		}
		once := func(id string) protocol.Once { return protocol.Once{ID: id, TTL: time.Second} }
		l.wantCode("set", script.Done, l.sem.Set(once("a"), 1, true))
		l.wantHeard(heard[0], "n")
		l.wantCode("add", script.Done, l.sem.Add(once("b"), 1))
		l.wantHeard(heard[1], "n")
		l.wantCode("force", script.Done, l.sem.Force([]string{fmt.Sprintf("%x", all[0].IDs[0])}))
		l.wantHeard(heard[2], "n")
		l.wantCode("add", script.Done, l.sem.Add(once("c"), 66))
		for i, hears := range heard[3:67] {
			if got := hears(); got != "n" {
				t.Errorf("%d: %q", i+3, got)
			}
		}
		l.wantHeard(heard[67], "n 0")
		l.wantHeard(heard[68], "")
		l.wantCode("it asks", script.Done, all[67].ask("m"))
		l.wantHeard(heard[68], "n")
		l.wantStanding(all[69])
		l.wantReply("0", "GET", l.name)
		l.wantCode("fewer", script.Done, l.sem.Add(once("d"), -2))
		for _, w := range all[1:3] {
			l.wantCode("release", script.Done, w.release())
		}
		l.wantReply("0", "GET", l.name)
		l.wantHeard(heard[69], "")
		l.wantCode("release", script.Done, all[3].release())
		l.wantHeard(heard[69], "n")
		l.do("DEL", l.name, l.held())
	})
}

// When a permit expires, the first who asks has it, and those behind it have the others. When that is the first know, each a moment after
// the one before.
func TestPermitLineExpiry(t *testing.T) {
	inMemoryPermitLine(t, 3, func(l *permitLine) {
		for _, lease := range []time.Duration{300 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond} {
			w := l.who(1)
			l.wantCode("take", script.Done, w.Acquire(protocol.Acquire{To: 1, Lease: lease}))
		}
		var all []*wanting
		var heard []func() string
		for i := range int64(10) {
			w, hears := l.stands("n", 1, i)
			all, heard = append(all, w), append(heard, hears)
			if got, want := protocol.ReadRetry(l.standsAgain(w, "n", i)), time.Duration(201+i)*time.Millisecond; i < 8 && got > want || got < want-time.Millisecond && i < 8 || i >= 8 && got != 1001*time.Millisecond {
				t.Errorf("in place %d: %v", i, got)
			}
		}
		time.Sleep(200 * time.Millisecond)
		l.standsAgain(all[2], "m", 0) // whoever asks serves the others
		l.wantHeard(heard[0], "n")
		l.wantHeard(heard[1], "n")
		l.wantStanding(all[2:]...)
		time.Sleep(100 * time.Millisecond)
		l.wantCode("ask", script.Done, all[2].ask("m"))
		l.wantHeard(heard[2], "")
		l.wantReply("0", "GET", l.name)
		time.Sleep(2800 * time.Millisecond) // the first two have died
		l.standsAgain(all[4], "k", 1)
		l.standsAgain(all[3], "k", 0)
		time.Sleep(100 * time.Millisecond)
		l.wantCode("ask", script.Done, all[3].ask("m"))
		l.wantHeard(heard[4], "k")
		l.wantReply("0", "GET", l.name)
	})
}

// A semaphore may end before what is granted of it. Who is granted it has to know when: it asks.
func TestPermitLineEnds(t *testing.T) {
	onEveryPermitLine(t, 1, func(l *permitLine) {
		a := l.has(1)
		w, hears := l.stands("n", 1, 0)
		l.do("PEXPIRE", l.name, "2000")
		l.do("PERSIST", l.held())
		l.notOpen()
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(hears, "n 0")
		if ms, _ := strconv.Atoi(l.do("PTTL", l.held())); ms <= 0 || ms > 2000 {
			l.t.Errorf("the permits live for %d ms", ms)
		}
		reply := l.wantCode("ask", script.Done, w.ask("m"))
		if got := w.Lifetime(reply); got > 2*time.Second {
			l.t.Errorf("it lives for %v", got)
		}
	})
}

// Nobody is granted permits who does not listen, or has not asked for long. They are dropped.
func TestPermitLineDropsTheDead(t *testing.T) {
	inMemoryPermitLine(t, 2, func(l *permitLine) {
		a, b := l.has(1), l.has(1)
		deaf := l.who(2)
		l.standsAgain(deaf, "d", 0)
		time.Sleep(time.Millisecond)
		l.stands("s", 1, 1)
		alive, hears := l.stands("a", 1, 2)
		time.Sleep(3 * time.Second)
		l.standsAgain(alive, "a", 2)
		time.Sleep(time.Millisecond)
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(hears, "a")
		l.wantStanding()
		l.wantPermits(0, grantedTo(alive), b)
	})
}

// While others listen, one permit is left to them from time to time, and no more than one. They have had it if none is available.
func TestPermitLineLeavesOne(t *testing.T) {
	const ms = time.Millisecond
	inMemoryPermitLine(t, 3, func(l *permitLine) {
		shared := l.listen(protocol.SemaphoreChannel(l.name))
		a := l.has(3)
		first, firstHears := l.stands("1", 1, 0)
		second, secondHears := l.stands("2", 1, 1)
		third, thirdHears := l.stands("3", 1, 2)
		l.wantCode("release", script.Done, a.release())
		l.wantTurn(ms, time.Now().Add(3*ms))
		l.wantHeard(firstHears, "1")
		l.wantHeard(secondHears, "2")
		l.wantHeard(thirdHears, "3 1")
		l.wantHeard(shared, "1")
		l.wantPermits(1, grantedTo(first, second))
		reply := l.standsAgain(third, "4", 0)
		if got := protocol.ReadRetry(reply); got < ms || got > 4*ms {
			t.Errorf("ask in %v", got)
		}
		l.wantCode("a newcomer", script.Refused, l.who(1).Acquire(protocol.Acquire{To: 1, Lease: lineLease, WaitsLater: true}))

		// Redisson takes it, and the next release is not theirs as long as theirs lasts, but grants.
		l.do("ZADD", l.held(), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), "theirs\x4f--------9")
		l.do("DECR", l.name)
		l.standsAgain(third, "4", 0)
		l.wantTurn(0, time.Now())
		l.wantCode("release", script.Done, first.release())

		// Nobody takes it: it is the first one's at the end.
		l.do("DEL", protocol.TurnKey(l.name))
		l.do("ZREM", l.held(), "theirs\x4f--------9")
		l.do("INCR", l.name)
		time.Sleep(40 * ms)
		_ = l.send(third.ask("5"))
		l.do("SET", l.name, "0")
		last, _ := l.stands("6", 1, 0)
		l.wantCode("release", script.Done, second.release())
		l.standsAgain(last, "7", 0)
		time.Sleep(3 * ms)
		l.wantCode("theirs is over", script.Done, last.ask("8"))
	})
}

// What is left to others is not kept for them when none of them listens any more.
func TestPermitLineLeavesNothingToNobody(t *testing.T) {
	inMemoryPermitLine(t, 1, func(l *permitLine) {
		a := l.has(1)
		w, _ := l.stands("n", 1, 0)
		l.do("ZREM", l.held(), a.IDs[0])
		l.do("SET", l.name, "1")
		l.do("SET", protocol.TurnKey(l.name), fmt.Sprintf("5 %d", time.Now().UnixMilli()+20))
		l.wantCode("ask", script.Done, w.ask("m"))
	})
}

// Who stands in line hears that Redisson has some of the permits, and where to listen for them.
func TestPermitLineOfRedissons(t *testing.T) {
	onEveryPermitLine(t, 2, func(l *permitLine) {
		l.has(2)
		foreign := func(w *wanting, place int64) bool {
			l.t.Helper()
			return protocol.ReadListens(l.standsAgain(w, "n", place))
		}
		w := l.who(1)
		if foreign(w, 0) {
			l.t.Error("one of ours is taken for one of Redisson's")
		}
		for i := range 200 { // neither the first nor the last to expire
			l.do("ZADD", l.held(), fmt.Sprint(1e14+float64(i)), fmt.Sprintf("ours--\x8f-h%07d", i))
		}
		l.do("ZADD", l.held(), "9e13", "theirs\x8f--------1")
		if !foreign(w, 0) {
			l.t.Error("one of Redisson's that expires early is taken for one of ours")
		}
		l.do("ZREM", l.held(), "theirs\x8f--------1")
		l.do("ZADD", l.held(), "922337203685477", "theirs\x90-h------2")
		if !foreign(w, 0) {
			l.t.Error("one of Redisson's that never expires is taken for one of ours")
		}
	})
}

// Without rights to the line there is none, and permits are had as without it; a holder without them tells the others.
func TestPermitLineRights(t *testing.T) {
	t.Parallel()
	admin := startLine(t)
	all := &permitLine{admin, protocol.Permits{Name: admin.name}}
	l := &permitLine{admin.limited("+@all", "~NAME", "~{NAME}:timeout", "~holdfast_next:{NAME}", "~holdfast_calls:{NAME}", "&*"), all.sem}
	admin.do("SET", admin.name, "2")
	a := l.has(2)
	w := l.who(1)
	l.standsAgain(w, "n", -1)
	in, hears := all.stands("i", 1, 0)
	shared := admin.listen(protocol.SemaphoreChannel(admin.name))
	l.wantCode("release", script.Done, a.release()) // it sees no line
	all.wantHeard(shared, "2")
	all.wantPermits(2, nil)
	l.wantCode("leave", script.Done, w.Leave(w.owner))
	other := all.who(2)
	all.wantCode("who asks serves", script.Refused, other.try())
	all.wantHeard(hears, "i")
	all.wantPermits(1, grantedTo(in))
	l.wantCode("inspect", script.Done, l.sem.Inspect())
	l.wantCode("set", script.Done, l.sem.Set(protocol.Once{ID: "a", TTL: time.Second}, 3, true))
	l.wantCode("take", script.Done, w.try())
	l.wantCode("release", script.Done, w.release())
}

// A permit that is kept for one who waits outside of the line is not granted to those in it.
func TestPermitLineOutside(t *testing.T) {
	inMemoryPermitLine(t, 2, func(l *permitLine) {
		a, b := l.has(1), l.has(1)
		outside := l.who(2)
		waits := outside.Acquire(protocol.Acquire{Owner: outside.owner, To: 1, Lease: lineLease, Waiting: true})
		l.wantCode("wait", script.Refused, waits)
		in, hears := l.stands("n", 1, 0)
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(hears, "")
		l.wantPermits(1, nil, b)
		l.wantCode("release", script.Done, b.release())
		l.wantCode("wait", script.Done, waits)
		l.wantCode("release", script.Done, outside.release())
		l.wantHeard(hears, "n")
		l.wantPermits(1, grantedTo(in))
	})
}

// Who has what it waits for by another call, which has no number or is an early one that comes late, is not granted it once more.
func TestPermitLineIsGrantedOnce(t *testing.T) {
	inMemoryPermitLine(t, 2, func(l *permitLine) {
		a, b := l.has(1), l.has(1)
		w, _ := l.stands("n", 1, 0)
		l.do("SET", protocol.TurnKey(l.name), fmt.Sprintf("5 %d", time.Now().UnixMilli()+20))
		l.listen(protocol.SemaphoreChannel(l.name))
		l.do("ZREM", l.held(), a.IDs[0])
		l.do("SET", l.name, "1")
		l.wantCode("without a number", script.Done, w.Acquire(protocol.Acquire{Owner: w.owner, To: 1, Lease: lineLease, Waiting: true}))
		l.wantStanding()

		l.wantCode("release", script.Done, w.release())
		l.notOpen()
		l.wantCode("take", script.Done, a.try())
		for _, lease := range []time.Duration{time.Second, lineLease} {
			again, hears := l.stands("m", 1, 0)
			l.do("ZREM", l.held(), a.IDs[0])
			l.do("INCR", l.name)
			l.do("SET", protocol.TurnKey(l.name), fmt.Sprintf("5 %d", time.Now().UnixMilli()+20))
			l.wantCode("late", script.Done, again.Acquire(protocol.Acquire{To: 1, Lease: lease}))
			l.notOpen()
			l.wantCode("release", script.Done, b.release())
			l.wantHeard(hears, "m")
			l.wantReply("1", "GET", l.name)
			if lease < 3*time.Second {
				l.wantPermits(1, grantedTo(again))
			} else {
				l.wantPermits(1, nil, again)
			}
			l.wantCode("release", script.Done, again.release())
			l.wantCode("take", script.Done, a.try())
			l.wantCode("take", script.Done, b.try())
		}
	})
}

// Whom permits are kept for has them though it stands behind another one: the server's clock has been set back, say.
func TestPermitLineOfOneFurtherBehind(t *testing.T) {
	inMemoryPermitLine(t, 4, func(l *permitLine) {
		a := l.has(4)
		many, manyHears := l.stands("m", 3, 0)
		two, twoHears := l.stands("t", 2, 1)
		l.do("ZADD", l.line(), "1", two.owner)
		l.wantCode("release", script.Done, a.release())
		l.wantHeard(manyHears, "m")
		l.wantHeard(twoHears, "")
		l.wantPermits(1, grantedTo(many))
		l.wantStanding(two)
	})
}
