package fair

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Waiters as Redisson has them, in one line with ours. What they do to Redis is
// written here from its description, not from its code; that the real one does
// the same is for the interop tests to show.

// javaPrune drops those at the head of the line whose time has passed by the
// caller's clock.
const javaPrune = `
local function prune(line, scores, now)
  local first = redis.call('LINDEX', line, 0)
  while first do
    local score = redis.call('ZSCORE', scores, first)
    if not score or tonumber(score) > tonumber(now) then
      return
    end
    redis.call('ZREM', scores, first)
    redis.call('LPOP', line)
    first = redis.call('LINDEX', line, 0)
  end
end
local function take_off(scores, ms)
  for _, other in ipairs(redis.call('ZRANGE', scores, 0, -1)) do
    redis.call('ZINCRBY', scores, -tonumber(ms), other)
  end
end
`

// javaAcquire: KEYS lock, line, scores; ARGV lease, me, wait, now.
const javaAcquire = javaPrune + `
local lease, me, wait, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
prune(KEYS[2], KEYS[3], now)
if redis.call('EXISTS', KEYS[1]) == 0 and
    (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == me) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], me)
  take_off(KEYS[3], wait)
  redis.call('HSET', KEYS[1], me, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  return 'granted'
end
if redis.call('ZSCORE', KEYS[3], me) then
  return math.max(0, redis.call('PTTL', KEYS[1]))
end
local last = redis.call('LINDEX', KEYS[2], -1)
local score = last and last ~= me and redis.call('ZSCORE', KEYS[3], last)
local ttl = score and tonumber(score) - now or redis.call('PTTL', KEYS[1])
if redis.call('ZADD', KEYS[3], ttl + wait + now, me) == 1 then
  redis.call('RPUSH', KEYS[2], me)
end
return ttl`

// javaGiveUp: KEYS line, scores; ARGV me, wait.
const javaGiveUp = `
local behind = false
for _, other in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if behind then
    redis.call('ZINCRBY', KEYS[2], -tonumber(ARGV[2]), other)
  end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])
return 'left'`

// javaUnlock: KEYS lock, line, scores, channels; ARGV me, now.
const javaUnlock = javaPrune + `
prune(KEYS[2], KEYS[3], ARGV[2])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('DEL', KEYS[1])
end
local first = redis.call('LINDEX', KEYS[2], 0)
if first then
  redis.call('PUBLISH', KEYS[4] .. ':' .. first, '0')
end
return 'released'`

const defaultJavaWait = 5 * time.Minute

// java is one thread of a Redisson client.
type java struct {
	w       *kit.World
	name    string // its own, in the line
	skew    time.Duration
	wait    time.Duration
	bounded bool // it gives up after wait
	rung    chan struct{}
	granted chan struct{} // closed when it holds the lock
	ctx     context.Context
	die     context.CancelFunc
}

var javaKeys = []string{"x", kit.QueueKey, kit.TimeoutsKey, "redisson_lock__channel:{x}"}

func (j *java) eval(script string, keys []string, args ...any) string {
	call := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)
	for _, a := range args {
		call = append(call, fmt.Sprint(a))
	}
	time.Sleep(time.Millisecond) // the way there and back: it may ask in a loop
	return j.w.Do(call...)
}

func (j *java) now() int64 { return time.Now().Add(j.skew).UnixMilli() }

func (j *java) unlock() { j.eval(javaUnlock, javaKeys, j.name, j.now()) }

// java has a thread wait for the lock x, and returns when it stands in line.
func (s *stage) java(number int, set ...func(*java)) *java {
	s.Helper()
	j := &java{
		w: s.World, name: fmt.Sprintf("eeeeeeee-0000-4000-8000-000000000000:%d", number), wait: defaultJavaWait,
		rung: make(chan struct{}, 1), granted: make(chan struct{}),
	}
	j.ctx, j.die = context.WithCancel(background)
	for _, change := range set {
		change(j)
	}
	listener := s.Server.Driver().Listen(func(driver.Event) {
		select {
		case j.rung <- struct{}{}:
		default:
		}
	})
	listener.Subscribe(javaKeys[3] + ":" + j.name)
	done := make(chan struct{})
	s.Cleanup(func() {
		j.die()
		<-done
	})
	go func() {
		defer close(done)
		defer listener.Close()
		j.run(time.Now().Add(j.wait))
	}()
	synctest.Wait()
	time.Sleep(2 * time.Millisecond)
	return j
}

func (j *java) run(end time.Time) {
	for j.ctx.Err() == nil {
		reply := j.eval(javaAcquire, javaKeys[:3], 30000, j.name, j.wait.Milliseconds(), j.now())
		if reply == "granted" {
			close(j.granted)
			return
		}
		ttl, err := strconv.Atoi(reply)
		if err != nil {
			panic(reply)
		}
		nap := time.Duration(ttl) * time.Millisecond
		switch {
		case ttl < 0:
			nap = time.Hour
		case ttl == 0:
			nap = 20 * time.Millisecond // the real one asks in a loop here (L7), which fake time would have to sit out
		}
		if j.bounded {
			nap = min(nap, time.Until(end))
		}
		select {
		case <-j.rung:
		case <-time.After(nap):
		case <-j.ctx.Done():
			return
		}
		if j.bounded && !time.Now().Before(end) {
			j.eval(javaGiveUp, javaKeys[1:3], j.name, j.wait.Milliseconds())
			return
		}
	}
}

// takeTurn has it have the lock, for a while.
func (j *java) takeTurn(long time.Duration) {
	<-j.granted
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Second) {
		j.w.Do("PEXPIRE", "x", "30000")
	}
	j.unlock()
}

// Java and Go stand in one line, however long it takes, while others come and go.
func TestFairMixedLine(t *testing.T) {
	for _, each := range []time.Duration{0, 10 * time.Second, 6 * time.Minute} {
		fake(t, func(s *stage) {
			order := make(chan string, 6)
			var names, got []string
			for i := range 3 {
				waiter := s.stand()
				j := s.java(i)
				names = append(names, waiter.Owner.String(), j.name)
				go func() {
					kit.Turn(s.T, func() {
						order <- waiter.Owner.String()
						time.Sleep(each)
					})(waiter.Await(time.Hour))
				}()
				go func() {
					<-j.granted
					order <- j.name
					j.takeTurn(each)
				}()
			}
			s.WantReply(strings.Join(names, " "), "LRANGE", kit.QueueKey, "0", "-1")
			s.WantReply("-1", "PTTL", kit.QueueKey)
			time.Sleep(2 * time.Minute)
			s.release()
			for range names {
				got = append(got, <-order)
			}
			if !slices.Equal(got, names) {
				s.Errorf("each holds it for %v: served %v\nwant %v", each, got, names)
			}
			time.Sleep(each + 4*time.Minute) // Java came last, and the heartbeats expire by themselves
		})
	}
}

// S24: Java's clocks are off, its waiters come, give up, and take their time off
// every score; it drops no waiter of ours that lives.
func TestS24_JavaDropsNoLiveWaiter(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, 20 * time.Second} {
		fake(t, func(s *stage) {
			line := s.line(3)
			for i := range 30 {
				j := s.java(i, func(j *java) { j.skew, j.wait, j.bounded = skew, 2*time.Second, true })
				time.Sleep(3 * time.Second)
				if i == 15 {
					line = append(line, s.stand())
				}
				select {
				case <-j.granted:
					s.Fatal("it was held")
				default:
				}
			}
			s.wantLine(line...)
			s.release()
			s.takeTurns(line...)
		})
	}
}

// A dead waiter of ours is out of Java's way within half a minute, wherever it
// stood, though none of ours is there to see to it; or sooner, if one is, and tells Java.
func TestL6_JavaGetsPastOurDead(t *testing.T) {
	for before := range 3 { // Java's waiters ahead of the dead one
		for _, helped := range []bool{false, true} {
			fake(t, func(s *stage) {
				s.release()
				first := s.java(0)
				<-first.granted
				var line []*java
				for i := range before {
					line = append(line, s.java(1+i))
				}
				dead, bound := s.stand(), 31*time.Second
				line = append(line, s.java(10))
				var ours []*kit.Standing
				if helped {
					ours, bound = s.line(1), 11*time.Second
				} else {
					line = append(line, s.java(11), s.java(12))
				}
				time.Sleep(4 * time.Second)
				cutOff(dead)
				time.Sleep(time.Second)
				start := time.Now()
				first.unlock()
				for _, j := range line {
					j.takeTurn(0)
				}
				s.takeTurns(ours...)
				s.within(start, bound)
				dead.Cancel(nil)
				time.Sleep(3 * time.Minute) // what only ours know of expires by itself
			})
		}
	}
}

// L6: Java's own dead hold up the line until their score has passed, and if it
// passed while the lock was held, not much longer. L8: those that live are told,
// however long they have waited.
func TestL6_L8_JavasDeadAndLiving(t *testing.T) {
	const told = 10 * time.Millisecond
	for _, row := range []struct {
		held  time.Duration
		lives bool
		bound time.Duration // until ours has it
	}{
		{time.Second, true, told},
		{6 * time.Minute, true, told},
		{time.Second, false, defaultJavaWait + 31*time.Second}, // its first score counts from the end of the lease
		{6 * time.Minute, false, 31 * time.Second},
	} {
		fake(t, func(s *stage) {
			j, ours := s.java(1), s.stand()
			if !row.lives {
				j.die()
			}
			time.Sleep(row.held)
			start := s.release()
			if row.lives {
				j.takeTurn(0)
			}
			s.takeTurns(ours)
			s.within(start, row.bound)
		})
	}
}

// L8: the score of the first in line has passed while the lock was held, that of
// the second has not; the first gets it all the same.
func TestL8_JavaIsSparedAtTheRelease(t *testing.T) {
	fake(t, func(s *stage) {
		first, second := s.java(1), s.java(2)
		// Java would drop it when it asks.
		s.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().UnixMilli()), first.name)
		time.Sleep(time.Second)
		start := s.release()
		first.takeTurn(0)
		s.within(start, 10*time.Millisecond)
		second.takeTurn(0)
	})
}

// L8: the one before it is dead, and both scores have passed: the second has not had
// its turn yet, gets it, and keeps its place before ours.
func TestL8_JavaIsSparedBehindTheDead(t *testing.T) {
	for _, lives := range []bool{true, false} {
		bound := 34 * time.Second // the dead are believed for 30 s when they are first, and ours asks every three
		if !lives {
			bound *= 2
		}
		fake(t, func(s *stage) {
			dead, second, ours := s.java(1), s.java(2), s.stand()
			dead.die()
			if !lives {
				second.die()
			}
			past := fmt.Sprint(time.Now().UnixMilli())
			s.Do("ZADD", kit.TimeoutsKey, past, dead.name, past, second.name)
			time.Sleep(time.Second)
			start := s.release()
			if lives {
				second.takeTurn(0)
			}
			s.takeTurns(ours)
			s.within(start, bound)
		})
	}
}

// L9: the line is lost, and its scores are not. Java believes that it stands
// there; ours see to it that it finds out.
func TestL9_JavaFindsItsPlaceGone(t *testing.T) {
	fake(t, func(s *stage) {
		j := s.java(1)
		s.Do("DEL", kit.QueueKey)
		ours := s.stand()
		time.Sleep(time.Minute) // it asks again when the lease that it was told would have ended
		s.WantReply(ours.Owner.String()+" "+j.name, "LRANGE", kit.QueueKey, "0", "-1")
		s.release()
		s.takeTurns(ours)
		j.takeTurn(0)
		time.Sleep(3 * time.Minute)
	})
}

// While one of Redisson's stands in the same line, or holds the lock, ours listen where it says who is next. Else they
// do not.
func TestFairBesideRedisson(t *testing.T) {
	fake(t, func(s *stage) {
		waiter := s.stand()
		listens := func(want string) {
			s.Helper()
			own := javaKeys[3] + ":" + waiter.Owner.String()
			s.WantReply(own+" "+want, "PUBSUB", "NUMSUB", own)
		}
		time.Sleep(100 * time.Millisecond)
		listens("0")
		waiter.Cancel(nil)
		j := s.java(1)
		waiter = s.stand()
		time.Sleep(10 * time.Second)
		listens("1")
		s.release()
		<-j.granted
		time.Sleep(10 * time.Second)
		listens("1")
		released := time.Now()
		j.unlock()
		s.h = waiter.Within(s.T, released, 10*time.Millisecond)
		waiter = s.stand()
		time.Sleep(10 * time.Second)
		released = s.release()
		listens("0")
		kit.Unlock(s.T, waiter.Within(s.T, released, 0))
	})
}
