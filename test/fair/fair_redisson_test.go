package fair

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
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

var javaKeys = []string{"x", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}", "redisson_lock__channel:{x}"}

func (j *java) eval(script string, keys []string, args ...any) string {
	call := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)
	for _, a := range args {
		call = append(call, fmt.Sprint(a))
	}
	time.Sleep(time.Millisecond) // the way there and back: it may ask in a loop
	return j.w.Do(call...)
}

func (j *java) now() int64 { return time.Now().Add(j.skew).UnixMilli() }

func (j *java) acquire() string {
	return j.eval(javaAcquire, javaKeys[:3], 30000, j.name, j.wait.Milliseconds(), j.now())
}

func (j *java) unlock() { j.eval(javaUnlock, javaKeys, j.name, j.now()) }

// newJava has a thread wait for the lock x, and returns when it stands in line.
func newJava(w *kit.World, number int, set func(*java)) *java {
	w.T.Helper()
	j := &java{
		w: w, name: fmt.Sprintf("eeeeeeee-0000-4000-8000-000000000000:%d", number), wait: defaultJavaWait,
		rung: make(chan struct{}, 1), granted: make(chan struct{}),
	}
	j.ctx, j.die = context.WithCancel(background)
	if set != nil {
		set(j)
	}
	listener := w.Server.Driver().Listen(func(driver.Event) {
		select {
		case j.rung <- struct{}{}:
		default:
		}
	})
	listener.Subscribe(javaKeys[3] + ":" + j.name)
	w.T.Cleanup(j.die)
	done := make(chan struct{})
	w.T.Cleanup(func() { <-done })
	end := time.Now().Add(j.wait)
	go func() {
		defer close(done)
		defer listener.Close()
		j.run(end)
	}()
	synctest.Wait()
	time.Sleep(2 * time.Millisecond)
	return j
}

func (j *java) run(end time.Time) {
	for j.ctx.Err() == nil {
		reply := j.acquire()
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

func (j *java) holds() bool {
	select {
	case <-j.granted:
		return true
	default:
		return false
	}
}

// Java and Go stand in one line, however long it takes, while others come and go.
func TestFairMixedLine(t *testing.T) {
	for _, each := range []time.Duration{0, 10 * time.Second, 6 * time.Minute} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			var mu sync.Mutex
			var order []string
			note := func(who string) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, who)
			}
			var wg sync.WaitGroup
			var names []string
			for i := range 3 {
				s := stand(w, "x")
				j := newJava(w, i, nil)
				names = append(names, s.Owner.String(), j.name)
				wg.Go(func() {
					h := s.Hold(t)
					note(s.Owner.String())
					time.Sleep(each)
					kit.Unlock(t, h)
				})
				wg.Go(func() {
					<-j.granted
					note(j.name)
					for end := time.Now().Add(each); time.Now().Before(end); time.Sleep(5 * time.Second) {
						w.Do("PEXPIRE", "x", "30000")
					}
					j.unlock()
				})
			}
			w.WantReply(fmt.Sprint(names[0], " ", names[1], " ", names[2], " ", names[3], " ", names[4], " ", names[5]),
				"LRANGE", "redisson_lock_queue:{x}", "0", "-1")
			w.WantReply("-1", "PTTL", "redisson_lock_queue:{x}")
			time.Sleep(2 * time.Minute)
			kit.Unlock(t, h)
			wg.Wait()
			if !slices.Equal(order, names) {
				t.Errorf("each holds it for %v: served %v\nwant %v", each, order, names)
			}
			time.Sleep(3 * time.Minute) // Java came last, and the heartbeats expire by themselves
			wantNoLine(w)
		})
	}
}

// S24: Java's clocks are off, its waiters come, give up, and take their time off
// every score; it drops no waiter of ours that lives.
func TestS24_JavaDropsNoLiveWaiter(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, 20 * time.Second} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x")}
			for i := range 30 {
				j := newJava(w, i, func(j *java) { j.skew, j.wait, j.bounded = skew, 2*time.Second, true })
				time.Sleep(3 * time.Second)
				if i == 15 {
					line = append(line, stand(w, "x"))
				}
				if j.holds() {
					t.Fatal("it was held")
				}
			}
			wantLine(w, "x", line...)
			kit.Unlock(t, h)
			for _, s := range line {
				kit.Unlock(t, s.Hold(t))
			}
			wantNoLine(w)
		})
	}
}

// A dead waiter of ours is out of Java's way within half a minute, wherever it
// stood, though none of ours is there to see to it.
func TestL6_JavaGetsPastOurDead(t *testing.T) {
	for _, before := range []int{0, 1, 2} { // Java's waiters ahead of the dead one
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			first := newJava(w, 0, nil)
			<-first.granted
			var line []*java
			for i := range before {
				line = append(line, newJava(w, 1+i, nil))
			}
			dead := stand(w, "x")
			for i := range 3 {
				line = append(line, newJava(w, 10+i, nil))
			}
			time.Sleep(4 * time.Second)
			kit.Silent(dead.D, kit.LostRequest)
			dead.D.LoseMessages(true)
			time.Sleep(time.Second)
			start := time.Now()
			first.unlock()
			for _, j := range line {
				<-j.granted
				j.unlock()
			}
			if took := time.Since(start); took > 31*time.Second {
				t.Errorf("behind %d: the last got it after %v", before, took)
			}
			dead.Cancel(nil)
			time.Sleep(3 * time.Minute) // what only ours know of expires by itself
			wantNoLine(w)
		})
	}
}

// L6: Java's own dead hold up the line until their score has passed, and if it
// passed while the lock was held, not much longer. L8: those that live are told,
// however long they have waited.
func TestL6_L8_JavasDeadAndLiving(t *testing.T) {
	for _, held := range []time.Duration{time.Second, 6 * time.Minute} {
		for _, lives := range []bool{true, false} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				h := fairHolder(t, w, "x")
				j := newJava(w, 1, nil)
				s := stand(w, "x")
				if !lives {
					j.die()
				}
				time.Sleep(held)
				start := time.Now()
				kit.Unlock(t, h)
				if lives {
					<-j.granted
					if took := time.Since(start); took > 10*time.Millisecond {
						t.Errorf("held for %v: Java got it after %v", held, took)
					}
					j.unlock()
				}
				kit.Unlock(t, s.Hold(t))
				bound := 10 * time.Millisecond
				if !lives && held < defaultJavaWait {
					bound = defaultJavaWait + 31*time.Second // its first score counts from the end of the lease
				} else if !lives {
					bound = 31 * time.Second
				}
				if took := time.Since(start); took > bound {
					t.Errorf("held for %v, alive %v: ours got it after %v", held, lives, took)
				}
				wantNoLine(w)
			})
		}
	}
}

// A dead waiter of ours stands first, behind it one of Java's, which hears of
// nothing else: whoever of ours finds that out tells it.
func TestL6_WeTellJavaWhenItIsNext(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		dead := stand(w, "x")
		j := newJava(w, 1, nil)
		s := stand(w, "x")
		kit.Silent(dead.D, kit.LostRequest)
		start := time.Now()
		kit.Unlock(t, h)
		<-j.granted
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("Java got it after %v", took)
		}
		j.unlock()
		kit.Unlock(t, s.Hold(t))
		dead.Cancel(nil)
		time.Sleep(time.Minute)
		wantNoLine(w)
	})
}

// L8: the score of the first in line has passed while the lock was held, that of
// the second has not; the first gets it all the same.
func TestL8_JavaIsSparedAtTheRelease(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		first, second := newJava(w, 1, nil), newJava(w, 2, nil)
		w.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().UnixMilli()), first.name) // Java would drop it when it asks
		time.Sleep(time.Second)
		start := time.Now()
		kit.Unlock(t, h)
		<-first.granted
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("it got it after %v", took)
		}
		first.unlock()
		<-second.granted
		second.unlock()
		wantNoLine(w)
	})
}

// L8: the one before it is dead, and both scores have passed: the second has not had
// its turn yet, gets it, and keeps its place before ours.
func TestL8_JavaIsSparedBehindTheDead(t *testing.T) {
	for _, lives := range []bool{true, false} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			dead, second := newJava(w, 1, nil), newJava(w, 2, nil)
			s := stand(w, "x")
			dead.die()
			if !lives {
				second.die()
			}
			past := fmt.Sprint(time.Now().UnixMilli())
			w.Do("ZADD", kit.TimeoutsKey, past, dead.name, past, second.name)
			time.Sleep(time.Second)
			start := time.Now()
			kit.Unlock(t, h)
			if lives {
				<-second.granted
				second.unlock()
			}
			kit.Unlock(t, s.Hold(t))
			bound := 34 * time.Second // the dead are believed for 30 s when they are first, and ours asks every three
			if !lives {
				bound *= 2
			}
			if took := time.Since(start); took > bound {
				t.Errorf("the second alive %v: ours got it after %v", lives, took)
			}
			wantNoLine(w)
		})
	}
}

// L9: the line is lost, and its scores are not. Java believes that it stands
// there; ours see to it that it finds out.
func TestL9_JavaFindsItsPlaceGone(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		j := newJava(w, 1, nil)
		w.Do("DEL", kit.QueueKey)
		s := stand(w, "x")
		time.Sleep(time.Minute) // it asks again when the lease that it was told would have ended
		w.WantReply(s.Owner.String()+" "+j.name, "LRANGE", kit.QueueKey, "0", "-1")
		kit.Unlock(t, h)
		kit.Unlock(t, s.Hold(t))
		<-j.granted
		j.unlock()
		time.Sleep(3 * time.Minute)
		wantNoLine(w)
	})
}

// While one of Redisson's stands in the same line, or holds the lock, ours listen where it says who is next. Else they do not.
func TestFairBesideRedisson(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		s := stand(w, "x")
		listens := func(want string) {
			t.Helper()
			own := javaKeys[3] + ":" + s.Owner.String()
			w.WantReply(own+" "+want, "PUBSUB", "NUMSUB", own)
		}
		time.Sleep(100 * time.Millisecond)
		listens("0")
		s.Cancel(nil)
		j := newJava(w, 1, nil)
		s = stand(w, "x")
		time.Sleep(10 * time.Second)
		listens("1")
		kit.Unlock(t, h)
		<-j.granted
		time.Sleep(10 * time.Second)
		listens("1")
		released := time.Now()
		j.unlock()
		h = s.Within(t, released, 10*time.Millisecond)
		next := stand(w, "x")
		time.Sleep(10 * time.Second)
		released = time.Now()
		kit.Unlock(t, h)
		s = next
		listens("0")
		kit.Unlock(t, s.Within(t, released, 0))
		wantNoLine(w)
	})
}
