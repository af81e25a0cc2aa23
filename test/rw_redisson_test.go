package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// What Redisson's read-write lock does to what is in Redis, in our own words:
// enough of it to stand on the other side in these tests.
const (
	// KEYS: lock, read holds without their number; ARGV: lease, owner.
	redissonReads = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2] .. ':write') == 0 then
  return redis.call('PTTL', KEYS[1])
end
if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end
local i = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('SET', KEYS[2] .. ':' .. i, '1', 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])))
return false`
	// KEYS: lock, channel, read holds, what is in front of an owner; ARGV: owner.
	redissonReadsNoMore = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then redis.call('PUBLISH', KEYS[2], '0') return false end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if c == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('DEL', KEYS[3] .. ':' .. (c + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    for i = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. i))
    end
  end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) return 0 end
  if mode == 'write' then return 0 end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
	// KEYS: lock; ARGV: lease, field.
	redissonWrites = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return false
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])
  return false
end
return redis.call('PTTL', KEYS[1])`
	// KEYS: lock, channel; ARGV: lease, field.
	redissonWritesNoMore = `
if redis.call('HGET', KEYS[1], 'mode') ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return false end
if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], '1')
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
return 1`
	// KEYS: lock, read holds; ARGV: time to live, owner.
	redissonReadRenewal = `
local alive = 0
for i = tonumber(redis.call('HGET', KEYS[1], ARGV[2]) or '0'), 1, -1 do
  alive = alive + redis.call('PEXPIRE', KEYS[2] .. ':' .. i, ARGV[1])
end
if alive > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return alive`
)

// redisson is one of Redisson's threads.
type redisson struct {
	w     *world
	name  string
	owner string
}

// newRedisson returns the thread of that owner, which uses the lock of that name.
func newRedisson(w *world, name, owner string) redisson { return redisson{w, name, owner} }

// script runs one of the scripts above, and returns its reply as text.
func (j redisson) script(text string, keys []string, args ...string) string {
	all := append([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys...)
	return j.w.do(append(all, args...)...)
}

func (j redisson) holds() string { return protocol.ReadPrefix(j.name) + j.owner + ":rwlock_timeout" }

// read and write report whether they got the lock.
func (j redisson) read(lease time.Duration) bool {
	return j.script(redissonReads, []string{j.name, j.holds()}, ms(lease), j.owner) == "<nil>"
}

func (j redisson) readNoMore() string {
	prefix := protocol.ReadPrefix(j.name)
	return j.script(redissonReadsNoMore,
		[]string{j.name, protocol.RWChannel(j.name), j.holds(), prefix[:len(prefix)-1]}, j.owner)
}

func (j redisson) write(lease time.Duration) bool {
	return j.script(redissonWrites, []string{j.name}, ms(lease), protocol.WriterField(j.owner)) == "<nil>"
}

func (j redisson) writeNoMore() string {
	return j.script(redissonWritesNoMore, []string{j.name, protocol.RWChannel(j.name)}, "30000", protocol.WriterField(j.owner))
}

func (j redisson) renewReads() {
	j.script(redissonReadRenewal, []string{j.name, j.holds()}, "30000", j.owner)
}

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// Readers of both sides share, writers of both sides are alone, and whoever goes
// last leaves nothing.
func TestRedissonOnTheOtherSide(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		m := c.NewRWMutex("x")
		j := newRedisson(w, "x", "c0ffee:1")
		h := must(t)(m.RLocker().Lock(background))
		if !j.read(time.Minute) || j.write(time.Minute) {
			t.Error("beside our reader, theirs does not read, or their writer writes")
		}
		_, err := m.TryLock(background)
		wantError(t, err, holdfast.ErrLocked)
		unlock(t, h)
		if got := j.readNoMore(); got != "1" {
			t.Errorf("their reader is not the last: %s", got)
		}
		w.wantReply("", "KEYS", "*")

		j.read(time.Minute)
		h = must(t)(m.RLocker().Lock(background))
		if got := j.readNoMore(); got != "0" {
			t.Errorf("their reader is the last: %s", got)
		}
		if ttl := w.pttl("x"); ttl != 30*time.Second {
			t.Errorf("after their reader has left the lock lives for %v", ttl)
		}
		unlock(t, h)
		w.wantReply("", "KEYS", "*")

		// Their writer's nested hold adds its lease; it goes on reading, and leaves
		// last or first.
		for _, last := range []bool{false, true} {
			in := j.write(time.Minute)
			in = in && j.write(time.Minute) // once more
			if !in || !j.read(10*time.Second) {
				t.Fatal("their writer does not get in")
			}
			_, err = m.RLocker().TryLock(background)
			wantError(t, err, holdfast.ErrLocked)
			j.writeNoMore()
			j.writeNoMore()
			h = must(t)(m.RLocker().Lock(background))
			if last {
				unlock(t, h)
				j.readNoMore()
			} else {
				j.readNoMore()
				unlock(t, h)
			}
			w.wantReply("", "KEYS", "*")
		}

		// Their reader crashes; ours is the last. It might live: see below.
		j.read(time.Second)
		h = must(t)(m.RLocker().Lock(background))
		time.Sleep(2 * time.Second)
		unlock(t, h)
		if ttl := w.pttl("x"); ttl < 25*time.Second || ttl > 30*time.Second {
			t.Errorf("their reader may live for %v", ttl)
		}
		h = must(t)(m.Lock(background, holdfast.Wait(35*time.Second)))
		synctest.Wait() // who has waited for one of Redisson's listens no more, or this release is left to it
		unlock(t, h)
		w.wantReply("", "KEYS", "*")
	})
}

// Redisson 3, if one client reads several locks, renews the locks, but the keys of
// the reads of one of them only. Its reader is one, and we are kept out, for as
// long as it renews the lock; our readers who leave do not end it.
func TestRedisson3ReadsWithoutKeys(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client(holdfast.WithLease(10 * time.Minute))
		m := c.NewRWMutex("x")
		j := newRedisson(w, "x", "7b0f2b1e-93a5-4f0e-8a43-5b8d7c9e1f00:42")
		j.read(30 * time.Second)
		w.do("DEL", j.holds()+":1")
		h := must(t)(m.RLocker().Lock(background))
		for range 6 {
			time.Sleep(10 * time.Second)
			w.do("PEXPIRE", "x", "30000") // its renewal
			_, err := m.TryLock(background)
			wantError(t, err, holdfast.ErrLocked)
		}
		w.do("PEXPIRE", "x", "600000") // ours
		unlock(t, h)
		if ttl := w.pttl("x"); ttl != 30*time.Second {
			t.Errorf("without ours it lives for %v", ttl)
		}
		var locked *holdfast.LockedError
		beside, err := m.TryLock(background)
		if err == nil {
			unlock(t, beside)
			t.Fatal("a writer beside it")
		}
		if !errors.As(err, &locked) || locked.Holder.String() != j.owner {
			t.Errorf("refused because of %v", err)
		}
		found, err := m.RLocker().Inspect(background)
		if err != nil || len(found.Holders) != 1 || found.Holders[0].Owner.String() != j.owner {
			t.Errorf("%+v, %v", found, err)
		}
		if got := j.readNoMore(); got != "1" {
			t.Errorf("it was not the last reader: %s", got)
		}
		unlock(t, must(t)(m.Lock(background)))
		// If it has crashed, the lock ends with what it was last renewed for.
		j.read(30 * time.Second)
		w.do("DEL", j.holds()+":1")
		unlock(t, must(t)(m.Lock(background, holdfast.Wait(31*time.Second))))
	})
}

// S8 is Redisson's own: its renewal of a read shortens the lock under ours, and
// that of its version 3 our hold's key, too. We set that right in time, for a fixed
// lease as well, whether Redisson's reader leaves or dies.
func TestS8_RedissonsRenewalIsSetRight(t *testing.T) {
	const long = 10 * time.Minute
	for name, take := range map[string]func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold{
		"fixed": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			return []*holdfast.Hold{must(t)(m.RLocker().Lock(background, holdfast.FixedLease(long)))}
		},
		"extended": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			h := must(t)(m.RLocker().Lock(background))
			if err := h.Extend(background, long); err != nil {
				t.Error(err)
			}
			return []*holdfast.Hold{h}
		},
		"fixed and renewed": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			h := must(t)(m.RLocker().Lock(background, holdfast.FixedLease(long)))
			return []*holdfast.Hold{must(t)(m.RLocker().Lock(h.Context())), h}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				c, _ := w.client()
				m := c.NewRWMutex("x")
				holds := take(t, m)
				setRight(t, w, m, holds[0])
				for _, h := range holds {
					unlock(t, h)
				}
				time.Sleep(31 * time.Second) // Redisson's reader might have lived
			})
		})
	}
}

// setRight has a reader of Redisson's shorten the lock and the hold's key, and die.
func setRight(t *testing.T, w *world, m *holdfast.RWMutex, h *holdfast.Hold) {
	t.Helper()
	key := protocol.ReadPrefix("x") + h.Owner().String() + ":rwlock_timeout:1"
	j := newRedisson(w, "x", "7b0f2b1e-93a5-4f0e-8a43-5b8d7c9e1f00:42")
	j.read(30 * time.Second)
	for range 6 {
		time.Sleep(9 * time.Second)
		j.renewReads()
		w.do("PEXPIRE", key, "30000")
	}
	if ttl := w.pttl("x"); ttl != 30*time.Second {
		t.Fatalf("their renewal leaves %v", ttl)
	}
	for range 2 {
		time.Sleep(time.Minute)
		promised := time.Until(h.Deadline())
		for _, k := range []string{"x", key} {
			if ttl := w.pttl(k); ttl < promised || promised < 6*time.Minute {
				t.Errorf("%s lives for %v, promised are %v", k, ttl, promised)
			}
		}
	}
	_, err := m.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	if err := context.Cause(h.Context()); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
}

// theirs is a hold of Redisson's.
type theirs struct {
	redisson
	writes bool
	until  time.Time
}

// redissonActor is a thread of Redisson's in the random program. It does nothing
// that Redisson itself does wrong: no renewals (S8), no reads under a write that
// end one by one (S9), no reads of different leases (S10).
func (s *rwStress) redissonActor(id uint64) {
	rng := rand.New(rand.NewPCG(s.seed, id))
	nap := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
	for !s.stopping.Load() {
		nap(2 * time.Second)
		j := newRedisson(s.w, s.names[rng.IntN(len(s.names))], fmt.Sprintf("c0ffee:%d", id))
		lease := 50*time.Millisecond + time.Duration(rng.Int64N(int64(s.lease))).Truncate(time.Millisecond)
		if rng.IntN(2) == 0 {
			read := s.theirTurn(j, lease, false)
			if read == nil {
				continue
			}
			nap(2 * lease)
			s.theyLeave(read)
			continue
		}
		write := s.theirTurn(j, lease, true)
		if write == nil {
			continue
		}
		nap(2 * lease)
		var read *theirs
		if rng.IntN(2) == 0 && time.Now().Before(write.until) {
			read = s.theirTurn(j, lease, false)
		}
		s.theyLeave(write)
		if read != nil {
			nap(2 * lease)
			s.theyLeave(read)
		}
	}
}

// theirTurn asks once for a thread of Redisson's.
func (s *rwStress) theirTurn(j redisson, lease time.Duration, writes bool) *theirs {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ask := j.read
	if writes {
		ask = j.write
	}
	got := ask(lease)
	s.logf("redisson %s: %s, writes %v: %v", j.owner, j.name, writes, got)
	if !got {
		return nil
	}
	h := &theirs{j, writes, now.Add(lease)}
	for r := range s.holds {
		if r.Name() == j.name && r.live(now) && (r.writes || writes) {
			s.failf("%s: %v (writes %v, until %v) and %s of Redisson's (writes %v) overlap", j.name, r.Owner(), r.writes,
				r.Deadline().Sub(s.start), j.owner, writes)
		}
	}
	s.changes[j.name]++
	s.theirs[h] = struct{}{}
	return h
}

func (s *rwStress) theyLeave(h *theirs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.theirs, h)
	s.changes[h.name]++
	// The memory driver's server rounds what is left of a lease down to whole ms when
	// a script reads it and sets it anew. Redis counts in whole ms only, and loses
	// nothing.
	expired := !time.Now().Before(h.until.Add(-time.Millisecond))
	leave := h.readNoMore
	if h.writes {
		leave = h.writeNoMore
	}
	got := leave()
	s.logf("redisson %s: leaves %s, writes %v: %v", h.owner, h.name, h.writes, got)
	if got == "<nil>" && !expired {
		s.failf("%s: the hold of Redisson's %s (writes %v) is gone, and nobody took it", h.name, h.owner, h.writes)
	}
}
