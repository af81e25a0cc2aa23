package scripts

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A release of a fair lock grants it to the first in line. The scripts are asked directly here, as those of a plain lock are in
// line_scripts_test.go; what waiters make of it is in package line, for both kinds.

// fairLine is a fair lock whose scripts are asked.
type fairLine struct {
	*linedUp

	fair protocol.Fair
}

func onEveryFairLine(t *testing.T, f func(l fairLine)) {
	t.Helper()
	onEveryLine(t, func(l *linedUp) { f(fairly(l)) })
}

func fairly(l *linedUp) fairLine { return fairLine{l, protocol.Fair{Mutex: l.Mutex}} }

func (l fairLine) queue() string         { return protocol.FairQueueKey(l.name) }
func (l fairLine) own(who string) string { return protocol.WaiterChannel(l.name, who) }

func (l fairLine) asking(owner, number string) script.Request {
	return l.fair.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease, Waiting: true, Number: number})
}

func (l fairLine) trying(owner string) script.Request {
	return l.fair.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease})
}

// held has an owner take the lock.
func (l fairLine) held() (owner string) {
	l.t.Helper()
	owner = l.owner()
	l.wantCode("take", script.Done, l.trying(owner))
	return owner
}

// inLine has a new owner ask with a number, if it has one, and returns it when it stands in line.
func (l fairLine) inLine(number string) (owner string) {
	l.t.Helper()
	owner = l.owner()
	reply := l.wantCode("ask "+number, script.Refused, l.asking(owner, number))
	if place, _ := protocol.ReadPlace(reply); place < 0 && number != "" {
		l.t.Errorf("ask %s: no place", number)
	}
	return owner
}

// theirs has one of Redisson's stand in line.
func (l fairLine) theirs() (owner string) {
	l.t.Helper()
	owner = l.redisson()
	l.do("RPUSH", l.queue(), owner)
	l.do("ZADD", protocol.FairTimeoutsKey(l.name), strconv.FormatInt(l.now()+300_000, 10), owner)
	return owner
}

// now is the server's time.
func (l fairLine) now() int64 {
	l.t.Helper()
	seconds, _, _ := strings.Cut(l.do("TIME"), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	kit.OK(l.t, err)
	return n * 1000
}

// wantLine checks who stands in line, by each of its keys that knows of all, and who has asked with a number.
func (l fairLine) wantLine(owners ...string) {
	l.t.Helper()
	l.wantReply(strings.Join(owners, " "), "LRANGE", l.queue(), "0", "-1")
	l.wantReply(fmt.Sprint(len(owners)), "ZCARD", protocol.FairTimeoutsKey(l.name))
	if len(owners) == 0 {
		l.wantReply("0", "EXISTS", protocol.FairHeartbeatsKey(l.name), l.asks())
	}
}

func (l fairLine) release(owner string) {
	l.t.Helper()
	l.wantCode("release", script.Done, l.fair.Release(owner, 1, 0))
}

// The first has the lock, and is told with the number of its last ask. Nothing is left of it in line.
func TestFairGrantRelease(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		holder := l.held()
		first, second := l.inLine("a"), l.inLine("b")
		l.wantCode("ask again", script.Refused, l.asking(first, "c"))
		hear, other := l.listen(l.grants(first)), l.listen(l.grants(second))
		l.wantLine(first, second)
		l.release(holder)
		l.wantHeld(first, 3*time.Second)
		l.wantHeard(hear, "c")
		l.wantLine(second)
		l.wantReply(second, "HKEYS", l.asks())
		l.wantCode("ask of the holder", script.Done, l.asking(first, "d"))
		l.wantHeld(first, lineLease)
		l.wantLine(second)
		l.release(first)
		l.wantHeld(second, 3*time.Second)
		l.wantHeard(other, "b")
		l.wantLine()
		l.release(second)
		l.wantFree()
	})
}

// One who does not listen, or has not asked with a number, keeps its place, and nobody is let in before it. It is told, wherever it may
// hear.
func TestFairGrantTells(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		for _, number := range []string{"a", ""} {
			holder := l.held()
			first, second := l.inLine(number), l.inLine("b")
			own, listens := l.listen(l.own(first)), l.listen(l.grants(second))
			l.release(holder)
			l.wantFree()
			l.wantLine(first, second)
			l.wantCode("try", script.Refused, l.trying(l.owner()))
			l.wantCode("ask", script.Refused, l.asking(second, "c"))
			if number == "" {
				l.wantHeard(own, "0, 0, 0")
			} else {
				l.wantHeard(own, "")
			}
			l.wantCode("ask", script.Done, l.asking(first, ""))
			l.wantHeld(first, lineLease)
			l.wantLine(second)
			l.release(first)
			l.wantHeld(second, 3*time.Second)
			l.wantHeard(listens, "c")
			l.release(second)
			l.wantLine()
		}
	})
}

// One of Redisson's is told as by Redisson, and the lock is kept for it. Who waits with it hears that it is to listen, too.
func TestFairGrantRedisson(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		holder := l.held()
		before := l.inLine("a")
		java := l.theirs()
		behind := l.inLine("b")
		hear, own, listens := l.listen(l.own(java)), l.listen(l.grants(before)), l.listen(l.grants(behind))
		for owner, number := range map[string]string{before: "a", behind: "b"} {
			if !protocol.ReadListens(l.wantCode("ask", script.Refused, l.asking(owner, number))) {
				l.t.Error("it is not told that one of Redisson's stands there, too")
			}
		}
		l.wantReply("-1", "PTTL", l.queue())
		l.release(holder)
		l.wantHeld(before, 3*time.Second)
		l.wantHeard(own, "a")
		l.release(before)
		l.wantFree()
		l.wantHeard(hear, "0")
		l.wantCode("try", script.Refused, l.trying(l.owner()))
		l.wantLine(java, behind)
		l.do("HSET", l.name, java, "1") // it comes
		l.do("LPOP", l.queue())
		l.do("ZREM", protocol.FairTimeoutsKey(l.name), java)
		if !protocol.ReadListens(l.wantCode("ask", script.Refused, l.asking(behind, "b"))) {
			l.t.Error("it is not told that one of Redisson's holds the lock")
		}
		l.do("DEL", l.name)
		l.wantHeard(listens, "")
		l.wantCode("ask", script.Done, l.asking(behind, "b"))
		l.wantLine()
	})
}

// Who leaves gives back what it was granted, to the next one. So does one that was told, and has not come.
func TestFairGrantLeave(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		holder := l.held()
		first, second, third, last := l.inLine("a"), l.inLine("b"), l.inLine("c"), l.inLine("d")
		for _, owner := range []string{first, second, third, last} {
			l.listen(l.grants(owner))
		}
		l.release(holder)
		l.wantHeld(first, 3*time.Second)
		l.wantCode("leave", script.Done, l.fair.Leave(first))
		l.wantHeld(second, 3*time.Second)
		l.wantCode("leave", script.Refused, l.fair.Leave(first))
		l.wantHeld(second, 3*time.Second)
		l.do("DEL", l.name)
		l.wantCode("try", script.Refused, l.trying(l.owner())) // and the third is told
		l.wantCode("leave", script.Done, l.fair.Leave(third))
		l.wantHeld(last, 3*time.Second)
		l.wantLine()
		l.wantCode("leave", script.Done, l.fair.Leave(last))
		l.wantFree()
	})
}

// A lock that was taken away is the next one's. One that is kept from others is not, and the first may see until when.
func TestFairGrantForceAndRetain(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		holder := l.held()
		first, second := l.inLine("a"), l.inLine("b")
		told, hear, other := l.listen(l.own(holder)), l.listen(l.grants(first)), l.listen(l.grants(second))
		l.wantCode("force", script.Done, l.fair.Force([]string{holder}))
		l.wantHeard(told, "0")
		l.wantHeld(first, 3*time.Second)
		l.wantHeard(hear, "a")
		nobody := l.owner()
		l.wantCode("retain", script.Done, l.fair.Retain(first, 1, nobody, time.Second))
		l.wantHeld(nobody, time.Second)
		l.wantHeard(other, "b 0")
		l.wantLine(second)
	})
}

// A release that finds more dead ones than it may drop grants the lock to nobody behind them, but has one ask who drops more.
func TestFairGrantBehindManyDead(t *testing.T) {
	onEveryFairLine(t, func(l fairLine) {
		holder := l.held()
		for i := range 250 {
			l.do("RPUSH", l.queue(), fmt.Sprintf("ffffffff-0000-8000-8000-000000000000:%d", i))
		}
		first, second := l.inLine("a"), l.inLine("b")
		hear := []func() string{l.listen(l.grants(first)), l.listen(l.grants(second))}
		l.release(holder)
		l.wantFree()
		if a, b := hear[0](), hear[1](); a+b != "a 0" && a+b != "b 0" {
			l.t.Errorf("heard %q and %q", a, b)
		}
		l.wantReply("52", "LLEN", l.queue())
		l.wantCode("ask", script.Refused, l.asking(second, "b"))
		l.wantCode("ask", script.Done, l.asking(first, "a"))
		l.wantLine(second)
	})
}

// The first eight ask every 1.5 s, the others so that all together ask some hundred times a second. Each is believed for three times as
// long. The dead are not counted.
func TestFairGrantHints(t *testing.T) {
	inMemoryLine(t, func(lined *linedUp) { // a real server may take so long for all that the first are dead
		l := fairly(lined)
		l.held()
		for i := range 400 {
			owner, at := l.owner(), l.now()
			retry := protocol.ReadRetry(l.send(l.asking(owner, "n")))
			again := protocol.ReadRetry(l.send(l.asking(owner, "n")))
			want := 1500 * time.Millisecond
			if i >= 8 {
				want = max(want, time.Duration(i+1)*12*time.Millisecond)
			}
			if again != want+time.Millisecond || retry > want+time.Millisecond {
				l.t.Errorf("place %d asks after %v, and then after %v, want %v", i, retry, again, want)
			}
			score, err := strconv.ParseFloat(l.do("ZSCORE", protocol.FairHeartbeatsKey(l.name), owner), 64)
			if lives := score - float64(at); err != nil || lives < float64(3*want.Milliseconds()) || lives > float64(3*want.Milliseconds()+5000) {
				l.t.Errorf("place %d is believed for %v ms, %v", i, lives, err)
			}
		}
		for owner := range strings.FieldsSeq(l.do("LRANGE", l.queue(), "0", "390")) {
			l.do("ZADD", protocol.FairHeartbeatsKey(l.name), "1", owner)
		}
		last := l.inLine("n")
		if again := protocol.ReadRetry(l.send(l.asking(last, "n"))); again > 1501*time.Millisecond {
			l.t.Errorf("beside the dead it asks after %v", again)
		}
	})
}

// A clock that is set back makes nobody live for longer, and drops nobody.
func TestFairGrantClockSetBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		l := fairly(&linedUp{protocol.NewMutex("x"), t, "x", w.Server.Driver(), nil, "PUBLISH", w.Do})
		l.held()
		var line []string
		for range 200 {
			line = append(line, l.inLine("n"))
		}
		time.Sleep(time.Second)
		w.Server.SetClock(-time.Hour)
		w.Do("DEL", "x")
		last := line[199]
		l.wantCode("ask", script.Refused, l.asking(last, "n"))
		l.wantLine(line...)
		for range 2 {
			time.Sleep(2400 * time.Millisecond)
			l.wantCode("ask", script.Refused, l.asking(last, "n"))
		}
		time.Sleep(2400 * time.Millisecond)
		l.wantCode("ask", script.Done, l.asking(last, "n")) // three times 2.4 s at most, and not an hour
		w.Do("FLUSHALL")
	})
}

// Without rights to the asks there are no numbers, and all is as with those who do not listen; without that to publish, who is
// granted the lock finds out by asking.
func TestFairGrantRights(t *testing.T) {
	t.Parallel()
	t.Run("keys", func(t *testing.T) {
		l := fairly(startLine(t).limited("+@all", "&*", "~NAME",
			"~redisson_lock_queue:{NAME}", "~redisson_lock_timeout:{NAME}", "~holdfast_lock_waiting:{NAME}"))
		holder, owner := l.held(), l.owner()
		own, hear := l.listen(l.own(owner)), l.listen(l.grants(owner))
		if place, _ := protocol.ReadPlace(l.wantCode("ask", script.Refused, l.asking(owner, "n"))); place >= 0 {
			l.t.Error("it has a place")
		}
		l.release(holder)
		l.wantFree()
		l.wantHeard(own, "0")
		l.wantHeard(hear, "")
		l.wantCode("ask", script.Done, l.asking(owner, "n"))
		l.wantCode("force", script.Done, l.fair.Force([]string{owner}))
		l.wantCode("leave", script.Refused, l.fair.Leave(owner))
		l.wantLine()
	})
	withoutPublishing(t, func(own, admin *linedUp) {
		l := fairly(own)
		holder, first := l.held(), l.inLine("n")
		l.wantUntold(l.fair.Release(holder, 1, 0), first, admin.listen(admin.grants(first)))
		l.wantCode("ask", script.Done, l.asking(first, "m"))
		l.wantHeld(first, lineLease)
	})
}

// Messages that belong to a shard are those of one lock.
func TestFairGrantSharded(t *testing.T) {
	onShards(t, func(lined *linedUp, first string) {
		l := fairly(lined)
		holder := l.held()
		l.wantCode("ask", script.Refused, l.asking(first, "n"))
		l.release(holder)
		l.wantHeld(first, 3*time.Second)
	})
}
