package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Java and Go share every kind of lock, on every topology, with both versions of
// Redisson: whichever side holds it, the other is refused, waits, gets it by
// message, counts alike, takes it by force and outlives it.
func TestShared(t *testing.T) {
	for _, top := range topologies {
		top.onWorlds(t, func(t *testing.T, w *world) {
			t.Helper()
			t.Run("kinds", func(t *testing.T) {
				t.Run("killed", func(t *testing.T) {
					t.Parallel()
					killed(t, w, top.kinds)
				})
				w.each(t, top.kinds, func(t *testing.T, k *kind) {
					t.Helper()
					w.both(t, k, func(d *duel) {
						if k.suite != nil {
							k.suite(d)
						} else {
							lockSuite(d)
						}
					})
					for what, test := range k.more {
						t.Run(what, func(t *testing.T) {
							t.Parallel()
							w.both(t, k, test)
						})
					}
				})
			})
			// Not beside the others: once a reader has nested, Redisson 3 renews no reads
			// of that client any more, on a cluster.
			t.Run("counts", func(t *testing.T) {
				w.each(t, top.kinds, func(t *testing.T, k *kind) {
					t.Helper()
					if k.nests {
						w.both(t, k, counts)
					}
				})
			})
		})
	}
}

// lockSuite is for every kind of lock.
func lockSuite(d *duel) {
	refused(d)
	handedOver(d)
	if d.k.whole {
		forced(d)
	}
	expires(d)
	renewed(d)
	if !d.k.nests {
		heldOnce(d)
	}
}

// a holds it; b is refused, sees for how long, and, if it is ours, by whom.
func refused(d *duel) {
	name := d.name("refused")
	d.do(d.a, "T", "lock", name)
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 0, 0), "false")
	start := time.Now()
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 3_000, 0), "false") // ours is no refusal if the wait ends before Redis answers
	if took := time.Since(start); took < 2900*time.Millisecond || took > 10*time.Second {
		d.Errorf("a wait of three seconds took %v", took)
	}
	if d.k.whole {
		d.want(d.do(d.b, "T", "locked", name), "true")
		d.want(d.do(d.b, "T", "held", name), "false")
		d.livesFor(name, watchdog)
		if !d.b.Java {
			d.want(d.as(d.b, "T", "holders", d.k.rivals(), name), d.do(d.a, "T", "owner", name))
		}
	}
	d.do(d.a, "T", "unlock", name)
	d.gone(name)
}

// livesFor checks that both sides see a time to live that is no longer than a
// lease, and no shorter than what renewals leave of it.
func (d *duel) livesFor(name string, lease time.Duration) {
	d.Helper()
	for _, p := range []*Peer{d.a, d.b} {
		ms, err := strconv.ParseInt(d.do(p, "T", "ttl", name), 10, 64)
		if ttl := time.Duration(ms) * time.Millisecond; err != nil || ttl > lease || ttl < min(lease, watchdog)/3 {
			d.Errorf("%v sees a time to live of %v, %v; the lease is %v", p, ttl, err, lease)
		}
	}
}

// gone checks that nothing is left of a lock but tokens, and what expires: the
// unlock latches of Redisson 3, which leaves them to, our own heartbeats and
// asks, if Java empties a line that we have stood in, and whose turn it was last.
func (d *duel) gone(name string) {
	d.Helper()
	for one := range strings.SplitSeq(name, "+") {
		for _, node := range d.w.nodes {
			d.goneFrom(node.Addr(), one)
		}
	}
}

func (d *duel) goneFrom(address, name string) {
	d.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: address})
	defer rdb.Close()
	keys, err := rdb.Keys(background, "*"+name+"*").Result()
	if err != nil {
		d.Fatal(err)
	}
	for _, key := range keys {
		prefix, _, _ := strings.Cut(key, "{")
		ttl, err := rdb.PTTL(background, key).Result()
		switch {
		case err != nil:
			d.Fatal(err)
		case ttl == -2: // gone by now
		case prefix == "redisson_lock_token:":
		case ttl >= 0 && slices.Contains([]string{"redisson_unlock_latch:", "holdfast_lock_waiting:", "holdfast_requests:", "holdfast_calls:", "holdfast_zero:", "holdfast_yield:"}, prefix):
		// A server that answers a RedLock of ours after the others is given back when it answers: long before a lease ends.
		case d.w.config.Mode == Independent && d.comes(watchdog/2, func() bool {
			there, err := rdb.Exists(background, key).Result()
			if err != nil {
				d.Fatal(err)
			}
			return there == 0
		}):
		default:
			d.Errorf("left behind: %s, for %v: %v", key, ttl, rdb.HGetAll(background, key))
		}
	}
}

// b waits while a holds it, and has it as soon as a gives it back, by message.
func handedOver(d *duel) {
	var took []time.Duration
	for i := range 5 {
		name := d.name(fmt.Sprint("over", i))
		d.do(d.a, "T", "lock", name)
		wait := d.waits(d.b, "T", name)
		start := time.Now()
		unlocked := d.ask(d.a, "T", "unlock", d.k.name, name)
		d.get(wait)
		took = append(took, time.Since(start))
		d.get(unlocked)
		d.as(d.b, "T", "unlock", d.k.rivals(), name)
		d.gone(name)
	}
	d.checkSoon(took)
}

// checkSoon checks how long hand-overs took: none has waited for a poll, or for the lease to end.
// How fast a message is, on a machine that has nothing else to do, is for bench/ to say.
func (d *duel) checkSoon(took []time.Duration) {
	d.Helper()
	slices.Sort(took)
	usual, bound := soon, 2500*time.Millisecond // ours ask every three seconds
	if d.k.channel == nil {                     // it asks at intervals
		usual, bound = time.Second, 3*time.Second
	}
	if took[len(took)/2] > usual || took[len(took)-1] > bound {
		d.Errorf("%v to %v took %v", d.a, d.b, took)
	}
}

// Both read the same count of a's holds, and b has it after the last of them.
func counts(d *duel) {
	name := d.name("counts")
	for range 3 {
		d.do(d.a, "T", "lock", name)
	}
	for n := 3; n > 0; n-- {
		if d.k.whole {
			owner := d.do(d.a, "T", "owner", name)
			if d.k.name == "write" {
				owner += ":write"
			}
			want := strconv.Itoa(n)
			d.want(d.do(d.a, "T", "count", name), want)
			d.want(d.do(d.b, "T", "field", name, owner), want)
			lease := watchdog
			if d.k.name == "write" && d.a.Java {
				lease *= 3 // Redisson's nested write adds to it, until it is renewed (A12)
			}
			d.livesFor(name, lease)
		}
		d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 0, 0), "false")
		d.do(d.a, "T", "unlock", name)
	}
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 0, 0), "true")
	d.as(d.b, "T", "unlock", d.k.rivals(), name)
	d.gone(name)
}

// Who holds it is told so when it asks again, and holds it once.
func heldOnce(d *duel) {
	name := d.name("once")
	d.do(d.a, "T", "lock", name)
	d.fails(d.a, "T", "lock", d.k.name, name)
	d.want(d.do(d.a, "T", "count", name), "1")
	d.do(d.a, "T", "unlock", name)
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 0, 0), "true")
	d.as(d.b, "T", "unlock", d.k.rivals(), name)
}

// b takes it from a by force. Who waits gets it by message, and a is told when it
// gives it back.
func forced(d *duel) {
	var took []time.Duration
	for i := range 3 {
		name := d.name(fmt.Sprint("forced", i))
		d.do(d.a, "T", "lock", name)
		wait := d.waits(d.b, "W", name)
		if d.b.Java && d.k.channel != nil {
			d.asleep(d.b, "W") // or Redisson's force, of a writer, might not wake it (W1)
		}
		start := time.Now()
		d.want(d.do(d.b, "T", "force", name), "true")
		d.get(wait)
		took = append(took, time.Since(start))
		d.want(d.do(d.a, "T", "held", name), "false")
		d.fails(d.a, "T", "unlock", d.k.name, name)
		d.as(d.b, "W", "unlock", d.k.rivals(), name)
		d.want(d.do(d.b, "T", "force", name), "false")
	}
	d.checkSoon(took)
}

// a's lease ends while it does nothing. Then b has it, and a's unlock, which comes
// too late, does not touch it.
func expires(d *duel) {
	const lease = 1500 * time.Millisecond
	name := d.name("expires")
	asked := time.Now()
	d.do(d.a, "T", "lock", name, lease.Milliseconds())
	start := time.Now()
	if d.k.whole {
		d.livesFor(name, lease)
	}
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), name, 10_000, 0), "true")
	if atMost, atLeast := time.Since(asked), time.Since(start); atMost < lease || atLeast > lease+5*time.Second {
		d.Errorf("a lease of %v ended after %v to %v", lease, atLeast, atMost)
	}
	if d.k.name != "fair" && d.k.name != "nonreentrantfair" && d.k.name != "red" || !d.a.Java {
		d.fails(d.a, "T", "unlock", d.k.name, name) // Java's fair lock and RedLock say nothing (A3, A4)
	}
	if d.k.whole {
		d.want(d.as(d.b, "T", "held", d.k.rivals(), name), "true")
	}
	d.as(d.b, "T", "unlock", d.k.rivals(), name)
	d.gone(name)
}

// The watchdog of either side keeps its own hold for longer than a lease. Once it
// has lost one, it does not prolong who holds it now.
func renewed(d *duel) {
	kept, lost := d.name("kept"), d.name("lost")
	const lease = 3 * time.Second
	d.do(d.a, "T", "lock", kept)
	d.do(d.a, "T", "lock", lost)
	start := time.Now()
	for one := range strings.SplitSeq(lost, "+") {
		d.drop(one)
	}
	if d.k.name == "read" { // beside each other
		d.do(d.a, "U", "lock", lost)
	}
	d.do(d.b, "T", "lock", lost, lease.Milliseconds())
	locked := time.Now()
	if d.k.name != "read" || !d.a.Java || !d.w.redisson3() { // which renews every reader's
		d.onlyFalls(lost, d.do(d.b, "T", "owner", lost), lease)
		if took := time.Since(locked); took > lease+5*time.Second {
			d.Errorf("a lease of %v ended after %v", lease, took)
		}
	}
	if d.k.name == "read" {
		d.want(d.do(d.a, "U", "held", lost), "true")
		d.do(d.a, "U", "unlock", lost)
	}
	time.Sleep(time.Until(start.Add(watchdog + time.Second)))
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), kept, 0, 0), "false")
	d.do(d.a, "T", "unlock", kept)
	d.want(d.as(d.b, "T", "trylock", d.k.rivals(), kept, 0, 0), "true")
	d.as(d.b, "T", "unlock", d.k.rivals(), kept)
}

// drop deletes a lock behind everybody's back.
func (d *duel) drop(name string) {
	d.Helper()
	for _, c := range d.clients() {
		if err := c.Del(background, name).Err(); err != nil {
			d.Fatal(err)
		}
	}
}

// clients look at the servers that a lock is on.
func (d *duel) clients() []redis.UniversalClient {
	d.Helper()
	if d.w.config.Mode != Independent {
		return []redis.UniversalClient{d.w.rdb}
	}
	var all []redis.UniversalClient
	for _, node := range d.w.nodes {
		c := redis.NewClient(&redis.Options{Addr: node.Addr()})
		d.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}

// onlyFalls returns when a hold's lease has ended, and checks that nobody has
// prolonged it.
func (d *duel) onlyFalls(name, owner string, lease time.Duration) {
	d.Helper()
	key, _, _ := strings.Cut(name, "+")
	if d.k.name == "read" {
		key = "{" + name + "}:" + owner + ":rwlock_timeout:1"
	}
	c := d.clients()[0]
	for last := lease; ; {
		ttl, err := c.PTTL(background, key).Result()
		switch {
		case err != nil:
			d.Fatal(err)
		case ttl == -2:
			return
		case ttl > last || ttl < 0:
			d.Fatalf("%s lives for %v after it lived for %v", key, ttl, last)
		}
		last = ttl
		time.Sleep(50 * time.Millisecond)
	}
}

// killed kills a Java process and a Go process that hold a lock of each kind. The
// other side has it when the lease has ended.
func killed(t *testing.T, w *world, kinds []*kind) {
	t.Helper()
	java, golang := w.peers(t, w.version == Versions[0]) // with the other adapter
	var turns []*turn
	t.Run("kinds", func(t *testing.T) {
		for _, k := range kinds {
			if k.from4 && w.redisson3() || k.suite != nil && k.name != "permits" {
				continue
			}
			for _, sides := range [][2]*Peer{{java, w.golang}, {golang, w.java}} {
				d := &duel{T: t, w: w, k: k, a: sides[0], b: sides[1], threads: fmt.Sprintf("killed/%s-%v", strings.ReplaceAll(k.title(), " ", "_"), sides[0])}
				name := d.name(strings.ReplaceAll(k.title(), " ", "_") + "-" + d.a.String())
				if k.name == "permits" {
					d.do(d.a, "T", "set", name, 1)
					d.do(d.a, "T", "acquire", name, (2 * watchdog).Milliseconds())
					turns = append(turns, take(d, d.ask(d.b, "K", "tryacquire", k.name, name, patience.Milliseconds(), 0)))
					continue
				}
				d.do(d.a, "T", "lock", name)
				turns = append(turns, take(d, d.waits(d.b, "K", name)))
			}
		}
		start := time.Now()
		java.Kill()
		golang.Kill()
		for _, turn := range turns {
			t.Run(fmt.Sprintf("%s/%v to %v", turn.d.k.title(), turn.d.a, turn.d.b), func(t *testing.T) {
				<-turn.done
				// What is renewed at a third of its lease has two thirds left, or more.
				took, least, most := turn.came.Sub(start), watchdog*2/3-500*time.Millisecond, watchdog+3*time.Second
				if turn.d.k.name == "permits" { // not renewed, and taken before
					least, most = watchdog/2, 2*watchdog+3*time.Second
				}
				if turn.err != nil || took < least || took > most {
					t.Errorf("after %v: %v", took, turn.err)
				}
			})
		}
	})
}

// turn is b's, after a has been killed.
type turn struct {
	d    *duel
	done chan struct{} // closed when the answer has come
	came time.Time
	err  error
}

func take(d *duel, wait func() (string, error)) *turn {
	x := &turn{d: d, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		_, x.err = within(2*patience, wait)
		x.came = time.Now()
	}()
	return x
}

// Tokens rise whichever side takes them.
func tokens(d *duel) {
	name := d.name("tokens")
	var last int64
	for i := range 6 {
		p := d.a
		if i%2 == 1 {
			p = d.b
		}
		token, err := strconv.ParseInt(d.do(p, "T", "token", name), 10, 64)
		if err != nil || token <= last {
			d.Errorf("token %d after %d, %v", token, last, err)
		}
		last = token
		d.do(p, "T", "unlock", name)
	}
}

// Readers of both sides share it; the writer of either side waits for all of them.
func readTogether(d *duel) {
	name := d.name("together")
	d.do(d.a, "A", "lock", name)
	got := asChannel(d.waits(d.b, "D", name)) // before b reads: one of ours who has read for a second listens already
	d.do(d.b, "B", "lock", name)
	d.want(d.do(d.a, "C", "trylock", name, 0, 0), "true")
	golang := d.a
	if d.a.Java {
		golang = d.b
	}
	found := strings.Fields(d.do(golang, "X", "inspect", name))
	if len(found) != 4 || found[0] != "mode=read" {
		d.Errorf("%q", found)
	}
	for _, p := range []*Peer{d.a, d.b} {
		d.want(d.as(p, "E", "trylock", "write", name, 0, 0), "false")
	}
	d.do(d.a, "A", "unlock", name)
	d.do(d.a, "C", "unlock", name)
	select {
	case err := <-got:
		d.Fatalf("a writer beside a reader: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	start := time.Now()
	d.do(d.b, "B", "unlock", name)
	if err := <-got; err != nil {
		d.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		d.Errorf("the writer waited for %v", took)
	}
	d.as(d.b, "D", "unlock", "write", name)
	d.gone(name)
}

// Readers of several locks are renewed in all of them, whoever asks to write: those
// of Redisson 3 in the locks alone, and not in the keys of their holds.
func readSeveral(d *duel) {
	var names []string
	for i := range 4 {
		names = append(names, d.name(fmt.Sprint("several", i)))
		d.do(d.a, "T", "lock", names[i])
	}
	time.Sleep(watchdog + time.Second)
	for _, name := range names {
		d.want(d.as(d.b, "T", "trylock", "write", name, 0, 0), "false")
		// Another reader comes and goes, and leaves the first ones in.
		if !d.b.Java {
			d.do(d.b, "R", "lock", name)
			d.do(d.b, "R", "unlock", name)
			d.want(d.as(d.b, "T", "trylock", "write", name, 0, 0), "false")
		}
		d.do(d.a, "T", "unlock", name)
		d.want(d.as(d.b, "T", "trylock", "write", name, 0, 0), "true")
		d.as(d.b, "T", "unlock", "write", name)
		d.gone(name)
	}
}

func asChannel(wait func() (string, error)) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := within(patience, wait)
		got <- err
	}()
	return got
}

// a holds it for writing, reads as well, and gives the writing back: b's reader
// comes in beside it. Redisson tells nobody (L10), so ours finds out by asking.
func downgrade(d *duel) {
	name := d.name("downgrade")
	d.do(d.a, "A", "lock", name)
	d.want(d.as(d.a, "A", "trylock", "read", name, 0, 0), "true")
	before := d.listeners(name)
	wait := d.ask(d.b, "B", "trylock", "read", name, 10_000, 0)
	d.until("the reader listens", func() bool { return d.listeners(name) > before })
	start := time.Now()
	d.do(d.a, "A", "unlock", name)
	d.want(d.get(wait), "true")
	bound := 2500 * time.Millisecond // ours ask every three seconds
	if d.a.Java {
		bound = 5 * time.Second
	}
	if took := time.Since(start); took > bound {
		d.Errorf("the reader waited for %v", took)
	}
	d.want(d.as(d.b, "C", "trylock", "write", name, 0, 0), "false")
	d.as(d.a, "A", "unlock", "read", name)
	d.want(d.as(d.b, "B", "held", "read", name), "true")
	d.as(d.b, "B", "unlock", "read", name)
	d.gone(name)
}

// Java and Go stand in one line, and come in the order in which they came to it.
func fairOrder(d *duel) {
	name := d.name("order")
	d.do(d.a, "T", "lock", name)
	const waiters = 12
	came := make(chan int, waiters)
	var done sync.WaitGroup
	for i := range waiters {
		p := d.a
		if i%3 == 0 || i%5 == 0 {
			p = d.b
		}
		thread := fmt.Sprint("W", i)
		wait := d.ask(p, thread, "lock", "fair", name)
		done.Go(func() {
			_, err := within(patience, wait)
			came <- i
			if err == nil {
				_, err = within(patience, d.ask(p, thread, "unlock", "fair", name))
			}
			if err != nil {
				d.Error(err)
			}
		})
		d.inLine(name, i+1)
	}
	start := time.Now()
	d.do(d.a, "T", "unlock", name)
	for i := range waiters {
		if got := <-came; got != i {
			d.Errorf("number %d came where %d was next", got, i)
		}
	}
	done.Wait()
	if took := time.Since(start); took > 3*time.Second {
		d.Errorf("%d hand-overs took %v", waiters, took)
	}
	d.gone(name)
}

// inLine returns when so many stand in the line of a fair lock.
func (d *duel) inLine(name string, n int) {
	d.Helper()
	d.until(fmt.Sprintf("%d stand in line", n), func() bool {
		l, err := d.w.rdb.LLen(background, "redisson_lock_queue:{"+name+"}").Result()
		return err == nil && l == int64(n)
	})
}

// Waiters of either side give up, and those behind them come in.
func fairGivingUp(d *duel) {
	name := d.name("giving-up")
	d.do(d.a, "T", "lock", name)
	first := d.ask(d.a, "A", "trylock", "fair", name, 6_000, 0)
	d.inLine(name, 1)
	second := d.ask(d.b, "B", "trylock", "fair", name, 4_000, 0)
	d.inLine(name, 2)
	last := d.ask(d.a, "C", "trylock", "fair", name, 40_000, 0)
	d.inLine(name, 3)
	d.want(d.get(second), "false")
	d.want(d.get(first), "false")
	d.inLine(name, 1)
	start := time.Now()
	d.do(d.a, "T", "unlock", name)
	d.want(d.get(last), "true")
	if took := time.Since(start); took > 3*time.Second {
		d.Errorf("the last one waited for %v", took)
	}
	d.do(d.a, "C", "unlock", name)
	d.gone(name)
}

// A waiter of b's outlasts a line of a's, whose grants, if they are Java's, take
// their time off everybody's.
func fairOutlasts(d *duel) {
	name := d.name("outlasts")
	d.do(d.a, "T", "lock", name)
	var ahead []func() (string, error)
	for i := range 5 {
		ahead = append(ahead, d.ask(d.a, fmt.Sprint("A", i), "lock", "fair", name))
		d.inLine(name, i+1)
	}
	last := d.ask(d.b, "B", "lock", "fair", name)
	d.inLine(name, 6)
	d.do(d.a, "T", "unlock", name)
	for i, wait := range ahead {
		d.get(wait)
		d.do(d.a, fmt.Sprint("A", i), "unlock", name)
	}
	d.get(last)
	d.do(d.b, "B", "unlock", name)
	d.gone(name)
}

// Permits that either side gives back are had by the other, by message.
func semaphore(d *duel) {
	var took []time.Duration
	for i := range 5 {
		name := d.name(fmt.Sprint("semaphore", i))
		d.want(d.do(d.a, "T", "set", name, 2), "true")
		d.want(d.do(d.b, "T", "set", name, 5), "false")
		d.do(d.a, "T", "acquire", name, 1)
		d.want(d.do(d.b, "T", "tryacquire", name, 2, 0), "false")
		d.want(d.do(d.b, "T", "available", name), "1")
		before := d.listeners(name)
		wait := d.ask(d.b, "T", "tryacquire", "semaphore", name, 2, 20_000)
		d.until("it listens", func() bool { return d.listeners(name) > before })
		start := time.Now()
		d.do(d.a, "T", "release", name, 1)
		d.want(d.get(wait), "true")
		took = append(took, time.Since(start))
		d.do(d.a, "T", "add", name, 5)
		d.want(d.do(d.b, "T", "drain", name), "5")
		d.want(d.do(d.a, "T", "available", name), "0")
		d.do(d.b, "T", "release", name, 2)
		d.want(d.do(d.a, "T", "tryacquire", name, 2, 0), "true")
	}
	d.checkSoon(took)
}

// Permits with leases: either side refuses, waits, releases by id, prolongs, and
// takes back what the other has let expire.
func permits(d *duel) {
	var took []time.Duration
	for i := range 5 {
		name := d.name(fmt.Sprint("permits", i))
		d.want(d.do(d.a, "T", "set", name, 2), "true")
		id := d.do(d.a, "T", "acquire", name, 60_000)
		other := d.do(d.b, "T", "acquire", name, 60_000)
		for _, p := range []*Peer{d.a, d.b} {
			lease, err := strconv.ParseInt(d.do(p, "T", "lease", name, id), 10, 64)
			if err != nil || lease < 50_000 || lease > 60_000 {
				d.Errorf("%v sees a lease of %d ms, %v", p, lease, err)
			}
			d.want(d.do(p, "T", "available", name), "0")
			d.want(d.do(p, "T", "total", name), "2")
			d.want(d.do(p, "T", "acquired", name), "2")
		}
		d.want(d.do(d.b, "T", "tryacquire", name, 0, 60_000), "null")
		before := d.listeners(name)
		wait := d.ask(d.b, "T", "tryacquire", "permits", name, 20_000, 500)
		d.until("it listens", func() bool { return d.listeners(name) > before })
		start := time.Now()
		d.do(d.a, "T", "release", name, id)
		brief := d.get(wait)
		took = append(took, time.Since(start))
		// b's lease of 500 ms ends, and the permit is a's.
		again := d.do(d.a, "T", "tryacquire", name, 10_000, 60_000)
		d.want(d.do(d.b, "T", "tryrelease", name, brief), "false")
		// Permits are prolonged and given back by their ids from the other side.
		d.want(d.do(d.b, "T", "update", name, again, 90_000), "true")
		d.want(d.do(d.b, "T", "tryrelease", name, again), "true")
		d.want(d.do(d.a, "T", "tryrelease", name, other), "true")
		d.want(d.do(d.b, "T", "available", name), "2")
	}
	d.checkSoon(took)
}

// Both wait for zero, which either brings about.
func latch(d *duel) {
	var took []time.Duration
	for i := range 5 {
		name := d.name(fmt.Sprint("latch", i))
		d.want(d.do(d.a, "T", "set", name, 2), "true")
		d.want(d.do(d.b, "T", "set", name, 3), "false")
		d.want(d.do(d.b, "T", "count", name), "2")
		if i == 0 {
			d.want(d.do(d.b, "W", "await", name, 4_000), "false") // long enough to be answered once
		}
		waits := []func() (string, error){d.ask(d.a, "W", "await", "latch", name, 20_000), d.ask(d.b, "W", "await", "latch", name, 20_000)}
		d.bothListen(name)
		d.do(d.b, "T", "down", name)
		start := time.Now()
		d.do(d.a, "T", "down", name)
		for _, wait := range waits {
			d.want(d.get(wait), "true")
		}
		took = append(took, time.Since(start))
		d.want(d.do(d.b, "T", "count", name), "0")
	}
	d.checkSoon(took)
}

// bothListen returns when both sides listen to a channel.
func (d *duel) bothListen(name string) {
	d.Helper()
	channel := d.k.channel(name)
	d.until("both listen", func() bool {
		var n int64
		for _, node := range d.w.nodes {
			rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
			for _, ask := range []func() (map[string]int64, error){
				rdb.PubSubNumSub(background, channel).Result,
				rdb.PubSubShardNumSub(background, channel).Result,
			} {
				counts, err := ask()
				if err != nil {
					d.Fatal(err)
				}
				n += counts[channel]
			}
			rdb.Close()
		}
		return n == 2
	})
}
