package scripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The scripts of the line are asked directly here, by owners whose clients do nothing else.

// linedUp is a lock, and the server where those who wait for it stand in line.
type linedUp struct {
	*protocol.Mutex

	t       *testing.T
	name    string
	driver  driver.Driver
	server  *redistest.Server // nil: in memory
	publish string            // the command
	do      func(args ...string) string
}

// inMemoryLine runs f on the server in memory, under fake time.
func inMemoryLine(t *testing.T, f func(l *linedUp)) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		f(&linedUp{protocol.NewMutex("x"), t, "x", w.Server.Driver(), nil, "PUBLISH", w.Do})
		w.Do("FLUSHALL")
	})
}

// realLine returns one on a server.
func realLine(t *testing.T, s *redistest.Server) *linedUp {
	t.Helper()
	do, name := kit.Direct(t, s), kit.Fresh()
	d := kit.GoRedis("line", redis.UniversalOptions{Addrs: []string{s.Addr()}}, nil).Open(t)
	return &linedUp{protocol.NewMutex(name), t, name, d, s, "PUBLISH", func(args ...string) string {
		t.Helper()
		return strings.Join(do(t, "", args...), " ")
	}}
}

// startLine returns one on a server of its own.
func startLine(t *testing.T) *linedUp {
	t.Helper()
	return realLine(t, redistest.Start(t))
}

// onEveryLine runs f on the server in memory, and on a real one.
func onEveryLine(t *testing.T, f func(l *linedUp)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { inMemoryLine(t, f) })
	t.Parallel() // fake time is not for tests beside those on real servers: see faketime.Test
	t.Run("redis", func(t *testing.T) { f(startLine(t)) })
}

func (l *linedUp) line() string { return protocol.Prefixed("holdfast_line", l.name) }
func (l *linedUp) asks() string { return protocol.Prefixed("holdfast_asks", l.name) }

// lining counts the owners of these tests, each of a client of its own.
var lining atomic.Int64

// owner returns a new one, later ones later in the alphabet.
func (l *linedUp) owner() string {
	return fmt.Sprintf("%08d-0000-8000-8000-000000000000:1", lining.Add(1))
}

// redisson returns an owner that is a client of Redisson's.
func (l *linedUp) redisson() string {
	return fmt.Sprintf("%08d-0000-4000-8000-000000000000:1", lining.Add(1))
}

// grants is the channel where the client of an owner listens.
func (l *linedUp) grants(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	return protocol.GrantChannel(id, l.name, l.publish == "SPUBLISH")
}

func (l *linedUp) send(r script.Request) script.Reply {
	l.t.Helper()
	raw, err := l.driver.Eval(background, driver.Call{
		Script: r.Script, Keys: r.Keys, Args: append([]string{"0", r.Channel, l.publish}, r.Args...),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	reply, err := script.Parse(raw)
	if err != nil {
		l.t.Fatal(err)
	}
	return reply
}

func (l *linedUp) wantCode(what string, want script.Code, r script.Request) script.Reply {
	l.t.Helper()
	reply := l.send(r)
	if reply.Code != want {
		l.t.Errorf("%s: code %d %v, want %d", what, reply.Code, reply.Rest, want)
	}
	return reply
}

func (l *linedUp) wantReply(want string, args ...string) {
	l.t.Helper()
	if got := l.do(args...); got != want {
		l.t.Errorf("%v = %q, want %q", args, got, want)
	}
}

const lineLease = 30 * time.Second

// ask is the request of one who stands in line if it is refused.
func (l *linedUp) ask(owner, number string) script.Request {
	return l.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease, Number: number})
}

// try is the request of one who does not.
func (l *linedUp) try(owner string) script.Request {
	return l.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease})
}

// release is that of a holder who counts listeners, and does not listen itself.
func (l *linedUp) release(owner string) script.Request {
	return protocol.CountingListeners(l.Release(owner, 1, 0), false)
}

// held has an owner take the lock.
func (l *linedUp) held() (owner string) {
	l.t.Helper()
	owner = l.owner()
	l.wantCode("take", script.Done, l.try(owner))
	return owner
}

// stand has an owner ask, who is refused and stands in line, and returns for how long not to ask again.
func (l *linedUp) stand(owner, number string, place int64) time.Duration {
	l.t.Helper()
	reply := l.wantCode("ask "+number, script.Refused, l.ask(owner, number))
	if got, _ := protocol.ReadPlace(reply); got != place {
		l.t.Errorf("ask %s: place %d, want %d", number, got, place)
	}
	return protocol.ReadRetry(reply)
}

// inLine returns a new owner that stands in line.
func (l *linedUp) inLine(number string, place int64) (owner string) {
	l.t.Helper()
	owner = l.owner()
	l.stand(owner, number, place)
	return owner
}

// listen has somebody listen, and returns what it has heard since it was asked last.
func (l *linedUp) listen(channel string) (heard func() string) {
	l.t.Helper()
	events := make(chan driver.Event, 100)
	listener := l.driver.Listen(func(e driver.Event) { events <- e })
	l.t.Cleanup(listener.Close)
	listener.Subscribe(channel)
	for e := range events {
		if e.Kind == driver.Subscribed {
			break
		}
	}
	return func() string {
		l.t.Helper()
		l.do("PUBLISH", channel, "no more")
		var all []string
		for e := range events {
			if e.Payload == "no more" {
				break
			}
			all = append(all, e.Payload)
		}
		return strings.Join(all, ", ")
	}
}

func (l *linedUp) wantHeard(heard func() string, want string) {
	l.t.Helper()
	if got := heard(); got != want {
		l.t.Errorf("heard %q, want %q", got, want)
	}
}

// wantHeld checks who holds the lock, and that it lives for so long, or a second less at a real server.
func (l *linedUp) wantHeld(owner string, lives time.Duration) {
	l.t.Helper()
	l.wantReply(owner+" 1", "HGETALL", l.name)
	ms, err := strconv.Atoi(l.do("PTTL", l.name))
	if d := time.Duration(ms) * time.Millisecond; err != nil || d > lives || d < lives-time.Second {
		l.t.Errorf("it lives for %v, %v, want %v", d, err, lives)
	}
}

func (l *linedUp) wantFree() {
	l.t.Helper()
	l.wantReply("0", "EXISTS", l.name)
}

func (l *linedUp) wantLine(owners ...string) {
	l.t.Helper()
	l.wantReply(strings.Join(owners, " "), "ZRANGE", l.line(), "0", "-1")
	if len(owners) == 0 {
		l.wantReply("0", "EXISTS", l.line(), l.asks())
	}
}

// notOpen has no release leave the lock to those who do not stand in line, until the line is empty.
func (l *linedUp) notOpen() {
	l.t.Helper()
	l.do("SET", protocol.TurnKey(l.name), fmt.Sprintf("%d %d", time.Hour.Milliseconds(), time.Now().UnixMilli()), "PX", "1000")
}

// wantAsk checks what stands of an owner's last ask, and that it is believed to live for so long after a moment.
func (l *linedUp) wantAsk(owner string, at int64, number, grant string, lives time.Duration, scattered string) {
	l.t.Helper()
	l.wantReply(fmt.Sprintf("%s %s %d %s", number, grant, at+lives.Milliseconds(), scattered), "HGET", l.asks(), owner)
}

func TestLineScriptStand(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		l.held()
		a, b := l.owner(), l.owner()
		ask := func(owner, number string, place int64, args protocol.Acquire) int64 {
			args.Owner, args.To, args.Number = owner, 1, number
			reply := l.wantCode(number, script.Refused, l.Acquire(args))
			if got, _ := protocol.ReadPlace(reply); got != place {
				l.t.Errorf("%s: place %d, want %d", number, got, place)
			}
			return reply.Now
		}
		now := ask(b, "b1", 0, protocol.Acquire{Lease: lineLease})
		l.wantAsk(b, now, "b1", "3000", 3*time.Second, "0")
		score := l.do("ZSCORE", l.line(), b)
		time.Sleep(time.Microsecond)
		now = ask(a, "a1", 1, protocol.Acquire{Lease: time.Second, Scattered: true})
		l.wantAsk(a, now, "a1", "1000", 3*time.Second, "1") // no grant is longer than the lease
		time.Sleep(time.Millisecond)

		now = ask(b, "b2", 0, protocol.Acquire{Lease: lineLease})
		l.wantAsk(b, now, "b2", "3000", 3*time.Second, "0")
		l.wantReply(score, "ZSCORE", l.line(), b) // the place is kept
		l.wantLine(b, a)
		for _, key := range []string{l.line(), l.asks()} {
			if ms, _ := strconv.Atoi(l.do("PTTL", key)); ms > 120000 || ms < 110000 {
				l.t.Errorf("%s lives for %d ms", key, ms)
			}
		}
		ask(l.owner(), "c1", 2, protocol.Acquire{Lease: lineLease, Token: true}) // an argument more
		reply := l.send(l.Inspect())
		if state, err := protocol.ReadState(reply); err != nil || len(state.Waiters) != 3 || state.Waiters[0] != b {
			l.t.Errorf("inspect: %+v, %v", state, err)
		}
	})
}

// The first ask often, and when the key ends; the others ask more seldom the more they are. Who does so is believed to live three
// times as long.
func TestLineScriptHints(t *testing.T) {
	inMemoryLine(t, func(l *linedUp) {
		owner := l.owner()
		lease := func(d time.Duration) {
			l.wantCode("take", script.Done, l.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: d}))
		}
		wantHint := func(number string, place int64, want time.Duration) (who string) {
			l.t.Helper()
			who = l.owner()
			if got := l.stand(who, number, place); got != want+time.Millisecond { // one more than the script says
				l.t.Errorf("in place %d: ask in %v, want %v", place, got, want)
			}
			return who
		}
		lease(600 * time.Millisecond)
		wantHint("0", 0, 600*time.Millisecond)
		wantHint("1", 1, 650*time.Millisecond)
		lease(lineLease)
		var eighth string
		for place := range int64(6) {
			eighth = wantHint("n", 2+place, time.Second)
		}
		now, ninth := time.Now().Truncate(time.Millisecond), l.owner()
		if got := l.stand(ninth, "n", 8); got > time.Second+time.Millisecond { // at any time until then
			l.t.Errorf("in place 8: ask in %v", got)
		}
		l.wantAsk(ninth, now.UnixMilli(), "n", "3000", 3*time.Second, "0")
		for i := range 991 {
			l.do("ZADD", l.line(), "9e15", fmt.Sprint("other:", i))
		}
		if got := l.stand(ninth, "m", 8); got != 12001*time.Millisecond {
			l.t.Errorf("of 1000: ask in %v", got)
		}
		if got := l.stand(eighth, "m", 7); got != 1001*time.Millisecond {
			l.t.Errorf("in place 7 of 1000: ask in %v", got)
		}
		l.wantAsk(ninth, time.Now().UnixMilli(), "m", "3000", 36*time.Second, "0")
	})
}

// A release grants to the first, by the number of its last ask, for as long as it wants; the last one is told to all.
func TestLineScriptRelease(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		all := l.listen(protocol.LockChannel(l.name))
		l.notOpen()
		holder := l.held()
		last, first := l.owner(), l.owner()
		lastHears, firstHears := l.listen(l.grants(last)), l.listen(l.grants(first))
		l.stand(first, "f1", 0)
		time.Sleep(time.Microsecond)
		l.wantCode("ask", script.Refused, l.Acquire(protocol.Acquire{Owner: last, To: 1, Lease: 900 * time.Millisecond, Number: "l1"}))
		l.stand(first, "f2", 0)

		granted := func(what string, r script.Request, want bool) {
			l.t.Helper()
			heard, got := protocol.ReadHeard(l.wantCode(what, script.Done, r))
			if got != want || heard != 0 && want || heard != 1 && !want {
				l.t.Errorf("%s: granted %v, %d have heard", what, got, heard)
			}
		}
		granted("release", l.release(holder), true)
		l.wantHeard(firstHears, "f2")
		l.wantHeard(lastHears, "")
		l.wantHeld(first, 3*time.Second)
		l.wantLine(last)
		l.wantReply("0", "HEXISTS", l.asks(), first)
		l.wantCode("release again", script.Refused, l.release(holder))
		l.wantCode("ask of the holder", script.Done, l.ask(first, "m"))
		l.wantHeld(first, lineLease)
		l.wantCode("ask with a shorter lease", script.Done, l.Acquire(protocol.Acquire{Owner: first, To: 1, Lease: time.Second, Number: "k"}))
		l.wantHeld(first, lineLease)

		granted("the first's release", l.release(first), true)
		l.wantHeard(lastHears, "l1")
		l.wantHeld(last, 900*time.Millisecond) // as long as it wants
		l.wantLine()
		l.wantHeard(all, "")

		granted("the last's release", l.release(last), false)
		l.wantHeard(all, protocol.Released)
		l.wantHeard(firstHears, "")
		l.wantFree()
	})
}

// Who does not listen is dropped: so many at most, then the lock is free.
func TestLineScriptDropsTheDeaf(t *testing.T) {
	inMemoryLine(t, func(l *linedUp) { // a real server may take so long for all that they have not asked for too long
		all := l.listen(protocol.LockChannel(l.name))
		row := func(deaf int) (last string, heard func() string) {
			l.notOpen()
			for i := range deaf {
				l.inLine("deaf", int64(i))
			}
			last = l.owner()
			heard = l.listen(l.grants(last))
			l.stand(last, "last", int64(deaf))
			return last, heard
		}
		holder := l.held()
		last, heard := row(31)
		l.wantCode("release", script.Done, l.release(holder))
		l.wantHeld(last, 3*time.Second)
		l.wantHeard(heard, "last")
		l.wantHeard(all, "")
		l.wantLine()

		holder = last
		last, heard = row(32)
		_, granted := protocol.ReadHeard(l.wantCode("release", script.Done, l.release(holder)))
		if l.wantFree(); granted {
			l.t.Error("it says that it was granted")
		}
		l.wantHeard(heard, "")
		l.wantHeard(all, protocol.Released)
		l.wantLine(last)
		if n := l.do("HLEN", l.asks()); n != "1" {
			l.t.Errorf("%s asks are left", n)
		}

		// Who takes a free lock past more of them than are dropped at once does not stand in line any more.
		l.wantCode("leave", script.Done, l.Leave(last))
		l.held()
		last, _ = row(40)
		l.do("DEL", l.name)
		l.wantCode("ask", script.Done, l.ask(last, "again"))
		l.wantReply("0", "HEXISTS", l.asks(), last)
		if standing := l.do("ZRANGE", l.line(), "0", "-1"); strings.Contains(standing, last) || l.do("ZCARD", l.line()) != "8" {
			l.t.Errorf("in line stand %s", standing)
		}
	})
}

// Who has not asked for too long is dropped, though its client listens.
func TestLineScriptDropsTheSilent(t *testing.T) {
	inMemoryLine(t, func(l *linedUp) {
		for silent, granted := range map[time.Duration]bool{3 * time.Second: true, 3*time.Second + time.Millisecond: false} {
			holder, owner := l.held(), l.owner()
			heard := l.listen(l.grants(owner))
			l.stand(owner, "n", 0)
			time.Sleep(silent)
			l.wantCode("release", script.Done, l.release(holder))
			if granted {
				l.wantHeld(owner, 3*time.Second)
				l.wantHeard(heard, "n")
				l.wantCode("release", script.Done, l.release(owner))
			}
			l.wantFree()
			l.wantHeard(heard, "")
			l.wantLine()
		}
	})
}

// Who finds the lock free takes it if it is the first of those who hear, and else grants it to that one.
func TestLineScriptOfAFreeLock(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		again := func(owner string) script.Request { return l.ask(owner, "again") }
		third := l.owner()
		for what, row := range map[string]struct {
			ask   func(first, second string) script.Request
			code  script.Code
			lives time.Duration // the first's hold
			heard string        // by the first
			line  []string      // behind the second
		}{
			"the first asks": {
				func(first, _ string) script.Request { return again(first) }, script.Done, lineLease, "", nil,
			},
			"the second asks": {
				func(_, second string) script.Request { return again(second) }, script.Refused, 3 * time.Second, "n1", nil,
			},
			"a third asks": {
				func(_, _ string) script.Request { return again(third) }, script.Refused, 3 * time.Second, "n1", []string{third},
			},
			"somebody tries": {
				func(_, _ string) script.Request { return l.try(l.owner()) }, script.Refused, 3 * time.Second, "n1", nil,
			},
		} {
			l.held()
			deaf, first, second := l.owner(), l.owner(), l.owner()
			hears := l.listen(l.grants(first))
			l.listen(l.grants(second))
			for i, owner := range []string{deaf, first, second} {
				l.stand(owner, fmt.Sprint("n", i), int64(i))
				time.Sleep(time.Microsecond)
			}
			l.do("DEL", l.name)
			reply := l.wantCode(what, row.code, row.ask(first, second))
			if got := protocol.ReadRefusal(reply).Holder; row.code == script.Refused && got != first {
				l.t.Errorf("%s: held by %q, want %q", what, got, first)
			}
			l.wantHeld(first, row.lives)
			l.wantHeard(hears, row.heard)
			l.wantLine(append([]string{second}, row.line...)...)
			l.do("DEL", l.name, l.line(), l.asks())
		}

		// The deaf keep nobody out.
		for what, request := range map[string]func(string) script.Request{
			"TryLock": l.try, "ask": func(owner string) script.Request { return l.ask(owner, "n") },
		} {
			l.held()
			l.inLine("deaf", 0)
			l.inLine("deaf", 1)
			l.do("DEL", l.name)
			owner := l.owner()
			l.wantCode(what, script.Done, request(owner))
			l.wantHeld(owner, lineLease)
			l.wantLine()
			l.do("DEL", l.name)
		}
	})
}

func TestLineScriptLeave(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		all := l.listen(protocol.LockChannel(l.name))
		l.notOpen()
		holder, a, b, c := l.held(), l.owner(), l.owner(), l.owner()
		aHears, bHears := l.listen(l.grants(a)), l.listen(l.grants(b))
		for i, owner := range []string{a, b, c} {
			l.stand(owner, fmt.Sprint("n", i), int64(i))
			time.Sleep(time.Microsecond)
		}
		l.wantCode("out of the line", script.Done, l.Leave(c))
		l.wantCode("once more", script.Refused, l.Leave(c))
		l.wantCode("who never stood there", script.Refused, l.Leave(l.owner()))
		l.wantReply("0", "HEXISTS", l.asks(), c)
		l.wantLine(a, b)
		l.wantHeld(holder, lineLease)

		l.wantCode("release", script.Done, l.release(holder))
		l.wantCode("leave of who is granted the lock", script.Done, l.Leave(a))
		l.wantHeard(aHears, "n0")
		l.wantHeard(bHears, "n1")
		l.wantHeld(b, 3*time.Second)
		l.wantCode("leave that comes again", script.Refused, l.Leave(a))
		l.wantHeld(b, 3*time.Second)
		l.wantHeard(all, "")

		l.wantCode("leave of the last", script.Done, l.Leave(b))
		l.wantFree()
		l.wantLine()
		l.wantHeard(all, protocol.Released)

		// Of a lock that was deleted, the next in line.
		l.held()
		l.notOpen()
		l.stand(a, "a", 0)
		time.Sleep(time.Microsecond)
		l.stand(b, "b", 1)
		l.do("DEL", l.name)
		l.wantCode("leave", script.Done, l.Leave(a))
		l.wantHeld(b, 3*time.Second)
		l.wantHeard(bHears, "b")
		l.wantHeard(aHears, "")

		// A hold with another one nested in it was not just granted.
		l.wantCode("nest", script.Done, l.Acquire(protocol.Acquire{Owner: b, From: 1, To: 2, Lease: lineLease}))
		l.wantCode("leave", script.Refused, l.Leave(b))
		l.wantReply(b+" 2", "HGETALL", l.name)
	})
}

func TestLineScriptForce(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		all := l.listen(protocol.LockChannel(l.name))
		holder, owner := l.held(), l.owner()
		heard := l.listen(l.grants(owner))
		l.stand(owner, "n", 0)
		l.wantCode("force of another", script.Refused, l.Force([]string{owner}))
		l.wantHeld(holder, lineLease)
		l.wantCode("force", script.Done, l.Force([]string{owner, holder}))
		l.wantHeld(owner, 3*time.Second)
		l.wantHeard(heard, "n")
		l.wantHeard(all, protocol.Released) // the holder listens there
		l.wantLine()
	})
}

// Who keeps the lock from others tells the first of the line to ask, who hears so for how long.
func TestLineScriptRetain(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		holder, owner, nobody := l.held(), l.owner(), l.owner()
		heard := l.listen(l.grants(owner))
		l.stand(owner, "n", 0)
		l.wantCode("retain", script.Done, l.Retain(holder, 1, nobody, 5*time.Second))
		l.wantHeld(nobody, 5*time.Second)
		l.wantHeard(heard, "n 0")
		l.wantLine(owner)
	})
}

// wantTurn checks until when the lock is left to others, and how long after that the next time is.
func (l *linedUp) wantTurn(pause time.Duration, left time.Time) {
	l.t.Helper()
	l.wantReply(fmt.Sprintf("%d %d", pause.Milliseconds(), left.UnixMilli()), "GET", protocol.TurnKey(l.name))
}

// While somebody listens who does not stand in line, the lock is left to it from time to time: more seldom, and for longer, while
// nobody takes it.
func TestLineScriptOpenRelease(t *testing.T) {
	const ms = time.Millisecond
	inMemoryLine(t, func(l *linedUp) {
		all := l.listen(protocol.LockChannel(l.name))
		var owners []string
		var heard []func() string
		for range 3 {
			owners = append(owners, l.owner())
			heard = append(heard, l.listen(l.grants(owners[len(owners)-1])))
		}
		turns := 0
		l.wantCode("take", script.Done, l.try(owners[0]))
		// release has the holder release, while the two others stand in line.
		release := func() (next string, nextHears func() string, granted bool) {
			l.t.Helper()
			holder := owners[turns%3]
			turns++
			next = owners[turns%3]
			l.stand(next, "n", 0)
			time.Sleep(time.Microsecond)
			l.stand(owners[(turns+1)%3], "n", 1)
			others, granted := protocol.ReadHeard(l.wantCode("release", script.Done, l.release(holder)))
			if granted == (others > 0) {
				l.t.Errorf("granted: %v, and %d have heard", granted, others)
			}
			return next, heard[turns%3], granted
		}
		open := func(pause, left time.Duration) (next string) {
			l.t.Helper()
			next, hears, granted := release()
			if l.wantFree(); granted {
				l.t.Error("granted")
			}
			l.wantTurn(pause, time.Now().Add(left))
			l.wantHeard(all, protocol.Released)
			l.wantHeard(hears, "n 1") // after so many ms it asks
			return next
		}
		before := time.Duration(0)
		for _, n := range []int{1, 3, 7, 15, 31, 63, 127, 255, 511, 1000, 1000} {
			pause := time.Duration(n) * ms
			left := min(3*ms+(before/4).Truncate(ms), 32*ms)
			next := open(pause, left)
			before = pause
			reply := l.wantCode("too early", script.Refused, l.ask(next, "early"))
			place, _ := protocol.ReadPlace(reply)
			if got := protocol.ReadRetry(reply); got < left/2 || got > left+ms || place != 0 || protocol.ReadRefusal(reply).Holder != "" {
				l.t.Errorf("ask in %v, %v", got, reply.Rest)
			}
			time.Sleep(left - ms)
			l.wantCode("too early", script.Refused, l.ask(next, "early"))
			l.wantFree()
			time.Sleep(ms)
			l.wantCode("nobody has taken it", script.Done, l.ask(next, "now"))

			time.Sleep(pause - ms)
			next, hears, granted := release()
			if !granted {
				l.t.Error("open before it is due")
			}
			l.wantHeard(hears, "n")
			l.wantHeld(next, 3*time.Second)
			l.wantHeard(all, "")
			l.wantCode("confirm", script.Done, l.ask(next, "kept"))
			time.Sleep(11 * ms) // then it is their turn in any case
		}

		// One of Redisson's takes it: the next open release is early again.
		next := open(1000*ms, 32*ms)
		theirs := l.redisson()
		l.do("HSET", l.name, theirs, "1")
		l.do("PEXPIRE", l.name, "30000")
		l.stand(next, "n", 0)
		l.wantTurn(0, time.Now())
		l.wantCode("a release, as Redisson's is not", script.Done, l.Force([]string{theirs}))
		l.wantHeld(next, 3*time.Second)
		all()
		heard[turns%3]()

		// So may one of ours who does not stand in line.
		time.Sleep(10 * ms)
		open(ms, 3*ms)
		outside := l.owner()
		l.wantCode("try", script.Done, l.try(outside))
		l.wantHeld(outside, lineLease)
		l.wantReply("0", "EXISTS", protocol.TurnKey(l.name))
	})
}

// The lock is left to nobody but somebody who listens, and is not the holder.
func TestLineScriptNoOpenRelease(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		a, b := l.owner(), l.owner()
		heard := []func() string{l.listen(l.grants(a)), l.listen(l.grants(b))}
		l.wantCode("take", script.Done, l.try(a))
		l.stand(b, "n", 0)
		l.wantCode("release", script.Done, l.release(a)) // nobody listens
		l.wantHeld(b, 3*time.Second)
		l.wantHeard(heard[1], "n")

		all := l.listen(protocol.LockChannel(l.name))
		l.stand(a, "m", 0)
		l.wantCode("release", script.Done, protocol.CountingListeners(l.Release(b, 1, 0), true)) // it listens itself
		l.wantHeld(a, 3*time.Second)
		l.wantHeard(heard[0], "m")
		l.wantHeard(all, "")

		l.stand(b, "k", 0)
		l.wantCode("release", script.Done, l.release(a))
		l.wantFree()
		l.wantHeard(heard[1], "k 1")
		l.wantHeard(all, protocol.Released)
	})
}

// Somebody has written something else where the line is: then there is none, and locking is as without it.
func TestLineScriptOverwritten(t *testing.T) {
	onEveryLine(t, func(l *linedUp) {
		for _, overwritten := range []string{"line", "asks", "line, asks"} {
			l.name = kit.Fresh()
			l.Mutex = protocol.NewMutex(l.name)
			noLine := strings.Contains(overwritten, "line")
			place, leaves := int64(-1), script.Done // where nobody could be told, nobody stands
			if noLine {
				l.do("SET", l.line(), "something else")
				leaves = script.Refused
			}
			if strings.Contains(overwritten, "asks") {
				l.do("SET", l.asks(), "something else")
			}
			holder, owner := l.held(), l.owner()
			l.stand(owner, "n", place)
			_, err := protocol.ReadState(l.wantCode("inspect", script.Done, l.Inspect()))
			kit.OK(l.t, err)
			l.stand(owner, "n", place)
			for _, step := range []struct {
				what string
				does script.Request
			}{
				{"release", l.release(holder)},
				{"ask", l.ask(owner, "n")},
				{"leave gives it back", l.Leave(owner)},
				{"try", l.try(owner)},
				{"force", l.Force([]string{owner})},
				{"try", l.try(owner)},
				{"retain", l.Retain(owner, 1, l.owner(), time.Second)},
			} {
				l.wantCode(step.what, script.Done, step.does)
				if slices.Contains([]string{"ask", "try", "retain"}, step.what) {
					l.stand(l.owner(), "n", place)
				} else {
					l.wantFree()
				}
			}
			l.do("DEL", l.name)
			l.wantCode("try", script.Done, l.try(holder))
			l.stand(owner, "n", place)
			l.wantCode("leave", leaves, l.Leave(owner))

			all := l.listen(protocol.LockChannel(l.name))
			l.stand(owner, "n", place)
			l.wantCode("release", script.Done, l.release(holder))
			l.wantFree()
			l.wantHeard(all, protocol.Released)
		}
	})
}

// Whose client may listen at any node is believed to hear while it asks.
func TestLineScriptScattered(t *testing.T) {
	inMemoryLine(t, func(l *linedUp) {
		ask := func(owner string) {
			l.wantCode("ask", script.Refused, l.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease, Number: "n", Scattered: true}))
		}
		holder, owner := l.held(), l.owner()
		ask(owner)
		l.wantCode("release", script.Done, l.release(holder))
		l.wantHeld(owner, 3*time.Second)
		late := l.owner()
		ask(late)
		l.do("PEXPIRE", l.name, "10000")
		time.Sleep(3001 * time.Millisecond)
		l.wantCode("release", script.Done, l.release(owner))
		l.wantFree()
		l.wantLine()
	})
}

// onShards runs f on a real server, where the messages of first belong to a shard. It hears n there.
func onShards(t *testing.T, f func(l *linedUp, first string)) {
	t.Helper()
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		return // it has none
	}
	l := startLine(t)
	l.publish = "SPUBLISH"
	first := l.owner()
	rdb := redis.NewClient(&redis.Options{Addr: l.server.Addr()})
	defer func() { kit.OK(t, rdb.Close()) }()
	sub := rdb.SSubscribe(background, l.grants(first))
	defer func() { kit.OK(t, sub.Close()) }()
	_, err := sub.Receive(background)
	kit.OK(t, err)
	f(l, first)
	if m, err := sub.ReceiveMessage(background); err != nil || m.Payload != "n" {
		t.Errorf("%v, %v", m, err)
	}
}

// Messages that belong to a shard are those of one lock, and all who listen are known.
func TestLineScriptSharded(t *testing.T) {
	onShards(t, func(l *linedUp, first string) {
		deaf := l.owner()
		l.listen(protocol.GrantChannel(strings.TrimSuffix(deaf, ":1"), l.name, false)) // in vain
		if id := strings.TrimSuffix(first, ":1"); l.grants(first) != l.line()+":"+id {
			t.Errorf("it listens on %q", l.grants(first))
		}
		holder := l.held()
		for _, owner := range []string{deaf, first} {
			l.wantCode("ask", script.Refused, l.Acquire(protocol.Acquire{Owner: owner, To: 1, Lease: lineLease, Number: "n", Scattered: true}))
			time.Sleep(time.Microsecond)
		}
		l.wantCode("release", script.Done, l.release(holder))
		l.wantHeld(first, 3*time.Second)
		l.wantLine()
	})
}

// limited is the lock as a user reaches it who has these rights alone.
func (l *linedUp) limited(rules ...string) *linedUp {
	l.t.Helper()
	own := *l
	for i := range rules {
		rules[i] = strings.ReplaceAll(rules[i], "NAME", l.name)
	}
	own.driver = kit.Limited(l.t, l.server, "go-redis", kit.Fresh(), rules).Open(l.t)
	return &own
}

// withoutPublishing runs f with a lock as one reaches it who may do all but publish.
func withoutPublishing(t *testing.T, f func(l, admin *linedUp)) {
	t.Helper()
	admin := startLine(t)
	for lacking, rules := range kit.NotPublishing(t, admin.server) {
		t.Run("to publish: "+lacking, func(t *testing.T) {
			admin := realLine(t, admin.server)
			f(admin.limited(rules...), admin)
		})
	}
}

// Without rights to the line there is none. Without the right to ask who listens, all are believed to; without that to publish, whoever
// is granted the lock finds out by asking.
func TestLineScriptRights(t *testing.T) {
	t.Parallel()
	t.Run("keys", func(t *testing.T) {
		l := startLine(t).limited("+@all", "~NAME", "&*")
		holder, owner := l.held(), l.owner()
		l.stand(owner, "n", -1)
		l.wantCode("leave", script.Refused, l.Leave(owner))
		l.wantCode("release", script.Done, l.release(holder))
		l.wantFree()
		l.wantCode("ask", script.Done, l.ask(owner, "n"))
		l.wantCode("inspect", script.Done, l.Inspect())
		l.wantCode("force", script.Done, l.Force([]string{owner}))
		l.wantCode("ask", script.Done, l.ask(owner, "n"))
		l.wantCode("retain", script.Done, l.Retain(owner, 1, l.owner(), time.Second))
		l.wantLine()
	})
	t.Run("keys of the holder alone", func(t *testing.T) {
		admin := startLine(t)
		l := admin.limited("+@all", "~NAME", "&*")
		holder := l.held()
		first, second := admin.owner(), admin.owner()
		heard := admin.listen(admin.grants(first))
		admin.stand(first, "n", 0)
		admin.stand(second, "m", 1)
		l.wantCode("release", script.Done, l.release(holder)) // it sees no line
		l.wantFree()
		admin.stand(second, "m", 0)
		admin.wantHeld(first, 3*time.Second)
		admin.wantHeard(heard, "n")
	})
	t.Run("the command that counts listeners", func(t *testing.T) {
		l := startLine(t).limited("+@all", "-pubsub", "~*", "&*")
		holder := l.held()
		first := l.inLine("n", 0)
		l.wantCode("release", script.Done, l.release(holder))
		l.wantHeld(first, 3*time.Second)
	})
	withoutPublishing(t, func(l, admin *linedUp) {
		holder, first := l.held(), l.owner()
		heard := admin.listen(admin.grants(first))
		l.stand(first, "n", 0)
		l.wantUntold(l.release(holder), first, heard)
		l.wantCode("ask", script.Done, l.ask(first, "m"))
		l.wantHeld(first, lineLease)
	})
}

// wantUntold releases the lock, which the first has then without having heard so.
func (l *linedUp) wantUntold(release script.Request, first string, heard func() string) {
	l.t.Helper()
	if reply := l.wantCode("release", script.Done, release); reply.Untold() == "" {
		l.t.Errorf("it does not say that nobody was told: %v", reply.Rest)
	}
	l.wantHeld(first, 3*time.Second)
	l.wantHeard(heard, "")
}
