package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestRWStress runs random programs of the read-write lock. They have some features more: d clients die, x no faults (then nobody
// may oversleep), j threads of Redisson's take part.
// Beside what is checked at each grant, a monitor holds Redis against what the
// holders believe, every so often.
func TestRWStress(t *testing.T) {
	for seed := *stressFirst; seed < *stressFirst+uint64(*stressSeeds); seed++ {
		kit.Fake(t, func(t *testing.T, w *kit.World) { newRWStress(t, w, seed).run() })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// rwStress is one random program.
type rwStress struct {
	*stress
	holds   map[*rwRecord]struct{} // guarded by mu
	waiters map[*rwWaiter]struct{} // guarded by mu
	changes map[string]int         // grants and releases of a lock; guarded by mu
	tokens  map[string]int64       // the last one of a lock; guarded by mu
	theirs  map[*theirs]struct{}   // guarded by mu
	stop    chan struct{}          // ends the monitor
}

// rwRecord is a hold that is handed out.
type rwRecord struct {
	*record
	writes bool
	// fresh says that its owner was made for it: readers who are and have one owner share a count.
	fresh bool
}

// live reports whether the hold may be trusted.
func (r *rwRecord) live(now time.Time) bool {
	return !r.excused && r.Context().Err() == nil && r.Deadline().After(now)
}

type rwWaiter struct {
	name   string
	writes bool
	// idle is since when it could have been let in, with nothing happening.
	idle    time.Time
	changes int
}

func newRWStress(t *testing.T, w *kit.World, seed uint64) *rwStress {
	s := &rwStress{
		stress: newStress(t, w, seed), holds: map[*rwRecord]struct{}{}, waiters: map[*rwWaiter]struct{}{},
		changes: map[string]int{}, tokens: map[string]int64{}, stop: make(chan struct{}), theirs: map[*theirs]struct{}{},
	}
	s.kind = "rw"
	if *stressOnly == "" {
		rng := rand.New(rand.NewPCG(seed, 2))
		s.uses['d'] = rng.IntN(4) == 0
		if s.uses['x'] = rng.IntN(4) == 0; s.uses['x'] {
			s.uses['d'], s.uses['m'], s.uses['c'] = false, false, false
		}
		if s.uses['j'] = rng.IntN(3) == 0; s.uses['j'] {
			s.uses['f'] = false
		}
	}
	return s
}

func (s *rwStress) run() {
	clients := []*stressClient{s.client(0), s.client(1), s.client(2)}
	s.all = clients
	rng := rand.New(rand.NewPCG(s.seed, 1))
	var actors, monitor sync.WaitGroup
	monitor.Go(s.monitor)
	for i := range 2 + rng.IntN(7) {
		c := clients[rng.IntN(len(clients))]
		owner := holdfast.Owner{}
		if rng.IntN(2) == 0 { // by hand
			owner = c.NewOwner()
		}
		n := 1
		if s.uses['o'] && owner != (holdfast.Owner{}) {
			n = 2 // one owner in two goroutines
		}
		for j := range n {
			actors.Go(func() { s.actor(c, uint64(100*i+j+10), owner) })
		}
	}
	if s.uses['j'] {
		for i := range 1 + rng.Uint64N(3) {
			actors.Go(func() { s.redissonActor(5000 + i) })
		}
	}
	length := time.Duration(5+rng.IntN(40)) * time.Second
	end := time.Now().Add(length)
	for time.Now().Before(end) { // what happens to all
		time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		c := clients[rng.IntN(len(clients))]
		switch {
		case s.uses['c'] && rng.IntN(3) == 0:
			// No further back than a call's limit allows for: one that was held up
			// and then finds the clock set back takes effect after its time.
			s.setClock([]int64{0, 200, -200}[rng.IntN(3)])
		case s.uses['m'] && rng.IntN(3) == 0:
			c.d.LoseMessages(rng.IntN(2) == 0)
		case s.uses['d'] && rng.IntN(6) == 0 && c.id > 0: // one survives
			s.logf("client %d dies", c.id)
			c.dead.Store(true)
			c.closed.Store(true)
		case rng.IntN(4) == 0:
			s.changeLuck(c, rng)
		}
	}
	if c := clients[rng.IntN(len(clients))]; s.uses['k'] && !c.dead.Load() {
		s.close(c)
	}
	s.rest(&actors)
	close(s.stop)
	monitor.Wait()
}

// rest ends all faults; everything must come to rest, and nothing be left.
func (s *rwStress) rest(actors *sync.WaitGroup) {
	s.comeToRest(actors)
	if s.uses['d'] || s.uses['j'] || s.uses['k'] {
		time.Sleep(2*s.lease + protocol.PlaceLives + 10*time.Second) // what the dead ones, Redisson and Close left behind
	}
	for key := range strings.FieldsSeq(s.w.Do("KEYS", "*")) {
		if !strings.HasPrefix(key, "redisson_lock_token") {
			s.failf("left in Redis: %s (%v)", key, s.w.PTTL(key))
		}
		s.w.Do("DEL", key)
	}
	s.closeAll()
	synctest.Wait() // of a dead one, Close gives up, and the rest of it goes on for a moment
}

// actor reads, writes, nests, downgrades, tries to upgrade, extends, unlocks and
// gives up.
func (s *rwStress) actor(c *stressClient, id uint64, owner holdfast.Owner) {
	rng := rand.New(rand.NewPCG(s.seed, id))
	nap := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
	for !s.stopping.Load() && !c.closed.Load() {
		nap(2 * time.Second)
		name := s.names[rng.IntN(len(s.names))]
		if s.uses['f'] && rng.IntN(10) == 0 {
			s.forceRW(c, name, rng.IntN(2) == 0)
			continue
		}
		base := background
		if owner != (holdfast.Owner{}) {
			base = holdfast.WithOwner(base, owner)
		}
		h := s.lockRW(c, name, base, rng, rng.IntN(2) == 0, holdfast.Owner{})
		if h == nil {
			continue
		}
		holds := []*rwRecord{h}
		for range rng.IntN(5) {
			nap(min(2*s.lease, 2*time.Second))
			if len(holds) == 0 {
				break
			}
			i := rng.IntN(len(holds))
			parent := holds[i]
			switch {
			case s.uses['e'] && rng.IntN(3) == 0:
				if d := min(s.lease, time.Duration(1+rng.Int64N(int64(2*time.Second)))); d >= time.Millisecond {
					_ = parent.Extend(background, d)
				}
			case rng.IntN(3) == 0:
				s.unlockRW(parent, rng)
				holds = slices.Delete(holds, i, i+1)
			default:
				ctx := parent.Context()
				if rng.IntN(2) == 0 {
					ctx = holdfast.WithOwner(background, parent.Owner())
				}
				if h := s.lockRW(c, name, ctx, rng, rng.IntN(2) == 0, parent.Owner()); h != nil {
					holds = append(holds, h)
				}
			}
		}
		if rng.IntN(4) == 0 {
			nap(min(3*s.lease, time.Minute)) // let the watchdog work
		}
		endAll(holds, rng, s.unlockRW)
	}
}

// lockRW locks one side. nested is whose hold it is nested in, if it is.
func (s *rwStress) lockRW(
	c *stressClient, name string, ctx context.Context, rng *rand.Rand, writes bool, nested holdfast.Owner,
) *rwRecord {
	var kind []holdfast.RWOption
	if rng.IntN(2) == 0 {
		kind = append(kind, holdfast.WritersFirst())
	}
	if rng.IntN(2) == 0 {
		kind = append(kind, holdfast.Fenced())
	}
	var options []holdfast.LockOption
	if rng.IntN(3) == 0 {
		options = append(options, holdfast.FixedLease(50*time.Millisecond+time.Duration(rng.Int64N(int64(s.lease)))))
	}
	switch rng.IntN(4) {
	case 0:
		options = append(options, holdfast.Wait(time.Duration(rng.Int64N(int64(2*time.Second)))))
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		after := time.Duration(rng.Int64N(int64([]time.Duration{10 * time.Millisecond, s.timeout, 5 * time.Second}[rng.IntN(3)])))
		time.AfterFunc(after, cancel) // it may end the hold's context later, and that changes nothing
	}
	if s.uses['o'] {
		// While one goroutine waits in line to read, another one of its owner may
		// begin to write, and then wait for the first one, which waits for it.
		options = append(options, holdfast.Wait(time.Duration(rng.Int64N(int64(10*time.Second)))))
	}
	m := c.NewRWMutex(name, kind...)
	var l holdfast.Locker = m.RLocker()
	if writes {
		l = m
	}
	waiter := &rwWaiter{name: name, writes: writes}
	s.mu.Lock()
	s.waiters[waiter] = struct{}{}
	s.mu.Unlock()
	start := time.Now()
	h, err := l.Lock(ctx, options...)
	s.mu.Lock()
	delete(s.waiters, waiter)
	s.mu.Unlock()
	owner, _ := holdfast.OwnerFrom(ctx, l)
	if (h == nil) == (err == nil) {
		s.failf("Lock returned %v, %v", h, err)
	}
	if err != nil {
		s.logf("client %d: Lock(%s, %v, writes %v) after %v: %v", c.id, name, owner, writes, time.Since(start), err)
		if errors.Is(err, holdfast.ErrReentrant) && (!writes || !s.uses['o'] && !s.reads(name, owner)) {
			s.failf("%v is refused for no reason: %v", owner, err)
		}
		return nil
	}
	r := &rwRecord{record: &record{Hold: h, from: time.Now(), client: c}, writes: writes, fresh: owner == (holdfast.Owner{})}
	s.logf("client %d: Lock(%s, %v, writes %v) after %v: granted until %v", c.id, name, h.Owner(), writes, time.Since(start), h.Deadline().Sub(s.start))
	if nested != (holdfast.Owner{}) && h.Owner() != nested {
		s.failf("nested in %v, and granted to %v", nested, h.Owner())
	}
	s.grantedRW(r)
	return r
}

// reads reports whether a hold of the owner for reading is handed out.
func (s *rwStress) reads(name string, owner holdfast.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.holds {
		if r.Name() == name && !r.writes && r.Owner() == owner {
			return true
		}
	}
	return false
}

// grantedRW checks that nobody writes while another one is in.
func (s *rwStress) grantedRW(r *rwRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r.excused = now.Before(s.forced[r.Name()])
	s.changes[r.Name()]++
	reads, writes := false, false
	for o := range s.holds {
		if o.Name() != r.Name() {
			continue
		}
		if o.Owner() == r.Owner() && o.writes {
			writes = true // or did until now
		}
		if !o.live(now) || !r.live(now) {
			continue
		}
		if o.Owner() == r.Owner() {
			reads = reads || !o.writes
		} else if o.writes || r.writes {
			s.failf("%s: %v (writes %v, since %v, until %v) and %v (writes %v) overlap", r.Name(), o.Owner(), o.writes,
				o.from.Sub(s.start), o.Deadline().Sub(s.start), r.Owner(), r.writes)
		}
	}
	for j := range s.theirs {
		if j.Name == r.Name() && now.Before(j.until) && r.live(now) && (j.writes || r.writes) {
			s.failf("%s: %s of Redisson's (writes %v, until %v) and %v (writes %v) overlap", j.Name, j.Owner, j.writes,
				j.until.Sub(s.start), r.Owner(), r.writes)
		}
	}
	if r.writes && reads && !writes && !s.uses['o'] && r.live(now) {
		s.failf("%s: %v was a reader and is the writer now", r.Name(), r.Owner())
	}
	if r.writes && r.Token() > 0 && r.live(now) && !s.uses['o'] {
		if r.Token() < s.tokens[r.Name()] {
			s.failf("%s: token %d after %d", r.Name(), r.Token(), s.tokens[r.Name()])
		}
		s.tokens[r.Name()] = r.Token()
	}
	s.holds[r] = struct{}{}
}

func (s *rwStress) unlockRW(r *rwRecord, rng *rand.Rand) {
	s.mu.Lock()
	delete(s.holds, r)
	s.changes[r.Name()]++
	s.mu.Unlock()
	s.unlock(r.record, rng)
	s.mu.Lock()
	s.changes[r.Name()]++
	s.mu.Unlock()
}

// forceRW takes one side away. See force.
func (s *rwStress) forceRW(c *stressClient, name string, writes bool) {
	excuse := func(until time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forced[name] = until
		for r := range s.holds {
			if r.Name() == name {
				r.excused = true
			}
		}
	}
	excuse(time.Now().Add(time.Hour))
	force := c.NewRWMutex(name).RLocker().ForceUnlock
	if writes {
		force = c.NewRWMutex(name).ForceUnlock
	}
	_, err := force(background)
	s.logf("client %d: ForceUnlock(%s, writes %v): %v", c.id, name, writes, err)
	excuse(time.Now().Add(s.timeout/3 + time.Second))
}

// monitor looks at Redis every so often.
func (s *rwStress) monitor() {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	pause := func() time.Duration {
		if s.calm.Load() {
			return 2 * time.Second
		}
		return time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
	}
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(pause()):
		}
		s.mu.Lock()
		counts := map[string]int{}
		for r := range s.holds {
			s.compare(r, counts)
		}
		s.oversleep()
		s.mu.Unlock()
	}
}

// compare holds Redis against what a holder believes. s.mu is held, so the hold
// is not being unlocked.
func (s *rwStress) compare(r *rwRecord, counts map[string]int) {
	now := time.Now()
	if !r.live(now) {
		return
	}
	field := r.Owner().String()
	if r.writes {
		field = protocol.WriterField(field)
	}
	known := r.Name() + " " + field
	if shared := known + " shared"; !r.fresh || counts[shared] == 0 {
		counts[known]++
		if r.fresh {
			counts[shared]++
		}
	}
	want := counts[known]
	all := s.w.Do("HGETALL", r.Name())
	count, _ := strconv.Atoi(s.w.Do("HGET", r.Name(), field))
	left := r.Deadline().Sub(now)
	lock, read := s.w.PTTL(r.Name()), left
	if !r.writes {
		read = -1
		for i := range count {
			read = max(read, s.w.PTTL(protocol.ReadHoldKey(r.Name(), r.Owner().String(), i+1)))
		}
	}
	if r.live(time.Now()) && (count < want || lock < left || read < left) {
		s.failf("%s: %v trusts its hold (writes %v, %d known) for %v more; in Redis %s, for %v, its key for %v",
			r.Name(), r.Owner(), r.writes, want, left, all, lock, read)
	}
}

// oversleep looks for waiters who could have been let in. s.mu is held.
func (s *rwStress) oversleep() {
	// Redisson does not say that its writers go on as readers (L10). And who would read waits while its owner waits to write.
	if !s.uses['x'] || s.uses['j'] || s.uses['o'] {
		return
	}
	for _, name := range s.names {
		mode := s.w.Do("HGET", name, "mode")
		reserved := s.w.Do("EXISTS", protocol.ReservationKey(name)) == "1"
		for w := range s.waiters {
			if w.name != name {
				continue
			}
			free := s.w.Do("EXISTS", name) == "0" || !w.writes && mode == "read" && !reserved
			if !free || w.changes != s.changes[name] {
				w.changes, w.idle = s.changes[name], time.Time{}
			}
			switch {
			case free && w.idle.IsZero():
				w.idle = time.Now()
			case free && time.Since(w.idle) > 1300*time.Millisecond:
				s.failf("%s: it could be taken since %v, and a waiter (writes %v) sleeps", name, w.idle.Sub(s.start), w.writes)
				w.idle = time.Now().Add(time.Hour)
			}
		}
	}
}

// theirs is a hold of Redisson's.
type theirs struct {
	kit.Redisson
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
		j := kit.NewRedisson(s.w, s.names[rng.IntN(len(s.names))], fmt.Sprintf("c0ffee:%d", id))
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
func (s *rwStress) theirTurn(j kit.Redisson, lease time.Duration, writes bool) *theirs {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ask := j.Read
	if writes {
		ask = j.Write
	}
	got := ask(lease)
	s.logf("redisson %s: %s, writes %v: %v", j.Owner, j.Name, writes, got)
	if !got {
		return nil
	}
	h := &theirs{j, writes, now.Add(lease)}
	for r := range s.holds {
		if r.Name() == j.Name && r.live(now) && (r.writes || writes) {
			s.failf("%s: %v (writes %v, until %v) and %s of Redisson's (writes %v) overlap", j.Name, r.Owner(), r.writes,
				r.Deadline().Sub(s.start), j.Owner, writes)
		}
	}
	s.changes[j.Name]++
	s.theirs[h] = struct{}{}
	return h
}

func (s *rwStress) theyLeave(h *theirs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.theirs, h)
	s.changes[h.Name]++
	// The memory driver's server rounds what is left of a lease down to whole ms when
	// a script reads it and sets it anew. Redis counts in whole ms only, and loses
	// nothing.
	expired := !time.Now().Before(h.until.Add(-time.Millisecond))
	leave := h.ReadNoMore
	if h.writes {
		leave = h.WriteNoMore
	}
	got := leave()
	s.logf("redisson %s: leaves %s, writes %v: %v", h.Owner, h.Name, h.writes, got)
	if got == "<nil>" && !expired {
		s.failf("%s: the hold of Redisson's %s (writes %v) is gone, and nobody took it", h.Name, h.Owner, h.writes)
	}
}
