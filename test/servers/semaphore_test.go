package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Semaphores and latches on every driver, in real time.
func TestSemaphoreConformance(t *testing.T) {
	t.Parallel()
	for _, p := range kit.Standalone(t) {
		for name, test := range map[string]func(*testing.T, *kit.Platform){
			"PermitsOnTheWire":     permitsOnTheWire,
			"PermitsTakenAreTold":  permitsTakenAreTold,
			"SemaphoreOnTheWire":   semaphoreOnTheWire,
			"LatchOnTheWire":       latchOnTheWire,
			"HandOvers":            semaphoresHandOver,
			"ObjectOperations":     objectOperations,
			"L17_ManyExpireAtOnce": manyExpireAtOnce,
		} {
			if p.Name == "memory" && strings.HasPrefix(name, "L17") {
				continue // its Lua is so slow that it would stop the other tests; see package permits
			}
			t.Run(p.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}

func permitsOnTheWire(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	s := permitsOf(t, p, name, 5)
	held := "{" + name + "}:timeout"
	before := time.Now()
	h := kit.Must(t)(s.Acquire(background, 2, holdfast.FixedLease(time.Hour)))
	wantReply(t, p, name, "3", "GET", name)
	wantReply(t, p, name, "2", "ZCARD", held)
	first := "return #redis.call('ZRANGE', KEYS[1], 0, 0)[1]"
	wantReply(t, p, name, "16", "EVAL", first, "1", held) // raw bytes, as in Redisson
	wantReply(t, p, name, "2", "ZCOUNT", held,            // by the server's clock, which is ours here
		fmt.Sprint(before.Add(time.Hour).UnixMilli()), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()))
	if ids := h.PermitIDs(); len(ids) != 2 || len(ids[0].String()) != 32 || ids[0] == ids[1] {
		t.Errorf("ids %v", ids)
	}
	found, err := s.Inspect(background)
	if err != nil || len(found.Holders) != 2 || found.Permits != 5 || found.Available != 3 || !found.HeldBy(h.PermitIDs()[0]) {
		t.Errorf("Inspect: %+v, %v", found, err)
	}
	kit.OK(t, s.ReleasePermits(background, h.PermitIDs()[0]), s.SetPermits(background, 4), s.AddPermits(background, 1))
	wantReply(t, p, name, "4", "GET", name)
	kit.Unlock(t, h) // it had one left
	wantReply(t, p, name, "5", "GET", name)
	wantReply(t, p, name, "0", "EXISTS", held)
}

// permitsTakenAreTold has another client take a long holder's permits by their ids,
// or all by force: the holder is told, and with a part of them left it goes on.
func permitsTakenAreTold(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	s, fixed := permitsOf(t, p, name, 5), holdfast.FixedLease(time.Hour) // it is not renewed, and hears of nothing but by message
	other := p.Client(t).NewPermitSemaphore(name)
	part := kit.Must(t)(s.Acquire(background, 2, fixed))
	byID, forced := kit.Must(t)(s.Lock(background, fixed)), kit.Must(t)(s.Lock(background, fixed))
	// For a second they do not listen.
	kit.WaitFor(t, "the subscription", func() bool { return listensOn(t, p, name, "holdfast_lost:{"+name+"}") })
	kit.OK(t, other.ReleasePermits(background, append(byID.PermitIDs(), part.PermitIDs()[0])...))
	<-byID.Context().Done()
	kit.WaitFor(t, "the other hold to know", func() bool { return len(part.PermitIDs()) == 1 })
	kit.OK(t, part.Context().Err(), forced.Context().Err())
	kit.WantError(t, byID.Unlock(), holdfast.ErrLost)
	kit.Unlock(t, part)
	wantDid(t, true)(other.ForceUnlock(background))
	<-forced.Context().Done()
	kit.WantError(t, forced.Unlock(), holdfast.ErrLost)
	wantReply(t, p, name, "5", "GET", name)
}

func semaphoreOnTheWire(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	s := p.Client(t).NewUnleasedSemaphore(name)
	kit.WantError(t, s.TryAcquire(background, 1), holdfast.ErrLocked)
	kit.OK(t, s.Release(2)) // makes it
	wantReply(t, p, name, "2", "GET", name)
	wantDid(t, false)(s.TrySetPermits(background, 7))
	kit.OK(t, s.Acquire(background, 2), s.AddPermits(background, -3))
	wantReply(t, p, name, "-3", "GET", name)
	for _, want := range []int{-3, 0} {
		if n, err := s.Drain(background); n != want || err != nil {
			t.Error(n, err)
		}
		wantReply(t, p, name, "0", "GET", name)
	}
	p.Do(t, name, "DEL", name)
	wantDid(t, true)(s.TrySetPermits(background, 7))
	wantDid(t, true)(s.Expire(background, time.Minute))
	kit.OK(t, s.Acquire(background, 2), s.Release(1), s.AddPermits(background, 1))
	wantReply(t, p, name, "7", "GET", name)
	if ttl := p.Do(t, name, "TTL", name); ttl[0] == "-1" {
		t.Error("A9: the time to live is gone")
	}
}

func latchOnTheWire(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	l := p.Client(t).NewLatch(name)
	kit.OK(t, l.Await(background), l.CountDown())
	wantReply(t, p, name, "0", "EXISTS", name)
	wantDid(t, true)(l.TrySetCount(background, 20))
	done := make(chan error, 4)
	for range cap(done) {
		other := p.Client(t).NewLatch(name)
		go func() { done <- other.Await(background) }()
	}
	var wg sync.WaitGroup
	for range 19 {
		wg.Go(func() { kit.OK(t, l.CountDown()) })
	}
	wg.Wait()
	wantReply(t, p, name, "1", "GET", name)
	kit.OK(t, l.CountDown())
	for range cap(done) {
		kit.OK(t, <-done)
	}
	wantReply(t, p, name, "0", "EXISTS", name)
}

// semaphoresHandOver has one client wait for what another has, of each kind.
func semaphoresHandOver(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t), p.Client(t)
	waits := func(waiting func() bool, wait func() error, end func() error) {
		t.Helper()
		got := make(chan error, 1)
		go func() { got <- wait() }()
		kit.WaitFor(t, "the waiter", waiting)
		kit.OK(t, end(), <-got)
		p.Do(t, name, "DEL", name)
	}
	listens := func(channel string) func() bool {
		return func() bool { return listensOn(t, p, name, channel+"{"+name+"}") }
	}
	permitsOf(t, p, name, 3)
	h := kit.Must(t)(a.NewPermitSemaphore(name).Acquire(background, 2))
	waits(func() bool { return p.Standing(t, name) == 1 }, func() error {
		next, err := b.NewPermitSemaphore(name).Acquire(background, 2)
		return errors.Join(err, next.Unlock())
	}, h.Unlock)
	sem := a.NewUnleasedSemaphore(name)
	kit.OK(t, sem.Release(1), sem.Acquire(background, 1))
	waits(listens("redisson_sc:"), func() error { return b.NewUnleasedSemaphore(name).Acquire(background, 2) },
		func() error { return sem.Release(2) })
	l := a.NewLatch(name)
	wantDid(t, true)(l.TrySetCount(background, 1))
	waits(listens("redisson_countdownlatch__channel__"), func() error { return b.NewLatch(name).Await(background) },
		func() error { return l.CountDown() })
}

// countable is what can be done with a semaphore or a latch as with any object.
type countable interface {
	kit.Inspectable
	Expire(ctx context.Context, d time.Duration) (bool, error)
	Delete(ctx context.Context) (bool, error)
}

func objectOperations(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t, holdfast.WithTimeout(30*time.Second)), kit.Fresh() // a Delete whose first attempt is lost may have deleted
	semaphore, permits, latch := c.NewUnleasedSemaphore(name+"s"), c.NewPermitSemaphore(name+"p"), c.NewLatch(name+"l")
	for o, create := range map[countable]func(context.Context, int) (bool, error){
		semaphore: semaphore.TrySetPermits, permits: permits.TrySetPermits, latch: latch.TrySetCount,
	} {
		lives := func(most time.Duration) {
			t.Helper()
			got, err := kit.TTLOf(o)
			if err != nil || got > most || got < most-10*time.Second {
				t.Errorf("%T: TTL %v, %v; want %v", o, got, err, most)
			}
		}
		lives(0)
		wantDid(t, false)(o.Expire(background, time.Minute))
		wantDid(t, false)(o.Delete(background))
		wantDid(t, true)(create(background, 3))
		lives(holdfast.NoExpiry)
		wantDid(t, true)(o.Expire(background, time.Minute))
		lives(time.Minute)
		wantDid(t, true)(o.Expire(background, holdfast.NoExpiry))
		lives(holdfast.NoExpiry)
		_, err := o.Expire(background, 0)
		kit.WantError(t, err, holdfast.ErrInvalid)
		var held *holdfast.Hold
		if o == countable(permits) {
			held = kit.Must(t)(permits.Lock(background))
		}
		wantDid(t, true)(o.Delete(background))
		lives(0)
		if held != nil {
			kit.WantError(t, held.Unlock(), holdfast.ErrLost)
		}
	}
}

// L17: more permits expire at once than Lua's stack can bear.
func manyExpireAtOnce(t *testing.T, p *kit.Platform) {
	const holds = 4
	name := kit.Fresh()
	s := permitsOf(t, p, name, holds*holdfast.MaxPermitsPerHold)
	for range holds {
		_ = kit.Must(t)(s.Acquire(background, holdfast.MaxPermitsPerHold, holdfast.FixedLease(3*time.Second)))
	}
	kit.WaitFor(t, "all permits", func() bool {
		free, err := kit.Available(s)
		kit.OK(t, err)
		return free == holds*holdfast.MaxPermitsPerHold
	})
}

func TestSemaphoresOnCluster(t *testing.T) {
	onClusters(t, func(t *testing.T, p *kit.Platform) {
		for range 3 { // on several nodes
			semaphoresHandOver(t, p)
		}
		permitsTakenAreTold(t, p)
		tagged := "{tag}:" + kit.Fresh()
		kit.Unlock(t, kit.Must(t)(permitsOf(t, p, tagged, 2).Acquire(background, 2)))
		kit.OK(t, p.Client(t).NewUnleasedSemaphore("{tag}:"+kit.Fresh()).Release(1))
		// A10: its channel, which Redisson puts braces around, is in another slot.
		kit.WantError(t, p.Client(t).NewLatch(tagged).Await(background), holdfast.ErrInvalid)
	})
}

// Several processes want the permits of one semaphore, some of them two at once,
// and one is killed while it holds some. Never are more held than there are, and
// all of them at times.
func TestPermitsOfProcesses(t *testing.T) {
	t.Parallel()
	const permits = 3
	s, p, _ := started(t)
	sem := permitsOf(t, p, "permits", permits)
	var mu sync.Mutex
	changes := map[int64]int{} // when so many permits more were held, or fewer
	var holders [3]*process
	var readers sync.WaitGroup
	heard := make(chan struct{}, 1)
	for i := range holders {
		holders[i] = startProcess(t, "permits", s, "permits")
		readers.Go(func() {
			open := map[string]int{} // what it has taken and not given back
			for holders[i].out.Scan() {
				var id string
				var at int64
				var n int
				if _, err := fmt.Sscan(holders[i].out.Text(), &id, &at, &n); err != nil {
					t.Errorf("%q: %v", holders[i].out.Text(), err)
				}
				mu.Lock()
				changes[at] += n
				mu.Unlock()
				open[id] += n
				select {
				case heard <- struct{}{}:
				default:
				}
			}
			// Killed, it holds them until their leases end, and surely until now.
			mu.Lock()
			defer mu.Unlock()
			for _, n := range open {
				changes[kit.Now()] -= n
			}
		})
	}
	<-heard
	time.Sleep(700 * time.Millisecond) // they work
	kit.OK(t, holders[0].cmd.Process.Kill())
	time.Sleep(7 * time.Second) // they work on, and what the dead one had comes back
	for _, h := range holders {
		_ = h.in.Close()
	}
	readers.Wait()
	for i, h := range holders[1:] {
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i+1, err)
		}
	}
	held, most := 0, 0
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		held += changes[at]
		most = max(most, held)
	}
	if most > permits || most < 2 || held != 0 {
		t.Errorf("%d permits were held at once, of %d, and %d still are", most, permits, held)
	}
	kit.WaitFor(t, "all permits to be back", func() bool {
		n, err := kit.Available(sem)
		return err == nil && n == permits
	})
	t.Logf("%d changes", len(changes))
}

// takePermits is one of those processes. It ends with its standard input.
func takePermits(addr, name string) error {
	c, end, err := clientOf(addr, holdfast.WithLease(6*time.Second))
	if err != nil {
		return err
	}
	defer end()
	ctx := untilInputEnds()
	failed := make(chan error, 4)
	for id := range cap(failed) {
		go func() { failed <- takePermitsUntil(ctx, c.NewPermitSemaphore(name), id, 1+id%2) }()
	}
	for range cap(failed) {
		err = errors.Join(err, <-failed)
	}
	return err
}

func takePermitsUntil(ctx context.Context, sem *holdfast.PermitSemaphore, id, n int) error {
	for ctx.Err() == nil {
		h, err := sem.Acquire(background, n)
		if err != nil {
			return err
		}
		say(id, kit.Now(), n)
		time.Sleep(3 * time.Millisecond) // the work
		say(id, kit.Now(), -n)
		if err := h.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// rights are what a user of a semaphore or a latch has to be allowed.
var rights = map[string]struct {
	commands       string
	keys, channels []string
	use            func(t *testing.T, c *holdfast.Client, asking asking) error
}{
	"permits": {
		"get set exists del incrby decrby pttl pexpire zadd zrem zscore zcount zcard zrange zrangebyscore zremrangebyscore",
		[]string{"~s:*", "~{s:*", "~holdfast_next:{s:*", "~holdfast_calls:{s:*"},
		[]string{"&redisson_sc:{s:*", "&holdfast_lost:{s:*"},
		usePermits,
	},
	"semaphore": {
		"get set exists del incrby pttl pexpire zadd zrem zscore zrangebyscore",
		[]string{"~s:*", "~holdfast_next:{s:*", "~holdfast_calls:{s:*"},
		[]string{"&redisson_sc:{s:*"},
		useSemaphore,
	},
	"latch": {
		"get set exists del decr pttl pexpire zadd zrem zscore zrangebyscore",
		[]string{"~s:*", "~holdfast_calls:{s:*", "~holdfast_zero:{s:*"},
		[]string{"&redisson_countdownlatch__channel__{s:*"},
		useLatch,
	},
}

// The smallest rights that each kind needs: with them all goes well, and without
// any of them something fails.
func TestSemaphoreRights(t *testing.T) {
	t.Parallel()
	for kind, row := range rights {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			all := slices.Concat(row.keys, row.channels)
			for command := range strings.FieldsSeq("eval evalsha time publish subscribe unsubscribe " + row.commands) {
				all = append(all, "+"+command)
			}
			use := func(rights []string) error {
				s.Cli(t, "FLUSHALL")
				s.Cli(t, "SCRIPT", "FLUSH")
				s.Cli(t, kit.Known(t, append([]string{
					"ACL", "SETUSER", "limited", "reset", "on", "nopass", "resetchannels", "-@all", "+hello",
				}, rights...))...)
				p := kit.GoRedis("acl", redis.UniversalOptions{
					Addrs: []string{s.Addr()}, Username: "limited", Password: "any", DisableIdentity: true,
				}, kit.CLI(s))
				return row.use(t, p.Client(t), askedOnce(t, s, kind != "latch"))
			}
			kit.OK(t, use(all))
			for i, right := range kit.Known(t, all) {
				if right == "+unsubscribe" {
					continue // without it, a subscription that nobody needs any more stays for longer
				}
				if use(slices.Delete(slices.Clone(all), i, i+1)) == nil {
					t.Errorf("nothing fails without %s", right)
				}
			}
		})
	}
}

// asking starts a waiter, and returns when it has been refused, or has failed because a right is missing: it has a
// reservation, or, if it waits for a latch, one more script has run and it listens.
type asking func(wait func() error) (got chan error)

func askedOnce(t *testing.T, s *redistest.Server, reserves bool) asking {
	t.Helper()
	scripts := func() (n int) {
		for _, line := range kit.Lines(s.Cli(t, "INFO", "commandstats")) {
			if text, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				n = kit.Number(text[:strings.IndexByte(text, ',')])
			}
		}
		return n
	}
	reserved := func() bool { return s.Cli(t, "EXISTS", "holdfast_next:{s:x}") == "1" }
	listens := func() bool { // or may not subscribe, and is waited for until it says so
		return strings.HasSuffix(s.Cli(t, "PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{s:x}"), "1")
	}
	within := func(most time.Duration, done func() bool) {
		for end := time.Now().Add(most); !done() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	return func(wait func() error) chan error {
		// A waiter before this one has left, unless it may not delete what it reserved.
		within(time.Second, func() bool { return !reserved() })
		before, got := scripts(), make(chan error, 1)
		go func() { got <- wait() }()
		within(10*time.Second, func() bool {
			return len(got) > 0 || reserved() || !reserves && scripts() != before && listens()
		})
		return got
	}
}

// usePermits, useSemaphore and useLatch do all that a kind can do, and return what fails first.
func usePermits(t *testing.T, c *holdfast.Client, asking asking) error {
	t.Helper()
	s := c.NewPermitSemaphore("s:x")
	_, err := s.TrySetPermits(background, 3)
	if err := errors.Join(err, s.AddPermits(background, 2), s.SetPermits(background, 3)); err != nil {
		return err
	}
	h, err := s.Acquire(background, 3, holdfast.Wait(time.Second))
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, 2, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrLocked) {
		return err
	}
	got := asking(func() error {
		next, err := s.Acquire(background, 2, holdfast.Wait(2*time.Second), holdfast.FixedLease(300*time.Millisecond))
		if expired := time.Now().Add(320 * time.Millisecond); err == nil {
			_, err = kit.LeaseOf(s, next.PermitIDs()[0])
			<-next.Context().Done()
			time.Sleep(time.Until(expired)) // on the server, too; and not given back
		}
		return err
	})
	_, err1 := s.Inspect(background)
	_, err2 := kit.Available(s)
	if err := errors.Join(h.Extend(background, time.Minute), h.Unlock(), err1, err2, <-got); err != nil {
		return err
	}
	if h, err = s.TryLock(background); err == nil {
		id := h.PermitIDs()[0]
		err = errors.Join(s.ExtendPermit(background, id, time.Minute), s.ReleasePermits(background, id))
	}
	_, err3 := s.ForceUnlock(background)
	return errors.Join(err, err3)
}

func useSemaphore(t *testing.T, c *holdfast.Client, asking asking) error {
	t.Helper()
	s := c.NewUnleasedSemaphore("s:x")
	_, err := s.TrySetPermits(background, 3)
	if err = errors.Join(err, s.Acquire(background, 3, holdfast.Wait(time.Second))); err != nil {
		return err
	}
	if err := s.Acquire(background, 2, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrLocked) {
		return err
	}
	got := asking(func() error { return s.Acquire(background, 2, holdfast.Wait(2*time.Second)) })
	err = errors.Join(s.Release(2), <-got)
	_, err1 := kit.Available(s)
	_, err2 := s.Drain(background)
	return errors.Join(err, err1, err2)
}

func useLatch(t *testing.T, c *holdfast.Client, asking asking) error {
	t.Helper()
	l := c.NewLatch("s:x")
	if _, err := l.TrySetCount(background, 2); err != nil {
		return err
	}
	_, err1 := l.Inspect(background)
	if err := l.Await(background, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrNotZero) { // from here on the script is known
		return errors.Join(err, errors.New("it did not wait"))
	}
	got := asking(func() error { return l.Await(background, holdfast.Wait(2*time.Second)) })
	err := errors.Join(err1, l.CountDown(), l.CountDown(), <-got)
	_, err2 := l.Delete(background)
	return errors.Join(err, err2)
}
