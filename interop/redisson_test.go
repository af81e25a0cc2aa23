package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// fault is something that Redisson does as it should not, or as whoever shares its
// locks does not expect.
type fault struct {
	name string // as docs/interop.md calls it
	only string // the version that does it; empty: all of them
	does string // Redisson; in words
	// seen makes it happen, a being Java and b Go, and reports whether it did. What
	// holdfast does about it is checked on the way, if it did.
	seen func(d *duel) bool
}

// watch is the watchdogs' lease here, on both sides.
const watch = 3 * time.Second

// faults are those that docs/interop.md has.
var faults = []fault{
	{"S1_PartialUnlockShortens", "", "writes the watchdog's time to live at an unlock that is not the last", partialUnlock},
	{"S2_SharedObjectKeepsALease", "", "uses the lease of an earlier lock for one that is renewed", sharedObject},
	{"S3_SpinRefusalChangesTheLease", "", "uses the lease of a refused try for somebody else's unlock", spinRefusal},
	{"S4_ReadUnlockStopsWriteRenewal", "", "stops renewing the write lock at an unlock of a nested read lock", readUnlock},
	{"S5_ForceOfReadStopsWriteRenewal", "", "stops renewing the write lock at a forced unlock of readers that finds none", forceOfRead},
	{"S6_NestedLeaseStopsRenewal", "", "stops renewing the outer lock at the unlock of a nested one with a lease", nestedLease},
	{"S7_NestedLeaseShortens", "", "makes a nested lock's lease that of the outer one", nestedShorter},
	{"S8_ReadRenewalShortens", "", "shortens a read lock to its own watchdog's lease", readRenewalShortens},
	{"S9_ReadUnlockShortensWrite", "", "forgets the writer when it unlocks a read lock", readUnlockShortensWrite},
	{"S10_ReadUnlockDropsTheWrongHold", "", "ends the newest read hold, not that of the unlock", readUnlockDrops},
	{"S15_TokenOfALockWithoutEnd", "", "grants a fenced lock that another one holds, if it has no time to live", tokenWithoutEnd},
	{"S16_DeleteRestartsTokens", "", "deletes the counter of the tokens with the lock", deleteRestarts},
	{"S16_NestedLockTakesAToken", "", "takes a new token for a nested lock", nestedToken},
	{"S22_MultiLockMultipliesLease", "", "multiplies the lease of a multi-lock at each round", multiplies},
	{"S26_OldHoldsDelayRenewal", "", "renews the holds of a thread that lost the lock before those of the thread that has it", oldHolds},
	{"L1_LostMessageOversleeps", "", "sleeps until the time to live that it read has passed when a message was lost", lostLockMessage},
	{"L2_LostMessageHangs", "", "waits for ever for a semaphore or a latch when a message was lost", lostMessage},
	{"L4_SemaphoreWakesTheWrongOne", "", "leaves a waiter beside a free permit that another one cannot use", wrongWaiter},
	{"L5_FairWaiterLeavesWithTheTurn", "", "lets a waiter leave with the turn that it was given, and tells nobody", fairTurn},
	{"L6_FairWaiterStaysInLine", "", "leaves an interrupted waiter in the line", fairInterrupted},
	{"L6_FailedLockStaysInLine", "", "leaves a waiter in the line whose subscription was not answered", fairFailed},
	{"L7_FairBusyLoop", "", "asks without a pause while a dead waiter is next", fairBusy},
	{"L9_FairWaiterWithoutScore", "", "never passes a waiter whose score was lost", fairScoreless},
	{"L10_DowngradeTellsNobody", "", "does not tell readers of a downgrade", downgradeSilent},
	{"L11_ShorterIsNotTold", "", "does not tell writers of a time to live that became shorter", shorterSilent},
	{"L14_DeletedLatchHangs", "", "leaves waiters of a deleted latch waiting", deletedLatch},
	{"L19_TryTokenWaits", "", "waits when it should only try for a token", tryToken},
	{"L19_TokenLeaseIgnored", "", "ignores the lease when it takes a token", leasedToken},
	{"A1_AsyncIsLocked", "", "says that a write lock is locked when it is read", asyncLocked},
	{"A2_ReadHoldCountsExpired", "", "counts read holds whose lease has ended", readExpired},
	{"A3_FairUnlockOfExpired", "", "unlocks a fair lock that is gone, and says nothing", fairUnlock},
	{"A4_MultiUnlockStopsAtTheFirst", "", "keeps and renews the locks of a multi-lock behind one that was lost", multiUnlock},
	{"A4_RedLockUnlockSaysNothing", "", "unlocks a RedLock that is gone, and says nothing", redUnlock},
	{"A8_LateReleaseGivesBackAndThrows", "", "gives an expired permit back, and says that it did not", lateRelease},
	{"A9_PermitsLoseTheirTTL", "", "takes the time to live off a semaphore", permitsTTL},
	{"A12_NestedWriteAddsItsLease", "", "adds the lease of a nested write lock to the outer one's", nestedWrite},
	{"A13_InterruptIsSwallowed", "", "goes on waiting when it is interrupted", swallowed},
	{"R1_ReadRenewalForgetsKeys", "3.52.0", "renews the keys of one read lock of several", readKeys},
	{"R1_ReadRenewalForgetsKeysInASlot", "3.52.0", "renews the keys of one read lock of several in a slot", readKeysInASlot},
	{"R2_ReadRenewalRevivesOthers", "3.52.0", "renews the read holds of other clients", readOthers},
	{"R3_NestedReadEndsRenewalOnCluster", "3.52.0", "renews no read lock any more after one was nested, on a cluster", nestedRead},
	{"R4_OtherMessagesAreNotHeard", "", "hears only the kind of messages on a cluster that it sends itself", otherMessages},
	{"W1_WriteUnlockMissesAWaiter", "", "misses the end of a write when it is about to sleep", writeMissed},
	{"W2_SubscriptionForgetsAWaiter", "3.52.0", "forgets a thread that waits to subscribe", subscriptionForgets},
}

// Redisson does what docs/interop.md says that it does. If it does not any more,
// the page is to be corrected.
func TestRedisson(t *testing.T) {
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			w := &world{version: version, servers: &servers{
				config: Config{Version: version, Mode: Single, Addresses: []string{s.Addr()}, Watchdog: watch},
				nodes:  []*redistest.Server{s},
			}}
			w.connect(t)
			w.java, w.golang = startBoth(t, w.config)
			t.Run("faults", func(t *testing.T) { // ends before its peers do
				for _, f := range faults {
					t.Run(f.name, func(t *testing.T) {
						t.Parallel()
						d := &duel{T: t, w: w, k: &kind{name: "mutex", spell: itself}, a: w.java, b: w.golang}
						switch seen, want := f.seen(d), f.only == "" || f.only == version; {
						case want && !seen:
							t.Errorf("Redisson %s no longer %s: correct docs/interop.md", version, f.does)
						case seen && !want:
							t.Errorf("Redisson %s %s, too: correct docs/interop.md", version, f.does)
						}
					})
				}
			})
		})
	}
}

var faultName = regexp.MustCompile("`([A-Z][0-9]+_[A-Za-z]+)`")

// The page names every fault that is shown here, and no others.
func TestRedissonPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "interop.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, found := range faultName.FindAllStringSubmatch(string(text), -1) {
		named[found[1]] = true
	}
	for _, f := range faults {
		if !named[f.name] {
			t.Errorf("docs/interop.md does not name %s", f.name)
		}
		delete(named, f.name)
	}
	for name := range named {
		t.Errorf("docs/interop.md names %s, which nothing shows", name)
	}
}

// ttl is how long a key lives; below 0 if it does not exist, or for ever.
func (d *duel) ttl(key string) time.Duration {
	d.Helper()
	ttl, err := d.w.rdb.PTTL(background, key).Result()
	if err != nil {
		d.Fatal(err)
	}
	return ttl
}

// exists reports whether there is any of these keys.
func (d *duel) exists(keys ...string) bool {
	d.Helper()
	n, err := d.w.rdb.Exists(background, keys...).Result()
	if err != nil {
		d.Fatal(err)
	}
	return n > 0
}

// over returns when a key's lease has ended.
func (d *duel) over(key string) {
	d.Helper()
	d.until(key+" is gone", func() bool { return !d.exists(key) })
}

// takes reports whether Go gets a lock within a time, and gives it back.
func (d *duel) takes(kind, name string, limit time.Duration) bool {
	d.Helper()
	if d.as(d.b, "taker", "trylock", kind, name, limit.Milliseconds(), 0) != "true" {
		return false
	}
	d.as(d.b, "taker", "unlock", kind, name)
	return true
}

// outlives is longer than what is not renewed lives, by the watchdog's lease.
const outlives = watch + time.Second

// every reports whether something is seen of all kinds, all at the same time.
func (d *duel) every(seen func(d *duel, kind, name string) bool, kinds ...string) bool {
	d.Helper()
	var missing atomic.Int32
	d.Run("kinds", func(t *testing.T) { // ends when all have
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				of := &duel{T: t, w: d.w, k: d.k, a: d.a, b: d.b}
				if !seen(of, kind, of.name("lock")) {
					t.Log("not of this kind")
					missing.Add(1)
				}
			})
		}
	})
	return missing.Load() == 0
}

func partialUnlock(d *duel) bool {
	return d.every(func(d *duel, kind, name string) bool {
		d.as(d.a, "T", "lock", kind, name, 60_000)
		d.as(d.a, "T", "lock", kind, name, 60_000)
		d.as(d.a, "T", "unlock", kind, name)
		if d.ttl(name) > watch || !d.takes(kind, name, outlives) {
			return false
		}
		if kind != "fair" { // A3
			d.fails(d.a, "T", "unlock", kind, name)
		}
		return true
	}, "mutex", "spin", "fenced", "fair", "write")
}

// If a renewal comes before the short lease ends, all is well; so there are
// several turns, for one of which it comes later.
func sharedObject(d *duel) bool {
	for i := range 8 {
		name := d.name(fmt.Sprint("lock", i))
		d.as(d.a, "T", "lock", "shared", name, 150)
		d.over(name)
		d.as(d.a, "T", "lock", "shared", name) // to be renewed
		if d.ttl(name) <= 150*time.Millisecond && d.takes("mutex", name, 500*time.Millisecond) {
			d.fails(d.a, "T", "unlock", "shared", name)
			return true
		}
	}
	return false
}

func spinRefusal(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "sharedspin", name, 60_000)
	d.as(d.a, "T", "lock", "sharedspin", name, 60_000)
	d.want(d.as(d.a, "U", "trylock", "sharedspin", name, 10, 700), "false")
	d.as(d.a, "T", "unlock", "sharedspin", name)
	return d.ttl(name) <= 700*time.Millisecond && d.takes("spin", name, outlives)
}

func readUnlock(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "write", name)
	d.as(d.a, "T", "lock", "read", name, 1000)
	d.as(d.a, "T", "unlock", "read", name)
	if !d.takes("write", name, outlives) {
		return false
	}
	d.fails(d.a, "T", "unlock", "write", name)
	return true
}

func forceOfRead(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "write", name)
	d.want(d.as(d.a, "T", "force", "read", name), "false")
	if !d.takes("write", name, outlives) {
		return false
	}
	d.fails(d.a, "T", "unlock", "write", name)
	return true
}

func nestedLease(d *duel) bool {
	return d.every(func(d *duel, kind, name string) bool {
		d.as(d.a, "T", "lock", kind, name)
		d.as(d.a, "T", "lock", kind, name, 60_000)
		d.as(d.a, "T", "unlock", kind, name)
		return d.takes(kind, name, outlives)
	}, "mutex", "fenced", "fair")
}

func nestedShorter(d *duel) bool {
	return d.every(func(d *duel, kind, name string) bool {
		d.as(d.a, "T", "lock", kind, name, 60_000)
		d.as(d.a, "T", "lock", kind, name, 500)
		if d.ttl(name) > 500*time.Millisecond || !d.takes(kind, name, outlives) {
			return false
		}
		if kind != "fair" { // A3
			d.fails(d.a, "T", "unlock", kind, name)
		}
		return true
	}, "mutex", "spin", "fenced", "fair")
}

// another starts one more JVM with a client of its own, perhaps through a proxy.
func (d *duel) another(address string) *Peer {
	d.Helper()
	c := d.w.config
	if address != "" {
		c.Addresses = []string{address}
	}
	p := startPeer(d.T, StartJava, c)
	if p == nil {
		d.FailNow()
	}
	return p
}

// Go reads with a lease of a minute, with a watchdog like Java's, and with a slower
// one. Java reads beside it, and is killed.
func readRenewalShortens(d *duel) bool {
	const lease = 15 * time.Second
	c := d.w.config
	c.Watchdog, c.Version = lease, d.w.version
	other := startPeer(d.T, StartJava, c)
	c.Watchdog = time.Minute
	slow := startPeer(d.T, StartGo, c)
	leased, slowly, left := d.name("leased"), d.name("slowly"), d.name("left")
	d.as(d.b, "T", "lock", "read", leased, 60_000)
	d.as(d.b, "T", "lock", "read", left, 60_000)
	d.as(slow, "T", "lock", "read", slowly)
	for _, name := range []string{leased, slowly, left} {
		d.as(other, "T", "lock", "read", name)
	}
	for _, name := range []string{leased, slowly, left} {
		if !d.comes(lease, func() bool { return d.ttl(name) <= lease }) {
			return false
		}
	}
	d.as(other, "T", "unlock", "read", left) // puts it right
	d.until("Java's reader leaves Go's with what it was promised", func() bool { return d.ttl(left) > lease })
	other.Kill()
	// Go's readers put it right, whatever their lease, while Java's time still runs.
	for name, p := range map[string]*Peer{leased: d.b, slowly: slow} {
		d.until("Go has put it right", func() bool { return d.ttl(name) > lease })
		d.want(d.as(d.a, "U", "trylock", "write", name, 0, 0), "false")
		d.want(d.as(p, "T", "lost", "read", name), "false")
		d.as(p, "T", "unlock", "read", name)
	}
	return true
}

func readUnlockShortensWrite(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "write", name, 60_000)
	d.as(d.a, "T", "lock", "read", name, 2_000)
	d.as(d.a, "T", "lock", "read", name, 2_000)
	d.as(d.a, "T", "unlock", "read", name)
	if d.ttl(name) > 2*time.Second || !d.takes("write", name, outlives) {
		return false
	}
	d.fails(d.a, "T", "unlock", "write", name)
	return true
}

func readUnlockDrops(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "read", name, 2_000)
	d.as(d.a, "T", "lock", "read", name, 60_000)
	d.over(d.readKey(name, d.as(d.a, "T", "owner", "read", name), 1))
	d.as(d.a, "T", "unlock", "read", name) // the first one's, say
	if d.exists(name) {
		return false
	}
	d.want(d.as(d.b, "T", "trylock", "write", name, 0, 0), "true")
	d.fails(d.a, "T", "unlock", "read", name)
	d.as(d.b, "T", "unlock", "write", name)
	return true
}

// readKey is the key of a read hold.
func (d *duel) readKey(name, owner string, n int) string {
	if !strings.Contains(name, "{") {
		name = "{" + name + "}"
	}
	return fmt.Sprintf("%s:%s:rwlock_timeout:%d", name, owner, n)
}

// token locks, says the token, and unlocks.
func (d *duel) token(p *Peer, name string) int64 {
	d.Helper()
	token, err := strconv.ParseInt(d.as(p, "T", "token", "fenced", name), 10, 64)
	if err != nil {
		d.Fatal(err)
	}
	d.as(p, "T", "unlock", "fenced", name)
	return token
}

func tokenWithoutEnd(d *duel) bool {
	name := d.name("lock")
	d.as(d.b, "T", "lock", "fenced", name, 60_000)
	if err := d.w.rdb.Persist(background, name).Err(); err != nil {
		d.Fatal(err)
	}
	token, err := within(patience, d.ask(d.a, "T", "token", "fenced", name))
	d.as(d.b, "T", "unlock", "fenced", name)
	return err == nil && token == "-1"
}

func deleteRestarts(d *duel) bool {
	name := d.name("lock")
	before := max(d.token(d.b, name), d.token(d.a, name))
	d.as(d.a, "T", "delete", "fenced", name)
	restarted := d.token(d.a, name)
	if after := d.token(d.b, name); after <= before {
		d.Errorf("Go's token %d after %d", after, before)
	} else if next := d.token(d.a, name); next != after+1 {
		d.Errorf("Java's token %d after Go's, %d", next, after)
	}
	return restarted < before
}

func nestedToken(d *duel) bool {
	name := d.name("lock")
	outer, inner := d.as(d.a, "T", "token", "fenced", name), d.as(d.a, "T", "token", "fenced", name)
	return outer != inner
}

// Go keeps Java from the second of three locks for longer than a round takes.
func multiplies(d *duel) bool {
	name := parts(d.name("lock"))
	all := strings.Split(name, "+")
	d.as(d.b, "T", "lock", "mutex", all[1])
	wait := d.ask(d.a, "T", "lockseconds", "multi", name, 1)
	// Each part has twice the time that Redisson takes for a round: at most the lease in the first,
	// and in the second a random time from 4.5 s to a thousand leases.
	seen := d.comes(outlives, func() bool { return d.ttl(all[0]) > 5*time.Second })
	d.as(d.b, "T", "unlock", "mutex", all[1])
	d.get(wait)
	return seen && d.ttl(all[2]) > time.Minute
}

func oldHolds(d *duel) bool {
	name := d.name("lock")
	for range 12 {
		d.as(d.a, "T", "lock", "mutex", name)
	}
	d.want(d.as(d.b, "T", "force", "mutex", name), "true")
	d.as(d.a, "U", "lock", "mutex", name)
	if !d.takes("mutex", name, outlives) {
		return false
	}
	d.fails(d.a, "U", "unlock", "mutex", name)
	return true
}

// behind starts a JVM on the far side of a proxy.
func (d *duel) behind() (*redistest.Proxy, *Peer) {
	d.Helper()
	p := redistest.NewProxy(d.T, d.w.nodes[0].Addr())
	return p, d.another(p.Addr())
}

// cut starts a JVM and a Go process on the far side of a proxy. What it returns
// does something, and resets all their connections, so that what the server sent
// them meanwhile is lost.
func (d *duel) cut() (java, golang *Peer, loses func(meanwhile func())) {
	d.Helper()
	proxy, java := d.behind()
	c := d.w.config
	c.Addresses = []string{proxy.Addr()}
	if golang = startPeer(d.T, StartGo, c); golang == nil {
		d.FailNow()
	}
	return java, golang, func(meanwhile func()) {
		proxy.BlackHole(redistest.ToClient, true)
		meanwhile()
		proxy.Cut()
		proxy.BlackHole(redistest.ToClient, false)
	}
}

// listened returns when somebody listens to each of the channels.
func (d *duel) listened(channels ...string) {
	d.Helper()
	d.until(fmt.Sprint("somebody listens to each of ", channels), func() bool {
		counts, err := d.w.rdb.PubSubNumSub(background, channels...).Result()
		if err != nil {
			d.Fatal(err)
		}
		return !slices.ContainsFunc(channels, func(c string) bool { return counts[c] == 0 })
	})
}

// asleep returns when threads of Java's sleep, and wait for a message.
func (d *duel) asleep(p *Peer, threads ...string) {
	d.Helper()
	for _, thread := range threads {
		d.until(thread+" sleeps", func() bool { return d.as(p, "-", "sleeps", "-", d.Name()+"/"+thread) == "true" })
	}
}

const (
	// asks is how long holdfast's waiters sleep at the most without a message, and
	// what it takes them to connect again.
	asks = 3*time.Second + 1500*time.Millisecond
	// still is how long one is watched who is not expected to wake.
	still = time.Second
)

func lostLockMessage(d *duel) bool {
	java, golang, loses := d.cut()
	slept, waited := d.name("java"), d.name("go")
	for _, name := range []string{slept, waited} {
		d.as(d.b, "T", "lock", "mutex", name, 8000)
	}
	sleeps, waits := d.ask(java, "T", "lock", "mutex", slept), d.ask(golang, "T", "lock", "mutex", waited)
	d.listened(on(lockChannel)(waited))
	d.asleep(java, "T")
	loses(func() {
		d.as(d.b, "T", "unlock", "mutex", slept)
		d.as(d.b, "T", "unlock", "mutex", waited)
	})
	if _, err := within(asks, waits); err != nil {
		d.Errorf("Go's waiter: %v", err)
	}
	d.listened(on(lockChannel)(slept)) // again
	_, err := within(still, sleeps)
	return err != nil && !d.exists(slept)
}

func lostMessage(d *duel) bool {
	java, golang, loses := d.cut()
	waits := map[*Peer]map[string]func() (string, error){}
	channels := map[*Peer][]string{}
	var gives []func()
	for _, p := range []*Peer{java, golang} {
		semaphore, latch, permits := d.name(p.String()+":s"), d.name(p.String()+":l"), d.name(p.String()+":p")
		d.as(d.b, "T", "set", "semaphore", semaphore, 1)
		d.as(d.b, "T", "acquire", "semaphore", semaphore, 1)
		d.as(d.b, "T", "set", "latch", latch, 1)
		d.as(d.b, "T", "set", "permits", permits, 1)
		id := d.as(d.b, "T", "acquire", "permits", permits, 60_000)
		gives = append(gives,
			func() { d.as(d.b, "T", "release", "semaphore", semaphore, 1) },
			func() { d.as(d.b, "T", "down", "latch", latch) },
			func() { d.as(d.b, "T", "release", "permits", permits, id) })
		waits[p] = map[string]func() (string, error){
			"semaphore": d.ask(p, "S", "acquire", "semaphore", semaphore, 1),
			"latch":     d.ask(p, "L", "await", "latch", latch, 60_000),
			"permits":   d.ask(p, "P", "tryacquire", "permits", permits, 60_000, 60_000),
		}
		channels[p] = []string{"redisson_sc:{" + semaphore + "}", "redisson_countdownlatch__channel__{" + latch + "}", "redisson_sc:{" + permits + "}"}
		if p == java {
			d.listened(channels[p]...)
			continue
		}
		d.listened(channels[p][:2]...)
		d.until("it stands in line for a permit", func() bool {
			return d.w.rdb.ZCard(background, "holdfast_waitlist:{"+permits+"}").Val() == 1
		})
	}
	d.asleep(java, "S", "L", "P")
	loses(func() {
		for _, give := range gives {
			give()
		}
	})
	for kind, wait := range waits[golang] {
		if value, err := within(asks, wait); err != nil || value == "false" || value == "null" {
			d.Errorf("Go's waiter for a %s: %s, %v", kind, value, err)
		}
	}
	d.listened(channels[java]...) // again
	woken := make(chan string, len(waits[java]))
	for kind, wait := range waits[java] {
		got := asChannel(wait)
		go func() { // ends with the wait, or with patience
			if err := <-got; err != nil {
				kind += ": " + err.Error()
			}
			woken <- kind
		}()
	}
	select {
	case kind := <-woken:
		d.Logf("a %s", kind)
		return false
	case <-time.After(still):
	}
	for i, payload := range []int{1, 0, 1} { // what to do by hand
		if err := d.w.rdb.Publish(background, channels[java][i], payload).Err(); err != nil {
			d.Fatal(err)
		}
	}
	for range waits[java] {
		if kind := <-woken; strings.Contains(kind, ":") {
			d.Errorf("a %s", kind)
		}
	}
	return true
}

// Java's first waiter wants three permits, and its second one. There is one.
func wrongWaiter(d *duel) bool {
	name := d.name("semaphore")
	d.as(d.b, "T", "set", "semaphore", name, 1)
	d.as(d.b, "T", "acquire", "semaphore", name, 1)
	first := asChannel(d.ask(d.a, "A", "acquire", "semaphore", name, 3))
	d.asleep(d.a, "A")
	second := asChannel(d.ask(d.a, "B", "acquire", "semaphore", name, 1))
	d.asleep(d.a, "B")
	d.as(d.b, "T", "release", "semaphore", name, 1)
	select {
	case <-first:
		d.Fatal("three permits of one")
	case <-second:
		return false
	case <-time.After(still):
	}
	d.want(d.as(d.b, "T", "tryacquire", "semaphore", name, 1, 0), "true")
	return true
}

// The first one's turn comes while it does not hear, and its wait ends. At times
// it rounds its time so that it asks once more, and gets it; then it is let try
// again.
func fairTurn(d *duel) bool {
	proxy, far := d.behind()
	name := d.name("lock")
	d.as(d.a, "T", "lock", "fair", name+":other", 15_000)
	d.want(d.as(far, "A", "trylock", "fair", name+":other", 10, 0), "false") // the server knows its scripts now
	for range 5 {
		d.as(d.a, "T", "lock", "fair", name, 15_000)
		leaves := d.ask(far, "A", "trylock", "fair", name, 1500, 0)
		d.inLine(name, 1)
		stays := asChannel(d.ask(d.a, "B", "lock", "fair", name))
		d.inLine(name, 2)
		d.asleep(far, "A")
		d.asleep(d.a, "B")
		proxy.BlackHole(redistest.ToClient, true)
		d.as(d.a, "T", "unlock", "fair", name)
		d.inLine(name, 1)
		proxy.BlackHole(redistest.ToClient, false)
		if d.get(leaves) == "true" {
			d.as(far, "A", "unlock", "fair", name)
			<-stays
			d.as(d.a, "B", "unlock", "fair", name)
			continue
		}
		select {
		case <-stays:
			return false
		case <-time.After(still):
		}
		// Go's waiter stands behind it, asks, and tells it.
		waits := d.ask(d.b, "C", "trylock", "fair", name, 10_000, 0)
		select {
		case err := <-stays:
			if err != nil {
				d.Fatal(err)
			}
		case <-time.After(asks):
			d.Error("Go's waiter does not wake Java's, who is next")
			<-stays
		}
		d.as(d.a, "B", "unlock", "fair", name)
		d.want(d.get(waits), "true")
		d.as(d.b, "C", "unlock", "fair", name)
		return true
	}
	return false
}

// interrupted leaves a lock with a lease, and a line with a dead waiter of Java's,
// which will be believed for so long after the lease has ended.
func (d *duel) interrupted(p *Peer, name string, lease, believed time.Duration) {
	d.Helper()
	d.as(p, "T", "lock", "fair", name, lease.Milliseconds())
	leaves := d.ask(p, "A", "trylock", "fair", name, believed.Milliseconds(), 0)
	d.inLine(name, 1)
	d.as(p, "-", "interrupt", "-", d.Name()+"/A")
	if _, err := within(patience, leaves); err == nil || !strings.Contains(err.Error(), "InterruptedException") {
		d.Errorf("an interrupted waiter: %v", err)
	}
}

func fairInterrupted(d *duel) bool {
	name := d.name("lock")
	d.interrupted(d.a, name, 3*time.Second, 2*time.Second)
	d.over(name)
	if d.as(d.a, "B", "trylock", "fair", name, 0, 0) == "true" {
		return false
	}
	d.inLine(name, 1)
	d.want(d.as(d.b, "B", "trylock", "fair", name, 0, 0), "false")
	if !d.takes("fair", name, 2*time.Second+asks) { // when its score has passed
		d.Error("Go's waiter does not get in")
	}
	// A waiter of Go's that asks while the lock is held makes it 30 s.
	name = d.name("held")
	d.interrupted(d.a, name, 10*time.Second, 2*time.Second)
	d.want(d.as(d.b, "B", "trylock", "fair", name, 50, 0), "false")
	scores, err := d.w.rdb.ZRangeWithScores(background, "redisson_lock_timeout:{"+name+"}", 0, -1).Result()
	if err != nil || len(scores) == 0 || time.Until(time.UnixMilli(int64(scores[0].Score))) < 25*time.Second {
		d.Errorf("%v, %v", scores, err)
	}
	return true
}

// A waiter cannot subscribe, because as many others as can do so listen already. When
// the same thread locks again, it has kept its place.
func fairFailed(d *duel) bool {
	const room = 5
	c := d.w.config
	c.Version, c.Channels = d.w.version, room
	far := startPeer(d.T, StartJava, c)
	if far == nil {
		d.FailNow()
	}
	listening := make([]func() (string, error), room)
	for i := range listening {
		other := d.name(fmt.Sprint("other", i))
		d.as(d.a, "T", "lock", "mutex", other, 60_000)
		listening[i] = d.ask(far, fmt.Sprint("L", i), "lock", "mutex", other)
		d.listened(on(lockChannel)(other))
	}
	name := d.name("lock")
	d.as(d.a, "T", "lock", "fair", name, 60_000)
	_, err := within(patience, d.ask(far, "A", "lock", "fair", name))
	if err == nil || !strings.Contains(err.Error(), "RedisTimeoutException: Unable to acquire ") {
		d.Fatalf("a lock that cannot be listened for: %v", err)
	}
	line, err := d.w.rdb.LRange(background, "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	if err != nil || !slices.Equal(line, []string{d.as(far, "A", "owner", "fair", name)}) {
		d.Logf("in line: %v, %v", line, err)
		return false
	}
	d.as(d.a, "T", "unlock", "mutex", d.name("other0"))
	d.get(listening[0])
	again := d.ask(far, "A", "lock", "fair", name)
	behind := d.ask(d.b, "B", "lock", "fair", name)
	d.inLine(name, 2)
	d.asleep(far, "A")
	d.as(d.a, "T", "unlock", "fair", name)
	d.get(again)
	d.as(far, "A", "unlock", "fair", name)
	d.get(behind)
	d.as(d.b, "B", "unlock", "fair", name)
	return true
}

func fairBusy(d *duel) bool {
	proxy, far := d.behind()
	name := d.name("lock")
	d.interrupted(far, name, time.Second, 8*time.Second)
	asked := func() int {
		return proxy.Requests(func(r []byte) bool {
			words := redistest.Args(r)
			return len(words) > 3 && words[0] == "EVALSHA" && words[3] == name
		})
	}
	wait := d.ask(far, "B", "trylock", "fair", name, 20_000, 0)
	d.over(name)
	before := asked()
	d.want(d.get(wait), "true")
	return asked() > before+200
}

// Somebody stands in the list without a score, as after an eviction of the scores.
func fairScoreless(d *duel) bool {
	name := d.name("lock")
	owner := d.as(d.a, "T", "owner", "fair", name)
	if err := d.w.rdb.RPush(background, "redisson_lock_queue:{"+name+"}", owner+"0").Err(); err != nil {
		d.Fatal(err)
	}
	seen := d.as(d.a, "T", "trylock", "fair", name, still.Milliseconds(), 0) == "false"
	if !d.takes("fair", name, asks) {
		d.Error("Go's waiter does not get in")
	}
	d.want(d.as(d.a, "T", "trylock", "fair", name, 0, 0), "true")
	return seen
}

// A reader with a long lease leaves, and one with a short lease dies. Java's writer
// waits for them.
func shorterSilent(d *duel) bool {
	const lease = 6 * time.Second // outlasts what a busy machine needs until the other reader leaves
	oversleeps := func(p *Peer) bool {
		name := d.name(p.String())
		thread := "W" + p.String()
		d.as(p, "long", "lock", "read", name, 60_000)
		d.as(d.b, "short", "lock", "read", name, lease.Milliseconds())
		wait := d.ask(d.a, thread, "lock", "write", name)
		d.asleep(d.a, thread)
		d.as(p, "long", "unlock", "read", name)
		_, err := within(lease+still, wait)
		return err != nil && !d.exists(name)
	}
	if oversleeps(d.b) {
		d.Error("Java's writer oversleeps when a reader of Go's has left")
	}
	return oversleeps(d.a)
}

// Java's writer reads as well, and stops writing.
func downgradeSilent(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "write", name, 9000)
	d.as(d.a, "T", "lock", "read", name, 60_000)
	sleeps, waits := d.ask(d.a, "R", "lock", "read", name), d.ask(d.b, "R", "lock", "read", name)
	d.k = &kind{name: "read", channel: on(rwChannel), spell: itself}
	d.bothListen(name)
	d.asleep(d.a, "R")
	d.as(d.a, "T", "unlock", "write", name)
	if _, err := within(asks, waits); err != nil {
		d.Errorf("Go's reader: %v", err)
	}
	_, err := within(still, sleeps)
	return err != nil
}

func deletedLatch(d *duel) bool {
	name := d.name("latch")
	d.as(d.b, "T", "set", "latch", name, 1)
	sleeps, waits := d.ask(d.a, "W", "await", "latch", name, 60_000), d.ask(d.b, "W", "await", "latch", name, 60_000)
	d.k = &kind{name: "latch", channel: on("redisson_countdownlatch__channel__"), spell: itself}
	d.bothListen(name)
	d.asleep(d.a, "W")
	d.want(d.as(d.a, "T", "delete", "latch", name), "true")
	if value, err := within(asks, waits); err != nil || value != "true" {
		d.Errorf("Go's waiter: %s, %v", value, err)
	}
	_, err := within(still, sleeps)
	return err != nil
}

func tryToken(d *duel) bool {
	name := d.name("lock")
	d.as(d.b, "T", "lock", "fenced", name)
	_, err := within(still, d.ask(d.a, "T", "trytoken", "fenced", name))
	d.as(d.b, "T", "unlock", "fenced", name)
	return err != nil
}

func leasedToken(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "leasedtoken", "fenced", name, 300)
	return !d.takes("fenced", name, outlives)
}

func asyncLocked(d *duel) bool {
	name := d.name("lock")
	d.as(d.b, "T", "lock", "read", name, 60_000)
	d.want(d.as(d.a, "T", "locked", "write", name), "false")
	d.want(d.as(d.b, "T", "locked", "write", name), "false")
	return d.as(d.a, "T", "lockedasync", "write", name) == "true"
}

// Java's hold ends while Go reads.
func readExpired(d *duel) bool {
	name := d.name("lock")
	d.as(d.b, "T", "lock", "read", name, 60_000)
	d.as(d.a, "T", "lock", "read", name, 500)
	d.over(d.readKey(name, d.as(d.a, "T", "owner", "read", name), 1))
	seen := d.as(d.a, "T", "held", "read", name) == "true" && d.as(d.a, "T", "count", "read", name) == "1"
	// Nor does holdfast know that it is dead: it may be one whose key version 3 has
	// not renewed. It keeps writers out for 30 s more, at the most.
	d.as(d.b, "T", "unlock", "read", name)
	if ttl := d.ttl(name); ttl <= 0 || ttl > 30*time.Second {
		d.Errorf("a reader that may be dead is believed for %v", ttl)
	}
	return seen
}

func fairUnlock(d *duel) bool {
	name := d.name("lock")
	for _, p := range []*Peer{d.b, d.a} {
		d.as(p, "T", "lock", "fair", name, 300)
		d.over(name)
		if p == d.b {
			d.fails(p, "T", "unlock", "fair", name)
		}
	}
	_, err := within(patience, d.ask(d.a, "T", "unlock", "fair", name))
	return err == nil
}

func multiUnlock(d *duel) bool {
	name := parts(d.name("lock"))
	all := strings.Split(name, "+")
	d.as(d.a, "T", "lock", "multi", name)
	d.want(d.as(d.b, "T", "force", "mutex", all[0]), "true")
	d.fails(d.a, "T", "unlock", "multi", name)
	return !d.takes("mutex", all[1], outlives) && !d.takes("mutex", all[2], 0)
}

func redUnlock(d *duel) bool {
	name := d.name("lock")
	d.as(d.a, "T", "lock", "red", name, 300)
	d.over(name)
	_, err := within(patience, d.ask(d.a, "T", "unlock", "red", name))
	return err == nil
}

func permitsTTL(d *duel) bool {
	lost := 0
	for _, verb := range []string{"add", "drain"} {
		for _, p := range []*Peer{d.b, d.a} {
			name := d.name(verb + p.String())
			d.as(p, "T", "set", "semaphore", name, 2)
			if err := d.w.rdb.PExpire(background, name, time.Minute).Err(); err != nil {
				d.Fatal(err)
			}
			d.as(p, "T", verb, "semaphore", name, 1)
			switch ttl := d.ttl(name); {
			case p == d.a && ttl < 0:
				lost++
			case p == d.b && ttl <= 0:
				d.Errorf("Go's %s takes the time to live off", verb)
			}
		}
	}
	return lost == 2
}

func nestedWrite(d *duel) bool {
	java, golang := d.name("java"), d.name("go")
	for range 3 {
		d.as(d.a, "T", "lock", "write", java, 10_000)
		d.as(d.b, "T", "lock", "write", golang, 10_000)
	}
	if ttl := d.ttl(golang); ttl > 10*time.Second {
		d.Errorf("Go's nested lock lives for %v", ttl)
	}
	return d.ttl(java) > 25*time.Second
}

func lateRelease(d *duel) bool {
	name := d.name("permits")
	d.as(d.b, "T", "set", "permits", name, 1)
	id := d.as(d.a, "T", "acquire", "permits", name, 200)
	d.until("the lease has ended", func() bool { // which nobody must ask, or it is taken back
		ended, err := d.w.rdb.ZCount(background, "{"+name+"}:timeout", "-inf", strconv.FormatInt(time.Now().UnixMilli()-1, 10)).Result()
		return err == nil && ended == 1
	})
	_, err := within(patience, d.ask(d.a, "T", "release", "permits", name, id))
	return err != nil && d.w.rdb.Get(background, name).Val() == "1"
}

func swallowed(d *duel) bool {
	name := d.name("lock")
	d.as(d.b, "T", "lock", "mutex", name)
	waits := asChannel(d.ask(d.a, "W", "lock", "mutex", name))
	d.asleep(d.a, "W")
	d.as(d.a, "-", "interrupt", "-", d.Name()+"/W")
	select {
	case <-waits:
		return false
	case <-time.After(still):
	}
	d.as(d.b, "T", "unlock", "mutex", name)
	return <-waits == nil
}

// A client of Java's reads four names.
func readKeys(d *duel) bool {
	return forgetsKeys(d, d.name("lock"))
}

func readKeysInASlot(d *duel) bool {
	d = d.clustered(Cluster, Cluster)
	return forgetsKeys(d, "{"+d.name("tag")+"}:lock")
}

func forgetsKeys(d *duel, prefix string) bool {
	far := d.another("")
	var names, keys []string
	for i := range 4 {
		name := fmt.Sprint(prefix, i)
		names = append(names, name)
		keys = append(keys, d.readKey(name, d.as(far, "T", "owner", "read", name), 1))
		d.as(far, "T", "lock", "read", name)
	}
	gone := func() (names []int) {
		for i := range keys {
			if !d.exists(keys[i]) {
				names = append(names, i)
			}
		}
		return names
	}
	if !d.comes(outlives, func() bool { return len(gone()) == 3 }) {
		return false
	}
	lost := gone()
	for _, i := range lost {
		d.want(d.as(d.b, "T", "trylock", "write", names[i], 0, 0), "false")
	}
	// A reader of Go's comes and goes, and leaves it; then one of Java's.
	name := names[lost[0]]
	d.as(d.b, "R", "lock", "read", name)
	d.as(d.b, "R", "unlock", "read", name)
	d.want(d.as(d.b, "T", "trylock", "write", name, 0, 0), "false")
	d.as(d.a, "R", "lock", "read", name, 60_000)
	d.as(d.a, "R", "unlock", "read", name)
	if d.as(d.b, "T", "trylock", "write", name, 0, 0) != "true" {
		return false
	}
	d.fails(far, "T", "unlock", "read", name)
	d.as(d.b, "T", "unlock", "write", name)
	return true
}

func readOthers(d *duel) bool {
	far, name := d.another(""), d.name("lock")
	const lease = 2500 * time.Millisecond
	d.as(far, "T", "lock", "read", name) // and renews it every second
	d.as(d.b, "T", "lock", "read", name, lease.Milliseconds())
	key := d.readKey(name, d.as(d.b, "T", "owner", "read", name), 1)
	last := d.ttl(key)
	seen := d.comes(lease, func() bool {
		was := last
		last = d.ttl(key)
		return last > was
	})
	d.until("Go's hold has ended", func() bool { return d.as(d.b, "T", "lost", "read", name) == "true" })
	return seen
}

// clustered is a duel on a cluster of its own, between sides that publish so.
func (d *duel) clustered(java, golang Mode) *duel {
	d.Helper()
	w := &world{servers: cluster(java)(d.T), version: d.w.version}
	w.connect(d.T)
	w.config.Version, w.config.Watchdog = d.w.version, watch
	of := &duel{T: d.T, w: w, k: d.k, a: startPeer(d.T, StartJava, w.config)}
	c := w.config
	c.Mode = golang
	of.b = startPeer(d.T, StartGo, c)
	if d.Failed() {
		d.FailNow()
	}
	return of
}

// A client of Java's has nested a read lock once, and given it back.
func nestedRead(d *duel) bool {
	d = d.clustered(Cluster, Cluster)
	tag := "{" + d.name("tag") + "}:" // renewed in one call, therefore
	nested, name := tag+"nested", tag+"lock"
	for range 2 {
		d.as(d.a, "T", "lock", "read", nested)
	}
	for range 2 {
		d.as(d.a, "T", "unlock", "read", nested)
	}
	d.as(d.a, "T", "lock", "read", name)
	if !d.takes("write", name, outlives) {
		return false
	}
	d.fails(d.a, "T", "unlock", "read", name)
	return true
}

// Go announces with PUBLISH, on a cluster on which Java listens with SSUBSCRIBE.
func otherMessages(d *duel) bool {
	d = d.clustered(Cluster, Classic)
	java, golang := d.a, d.b
	slept, waited := d.name("java"), d.name("go")
	d.as(golang, "T", "lock", "mutex", slept, 8000)
	d.as(java, "T", "lock", "mutex", waited, 8000)
	sleeps, waits := d.ask(java, "W", "lock", "mutex", slept), d.ask(golang, "W", "lock", "mutex", waited)
	d.asleep(java, "W")
	d.k = &kind{name: "mutex", channel: on(lockChannel), spell: itself}
	d.until("Go listens", func() bool { return d.listeners(waited) > 0 })
	d.as(golang, "T", "unlock", "mutex", slept)
	d.as(java, "T", "unlock", "mutex", waited)
	if _, err := within(asks, waits); err != nil { // it asks
		d.Errorf("Go's waiter: %v", err)
	}
	_, err := within(still, sleeps)
	return err != nil && !d.exists(slept)
}

// The reply that refuses a waiter is under way when the writer leaves: what the
// writer says arrives first.
func writeMissed(d *duel) bool {
	proxy, far := d.behind()
	const slow, lease = time.Second, 15 * time.Second
	tries := 0
	wakes := func(p *Peer) bool {
		tries++
		name := d.name(fmt.Sprint("try", tries))
		asked := func() bool { // for the second time, since it listens
			listens := false
			return proxy.Requests(func(r []byte) bool {
				words := redistest.Args(r)
				listens = listens || len(words) > 1 && words[0] == "SUBSCRIBE" && words[1] == on(rwChannel)(name)
				return listens && len(words) > 3 && words[0] == "EVALSHA" && words[3] == name
			}) > 0
		}
		d.as(p, "T", "lock", "write", name, lease.Milliseconds())
		proxy.Delay(redistest.ToClient, slow)
		wait := d.ask(far, "T", "lock", "write", name)
		d.until("it asks again", asked)
		time.Sleep(slow / 3) // the reply is in the proxy by now
		proxy.Delay(redistest.ToClient, 0)
		d.as(p, "T", "unlock", "write", name)
		_, err := within(slow+still, wait)
		return err == nil
	}
	if !wakes(d.b) { // holdfast says it so that it is heard
		d.Error("Java's waiter sleeps on behind a writer of Go's")
	}
	for range 3 { // Redisson misses the message only if it comes before the reply, which a busy machine may turn round: one miss is enough
		if !wakes(d.a) {
			return true
		}
	}
	return false
}

// What a JVM's subscriptions take turns with forgets one of two threads that come at
// the same instant.
func subscriptionForgets(d *duel) bool {
	ms := 1000 // of two busy cores
	if d.w.redisson3() {
		ms = 10_000 // usually it takes a few
	}
	return d.as(d.a, "T", "forgets", "-", "-", ms) == "true"
}
