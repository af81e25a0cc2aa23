package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Semaphores and latches on every driver, in real time.
func TestSemaphoreConformance(t *testing.T) {
	t.Parallel()
	suite := map[string]func(*testing.T, *kit.Platform){
		"PermitsOnTheWire":     permitsOnTheWire,
		"PermitsAreRenewed":    permitsAreRenewed,
		"PermitsDoNotOverlap":  permitsDoNotOverlap,
		"PermitsTakenAreTold":  permitsTakenAreTold,
		"SemaphoreKeepsCount":  semaphoreKeepsCount,
		"SemaphoreOnTheWire":   semaphoreOnTheWire,
		"LatchOnTheWire":       latchOnTheWire,
		"HandOvers":            func(t *testing.T, p *kit.Platform) { semaphoresHandOver(t, p, kit.Fresh()) },
		"ManyGetTheirTurn":     manyGetTheirTurn,
		"L17_ManyExpireAtOnce": manyExpireAtOnce,
	}
	for _, p := range kit.Standalone(t) {
		for name, test := range suite {
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

func wantReply(t *testing.T, p *kit.Platform, name, want string, args ...string) {
	t.Helper()
	if got := strings.Join(p.Do(t, name, args...), " "); got != want {
		t.Errorf("%v = %q, want %q", args, got, want)
	}
}

// permitsOf returns a semaphore of n permits.
func permitsOf(t *testing.T, p *kit.Platform, name string, n int) *holdfast.PermitSemaphore {
	t.Helper()
	s := p.Client(t).NewPermitSemaphore(name)
	if set, err := s.TrySetPermits(background, n); !set || err != nil {
		t.Fatal(set, err)
	}
	return s
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
	if free, err := kit.Available(s); free != 3 || err != nil {
		t.Error(free, err)
	}
	found, err := s.Inspect(background)
	if err != nil || len(found.Holders) != 2 || found.Permits != 5 || !found.HeldBy(h.PermitIDs()[0]) {
		t.Errorf("Inspect: %+v, %v", found, err)
	}
	kit.OK(t, s.ReleasePermits(background, h.PermitIDs()[0]), s.SetPermits(background, 4), s.AddPermits(background, 1))
	wantReply(t, p, name, "4", "GET", name)
	kit.Unlock(t, h) // it had one left
	wantReply(t, p, name, "5", "GET", name)
	wantReply(t, p, name, "0", "EXISTS", held)
}

func permitsAreRenewed(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	permitsOf(t, p, name, 3)
	s := p.Client(t, holdfast.WithLease(8*time.Second)).NewPermitSemaphore(name)
	one, two := kit.Must(t)(s.Lock(background)), kit.Must(t)(s.Acquire(background, 2))
	_, err := p.Client(t).NewPermitSemaphore(name).Lock(background, holdfast.Wait(11*time.Second))
	kit.WantError(t, err, holdfast.ErrLocked)
	for _, h := range []*holdfast.Hold{one, two} {
		if h.Context().Err() != nil {
			t.Errorf("lost although renewed: %v", context.Cause(h.Context()))
		}
		kit.Unlock(t, h)
	}
	kit.WaitFor(t, "the permits", func() bool { return p.Do(t, name, "GET", name)[0] == "3" }) // who gave up has left the line
}

// permitsTakenAreTold has another client take a long holder's permits by their ids,
// or all by force: the holder is told by message, and with a part of them left it
// goes on.
func permitsTakenAreTold(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	s := permitsOf(t, p, name, 5)
	other := p.Client(t).NewPermitSemaphore(name)
	hold := func(n int, options ...holdfast.LockOption) *holdfast.Hold {
		return kit.Must(t)(s.Acquire(background, n, options...))
	}
	part, byID, forced := hold(2), hold(1, holdfast.FixedLease(time.Minute)), hold(1)
	time.Sleep(1300 * time.Millisecond) // for a second they do not listen
	kit.WaitFor(t, "the subscription", func() bool { return listensOn(t, p, name, "holdfast_lost:{"+name+"}") })
	start := time.Now()
	kit.OK(t, other.ReleasePermits(background, append(byID.PermitIDs(), part.PermitIDs()[0])...))
	<-byID.Context().Done()
	took := time.Since(start)
	t.Logf("told after %v", took)
	if took > kit.ByMessage { // it is 100 ms where nothing else has to be done
		t.Errorf("told after %v", took)
	}
	kit.WaitFor(t, "the other hold to know", func() bool { return len(part.PermitIDs()) == 1 })
	kit.OK(t, part.Context().Err(), forced.Context().Err())
	kit.WantError(t, byID.Unlock(), holdfast.ErrLost)
	kit.Unlock(t, part)
	start = time.Now()
	if did, err := other.ForceUnlock(background); !did || err != nil {
		t.Error(did, err)
	}
	<-forced.Context().Done()
	if took := time.Since(start); took > kit.ByMessage {
		t.Errorf("told of force after %v", took)
	}
	kit.WantError(t, forced.Unlock(), holdfast.ErrLost)
	wantReply(t, p, name, "5", "GET", name)
}

// listensOn reports whether one connection listens on a channel of the lock's.
func listensOn(t *testing.T, p *kit.Platform, name, channel string) bool {
	t.Helper()
	return slices.Contains(p.Do(t, name, "PUBSUB", "NUMSUB", channel), "1") ||
		p.Sharded && slices.Contains(p.Do(t, name, "PUBSUB", "SHARDNUMSUB", channel), "1")
}

// permitsDoNotOverlap has several clients contend for several permits each, of several numbers.
// Some holders crash, so to say: they give nothing back. At no time may more
// permits be held and trusted than there are.
func permitsDoNotOverlap(t *testing.T, p *kit.Platform) {
	const total = 4
	type change struct {
		at time.Time
		by int
	}
	var mu sync.Mutex
	var changes []change
	name := kit.Fresh()
	permitsOf(t, p, name, total)
	var wg sync.WaitGroup
	for range 4 {
		s := p.Client(t).NewPermitSemaphore(name)
		for g := range 4 {
			wg.Go(func() {
				for i := range 8 {
					n, crash := (g+i)%3+1, (g+i)%8 == 0
					lease := 10 * time.Second
					if crash {
						lease = 100 * time.Millisecond
					}
					h, err := s.Acquire(background, n, holdfast.FixedLease(lease))
					if crash && errors.Is(err, holdfast.ErrLost) {
						continue // it was slow to come
					}
					if err != nil {
						t.Error(err)
						return
					}
					from, to := time.Now(), h.Deadline()
					if !crash {
						time.Sleep(300 * time.Microsecond) // the work
						to = time.Now()
						kit.Unlock(t, h)
					}
					if to.Before(from) { // it was slow to come, and is lost
						continue
					}
					mu.Lock()
					changes = append(changes, change{from, n}, change{to, -n})
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	slices.SortFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	held, most := 0, 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	if most > total {
		t.Errorf("%d permits were held of %d", most, total)
	}
	if most < 2 {
		t.Errorf("no more than %d was held at once: that proves nothing", most)
	}
	time.Sleep(150 * time.Millisecond) // the last crashed one's lease
	if free, err := kit.Available(p.Client(t).NewPermitSemaphore(name)); free != total || err != nil {
		t.Errorf("%d available at the end, %v", free, err)
	}
}

// semaphoreKeepsCount has callers of several clients give up at any moment; at
// the end no permit is missing, and none too many, and never were there too many
// users.
func semaphoreKeepsCount(t *testing.T, p *kit.Platform) {
	const total = 3
	name := kit.Fresh()
	main := p.Client(t)
	if set, err := main.NewUnleasedSemaphore(name).TrySetPermits(background, total); !set || err != nil {
		t.Fatal(set, err)
	}
	var inside atomic.Int32
	var wg sync.WaitGroup
	var clients []*holdfast.Client
	for range 3 {
		c := p.Client(t)
		clients = append(clients, c)
		for g := range 4 {
			wg.Go(func() {
				s := c.NewUnleasedSemaphore(name)
				for i := range 25 {
					n := (g+i)%2 + 1
					patience := time.Duration(g*i)*time.Millisecond + 5*time.Millisecond
					// If all only ever gave up, they would ask faster than a slow server
					// answers, and nobody would ever be inside.
					staying := i%4 == 0
					if staying {
						patience = 30 * time.Second
					}
					ctx, cancel := context.WithTimeout(background, patience)
					if err := s.Acquire(ctx, n); err == nil {
						if now := inside.Add(int32(n)); now > total {
							t.Errorf("%d permits are taken of %d", now, total)
						}
						time.Sleep(3 * time.Millisecond)
						inside.Add(int32(-n))
						kit.OK(t, s.Release(n))
					} else if staying {
						t.Error(err)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	for _, c := range clients {
		kit.OK(t, c.Close()) // what was given up has been given back
	}
	wantReply(t, p, name, fmt.Sprint(total), "GET", name)
}

func semaphoreOnTheWire(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	s := p.Client(t).NewUnleasedSemaphore(name)
	kit.WantError(t, s.TryAcquire(background, 1), holdfast.ErrLocked)
	kit.OK(t, s.Release(2)) // makes it
	wantReply(t, p, name, "2", "GET", name)
	if set, err := s.TrySetPermits(background, 7); set || err != nil {
		t.Error(set, err)
	}
	kit.OK(t, s.Acquire(background, 2), s.AddPermits(background, -3))
	wantReply(t, p, name, "-3", "GET", name)
	if n, err := s.Drain(background); n != -3 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.Drain(background); n != 0 || err != nil {
		t.Error(n, err)
	}
	wantReply(t, p, name, "0", "GET", name)
	p.Do(t, name, "DEL", name)
	if set, err := s.TrySetPermits(background, 7); !set || err != nil {
		t.Error(set, err)
	}
	if there, err := s.Expire(background, time.Minute); !there || err != nil {
		t.Error(there, err)
	}
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
	if set, err := l.TrySetCount(background, 20); !set || err != nil {
		t.Fatal(set, err)
	}
	done := make(chan error, 4)
	for range 4 {
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
	for range 4 {
		kit.OK(t, <-done)
	}
	wantReply(t, p, name, "0", "EXISTS", name)
}

// semaphoresHandOver has one client wait for what another has, of each kind, and
// be told of it.
func semaphoresHandOver(t *testing.T, p *kit.Platform, name string) {
	t.Helper()
	a, b := p.Client(t), p.Client(t)
	waits := func(what string, waiting func() bool, wait func() error, end func() error) {
		t.Helper()
		got := make(chan time.Time, 1)
		go func() {
			err := wait()
			got <- time.Now()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}()
		kit.WaitFor(t, "the waiter", waiting)
		time.Sleep(20 * time.Millisecond) // the try after the subscription
		from := time.Now()
		kit.OK(t, end())
		if took := (<-got).Sub(from); took > kit.ByMessage {
			t.Errorf("%s: the waiter got it after %v", what, took)
		}
	}
	listens := func(channel string) func() bool {
		return func() bool { return listensOn(t, p, name, channel+"{"+name+"}") }
	}
	s := permitsOf(t, p, name, 3)
	h := kit.Must(t)(a.NewPermitSemaphore(name).Acquire(background, 2))
	waits("permits", func() bool { return p.Do(t, name, "ZCARD", kit.LineKey(name))[0] == "1" }, func() error {
		next, err := b.NewPermitSemaphore(name).Acquire(background, 2)
		if err != nil {
			return err
		}
		return next.Unlock()
	}, h.Unlock)
	if n, err := kit.Available(s); n != 3 || err != nil {
		t.Error(n, err)
	}
	p.Do(t, name, "DEL", name)
	sem := a.NewUnleasedSemaphore(name)
	kit.OK(t, sem.Release(1), sem.Acquire(background, 1))
	waits("semaphore", listens("redisson_sc:"), func() error { return b.NewUnleasedSemaphore(name).Acquire(background, 2) },
		func() error { return sem.Release(2) })
	p.Do(t, name, "DEL", name)
	l := a.NewLatch(name)
	if set, err := l.TrySetCount(background, 1); !set || err != nil {
		t.Fatal(set, err)
	}
	waits("latch", listens("redisson_countdownlatch__channel__"), func() error { return b.NewLatch(name).Await(background) },
		func() error { return l.CountDown() })
}

func manyGetTheirTurn(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	permitsOf(t, p, name, 3)
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 3 {
		s := p.Client(t).NewPermitSemaphore(name)
		for range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if h, err := s.Lock(ctx); err == nil {
						time.Sleep(time.Millisecond)
						kit.Unlock(t, h)
					}
				}
			})
		}
	}
	s := p.Client(t).NewPermitSemaphore(name)
	for range 5 {
		kit.Unlock(t, kit.Must(t)(s.Acquire(background, 3, holdfast.Wait(10*time.Second))))
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
		if err != nil {
			t.Fatal(err)
		}
		return free == holds*holdfast.MaxPermitsPerHold
	})
}

func TestSemaphoresOnCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	do := kit.OnCluster(s)
	for _, p := range []*kit.Platform{
		kit.GoRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		kit.RueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
		p.Sharded = redistest.AtLeast(t, 7, 0)
		t.Run(p.Name, func(t *testing.T) {
			for range 3 { // on several nodes
				semaphoresHandOver(t, p, kit.Fresh())
			}
			permitsTakenAreTold(t, p)
			tagged := "{tag}:" + kit.Fresh()
			kit.Unlock(t, kit.Must(t)(permitsOf(t, p, tagged, 2).Acquire(background, 2)))
			kit.OK(t, p.Client(t).NewUnleasedSemaphore("{tag}:"+kit.Fresh()).Release(1))
			// A10: its channel, which Redisson puts braces around, is in another slot.
			kit.WantError(t, p.Client(t).NewLatch(tagged).Await(background), holdfast.ErrInvalid)
		})
	}
}

func TestSemaphoresUnderSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return kit.Lines(s.Primary(t).Cli(t, args...))
	}
	for _, p := range []*kit.Platform{
		kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		kit.RueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, do),
	} {
		t.Run(p.Name, func(t *testing.T) { semaphoresHandOver(t, p, kit.Fresh()) })
	}
}

// The smallest rights that each kind needs: with them all goes well, and without
// any of them something fails.
func TestSemaphoreRights(t *testing.T) {
	t.Parallel()
	scripts := []string{"+eval", "+evalsha", "+time", "+publish", "+subscribe", "+unsubscribe"}
	keys := func(names ...string) (rules []string) {
		for _, name := range names {
			rules = append(rules, "~"+name)
		}
		return rules
	}
	for kind, row := range map[string]struct {
		commands, keys []string
		channels       []string
		use            func(t *testing.T, c *holdfast.Client, asking func() (asked func(got chan error))) error
	}{
		"permits": {
			[]string{
				"+get", "+set", "+exists", "+del", "+incrby", "+decrby", "+pttl", "+pexpire",
				"+zadd", "+zrem", "+zscore", "+zcount", "+zcard", "+zrange", "+zrangebyscore", "+zremrangebyscore",
			},
			keys("s:*", "{s:*", "holdfast_next:{s:*", "holdfast_calls:{s:*"),
			[]string{"&redisson_sc:{s:*", "&holdfast_lost:{s:*"},
			usePermits,
		},
		"semaphore": {
			[]string{
				"+get", "+set", "+exists", "+del", "+incrby", "+pttl", "+pexpire",
				"+zadd", "+zrem", "+zscore", "+zrangebyscore",
			},
			keys("s:*", "holdfast_next:{s:*", "holdfast_calls:{s:*"),
			[]string{"&redisson_sc:{s:*"},
			useSemaphore,
		},
		"latch": {
			[]string{
				"+get", "+set", "+exists", "+del", "+decr", "+pttl", "+pexpire",
				"+zadd", "+zrem", "+zscore", "+zrangebyscore",
			},
			keys("s:*", "holdfast_calls:{s:*", "holdfast_zero:{s:*"),
			[]string{"&redisson_countdownlatch__channel__{s:*"},
			useLatch,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			all := slices.Concat(scripts, row.commands, row.keys, row.channels)
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

// askedOnce returns what is called before a waiter is started. What that returns waits
// until the waiter has been refused, or has failed because a right is missing: it has a
// reservation, or, if it waits for a latch, one more script has run and it listens.
func askedOnce(t *testing.T, s *redistest.Server, reserves bool) func() (asked func(got chan error)) {
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
	return func() func(got chan error) {
		// A waiter before this one has left, unless it may not delete what it reserved.
		within(time.Second, func() bool { return !reserved() })
		before := scripts()
		return func(got chan error) {
			within(10*time.Second, func() bool {
				return len(got) > 0 || reserved() || !reserves && scripts() != before && listens()
			})
		}
	}
}

// usePermits, useSemaphore and useLatch do all that a kind can do. Asking is called
// before they start a waiter; see askedOnce.
func usePermits(t *testing.T, c *holdfast.Client, asking func() (asked func(got chan error))) error {
	t.Helper()
	s := c.NewPermitSemaphore("s:x")
	if _, err := s.TrySetPermits(background, 3); err != nil {
		return err
	}
	if err := errors.Join(s.AddPermits(background, 2), s.SetPermits(background, 3)); err != nil {
		return err
	}
	h, err := s.Acquire(background, 3, holdfast.Wait(time.Second))
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, 2, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrLocked) {
		return err
	}
	got, asked := make(chan error, 1), asking()
	go func() {
		next, err := s.Acquire(background, 2, holdfast.Wait(2*time.Second), holdfast.FixedLease(300*time.Millisecond))
		if expired := time.Now().Add(320 * time.Millisecond); err == nil {
			_, err = kit.LeaseOf(s, next.PermitIDs()[0])
			<-next.Context().Done()
			time.Sleep(time.Until(expired)) // on the server, too; and not given back
		}
		got <- err
	}()
	asked(got)
	_, err1 := s.Inspect(background)
	_, err2 := kit.Available(s)
	err = errors.Join(h.Extend(background, time.Minute), h.Unlock(), err1, err2)
	err = errors.Join(err, <-got)
	if err != nil {
		return err
	}
	if h, err = s.TryLock(background); err == nil {
		id := h.PermitIDs()[0]
		err = errors.Join(s.ExtendPermit(background, id, time.Minute), s.ReleasePermits(background, id))
	}
	_, err3 := s.ForceUnlock(background)
	return errors.Join(err, err3)
}

func useSemaphore(t *testing.T, c *holdfast.Client, asking func() (asked func(got chan error))) error {
	t.Helper()
	s := c.NewUnleasedSemaphore("s:x")
	_, err := s.TrySetPermits(background, 3)
	if err = errors.Join(err, s.Acquire(background, 3, holdfast.Wait(time.Second))); err != nil {
		return err
	}
	if err := s.Acquire(background, 2, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrLocked) {
		return err
	}
	got, asked := make(chan error, 1), asking()
	go func() { got <- s.Acquire(background, 2, holdfast.Wait(2*time.Second)) }()
	asked(got)
	err = errors.Join(s.Release(2), <-got)
	_, err1 := kit.Available(s)
	_, err2 := s.Drain(background)
	return errors.Join(err, err1, err2)
}

func useLatch(t *testing.T, c *holdfast.Client, asking func() (asked func(got chan error))) error {
	t.Helper()
	l := c.NewLatch("s:x")
	if _, err := l.TrySetCount(background, 2); err != nil {
		return err
	}
	_, err1 := l.Inspect(background)
	if err := l.Await(background, holdfast.Wait(500*time.Millisecond)); !errors.Is(err, holdfast.ErrNotZero) { // from here on the script is known
		return errors.Join(err, errors.New("it did not wait"))
	}
	got, asked := make(chan error, 1), asking()
	go func() { got <- l.Await(background, holdfast.Wait(2*time.Second)) }()
	asked(got)
	err := errors.Join(err1, l.CountDown(), l.CountDown(), <-got)
	_, err2 := l.Delete(background)
	return errors.Join(err, err2)
}
