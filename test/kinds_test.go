package test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// anyLock is what every kind of lock can do.
type anyLock interface {
	holdfast.Inspector
	Adopt(ctx context.Context, owner holdfast.Owner, options ...holdfast.TryOption) (*holdfast.Hold, error)
}

// maker returns the lock of a name.
type maker func(c *holdfast.Client, name string) anyLock

// ask executes a command and returns the reply's elements.
type ask func(args ...string) []string

// kind is a kind of lock, as the suites need to know it. Every suite runs for
// each of them.
type kind struct {
	name string
	lock maker
	// rival makes a lock that excludes, and is excluded by, lock's of that name;
	// nil: lock itself does.
	rival maker
	// readers makes a lock of which several are held at once, but not beside the
	// rival; nil if there is none.
	readers maker
	// setUp is called once for each name, before it is used; nil: nothing to do.
	setUp func(t *testing.T, c *holdfast.Client, name string)

	mode      string // of its holders
	nests     bool   // an owner may hold it more than once
	polls     bool   // who waits does not listen
	queues    bool   // who waits has a place in Redis, and keeps it by asking
	line      bool   // who waits stands in the line that holdfast_line is, or listens if it may not
	byMessage bool   // a hold may begin with the message that it was granted
	anonymous bool   // who is refused is not told who holds it

	// stands reads, without the library, how often each owner holds the lock.
	stands func(do ask, name string) map[string]int
	// lives reads how long the owner holds it if nothing is renewed.
	lives func(do ask, name, owner string) time.Duration
	// remains reports which keys stay for good; nil: none.
	remains func(name string) []string

	// scripts are what it asks.
	scripts protocol.Scripts
	// rights are what its user may do; see acl_test.go.
	rights rights
}

var mutexKind = &kind{
	name: "mutex", lock: mutexWith(), nests: true, line: true, byMessage: true,
	stands: plainCounts, lives: plainTTL, scripts: protocol.MutexScripts, rights: plainRights,
}

// kinds are all kinds.
var kinds = []*kind{
	mutexKind,
	{
		name: "non-reentrant", lock: mutexWith(holdfast.NonReentrant()), line: true, byMessage: true,
		stands: plainCounts, lives: plainTTL, scripts: protocol.MutexScripts, rights: plainRights,
	},
	{
		name: "fenced", lock: mutexWith(holdfast.Fenced()), nests: true, line: true,
		stands: plainCounts, lives: plainTTL, remains: tokenKey, scripts: protocol.MutexScripts, rights: plainRights.and(tokenRights),
	},
	{
		name: "polling", lock: mutexWith(holdfast.Polling(time.Millisecond, 128*time.Millisecond)), nests: true, polls: true,
		stands: plainCounts, lives: plainTTL, scripts: protocol.MutexScripts, rights: pollingRights,
	},
	{
		name: "fair", lock: fair(), nests: true, queues: true, byMessage: true, scripts: protocol.FairScripts,
		stands: plainCounts, lives: plainTTL, rights: fairRights,
	},
	{
		name: "fair, fenced", lock: fair(holdfast.Fenced()), nests: true, queues: true, scripts: protocol.FairScripts,
		stands: plainCounts, lives: plainTTL, remains: tokenKey, rights: fairRights.and(tokenRights),
	},
	{
		name: "reader", lock: reader(), mode: "read", rival: writer(), readers: reader(), nests: true, line: true, byMessage: true,
		stands: readCounts, lives: readTTL, scripts: protocol.ReadScripts, rights: readerRights,
	},
	{
		name: "writer", lock: writer(), mode: "write", readers: reader(), nests: true, line: true, byMessage: true,
		stands: writeCounts, lives: plainTTL, scripts: protocol.WriteScripts, rights: writerRights,
	},
	{
		name: "writer, writers first", lock: writer(holdfast.WritersFirst()), mode: "write", readers: reader(), nests: true, line: true, byMessage: true,
		stands: writeCounts, lives: plainTTL, scripts: protocol.WriteScripts, rights: writerRights.and(writersFirstRights),
	},
	{
		name: "writer, fenced", lock: writer(holdfast.Fenced()), mode: "write", readers: reader(), nests: true, line: true,
		stands: writeCounts, lives: plainTTL, remains: tokenKey, scripts: protocol.WriteScripts, rights: writerRights.and(tokenRights),
	},
}

func mutexWith(options ...holdfast.MutexOption) maker {
	return func(c *holdfast.Client, name string) anyLock { return c.NewMutex(name, options...) }
}

func fair(options ...holdfast.AnyMutexOption) maker {
	return func(c *holdfast.Client, name string) anyLock { return c.NewFairMutex(name, options...) }
}

func reader(options ...holdfast.RWOption) maker {
	return func(c *holdfast.Client, name string) anyLock { return c.NewRWMutex(name, options...).RLocker() }
}

func writer(options ...holdfast.RWOption) maker {
	return func(c *holdfast.Client, name string) anyLock { return c.NewRWMutex(name, options...) }
}

// against makes the lock's rival.
func (k *kind) against(c *holdfast.Client, name string) anyLock {
	if k.rival == nil {
		return k.lock(c, name)
	}
	return k.rival(c, name)
}

// field is that of an owner in the lock's hash, and in the line.
func (k *kind) field(owner string) string {
	if k.mode == "write" {
		return protocol.WriterField(owner)
	}
	return owner
}

// channel is where those who do not stand in line hear of releases.
func (k *kind) channel(name string) string {
	if k.mode != "" {
		return protocol.RWChannel(name)
	}
	return protocol.LockChannel(name)
}

// fenced reports whether its holds have tokens.
func (k *kind) fenced() bool { return k.remains != nil }

// shared reports whether several owners may hold the lock at once.
func (k *kind) shared() bool { return k.rival != nil }

// left returns which of the keys should not be there when nobody holds the locks
// of these names.
func (k *kind) left(keys []string, names ...string) []string {
	var stay []string
	for _, name := range names {
		if k.remains != nil {
			stay = append(stay, k.remains(name)...)
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return slices.Contains(stay, key) || strings.HasPrefix(key, "holdfast_turn:") // it stays for a second at most
	})
}

// lineKey is who stands in line, and asksKey what they have asked; see protocol/lua/line.lua.
func lineKey(name string) string { return "holdfast_line:" + tagged(name) }
func asksKey(name string) string { return "holdfast_asks:" + tagged(name) }

func tokenKey(name string) []string { return []string{"redisson_lock_token:" + tagged(name)} }

// tagged is the name with a hash tag, as it stands in other keys.
func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// pairs reads the reply to HGETALL.
func pairs(do ask, name string) map[string]string { return fields(do("HGETALL", name)) }

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func pttl(do ask, key string) time.Duration {
	return time.Duration(number(do("PTTL", key)[0])) * time.Millisecond
}

// A plain lock is a hash of owner -> count.
func plainCounts(do ask, name string) map[string]int {
	counts := map[string]int{}
	for owner, count := range pairs(do, name) {
		counts[owner] = number(count)
	}
	return counts
}

func plainTTL(do ask, name, _ string) time.Duration { return pttl(do, name) }

// A writer's field in the hash has :write behind it.
func writeCounts(do ask, name string) map[string]int {
	counts := map[string]int{}
	for field, count := range pairs(do, name) {
		if owner, ok := strings.CutSuffix(field, ":write"); ok {
			counts[owner] = number(count)
		}
	}
	return counts
}

func readHold(name, owner string, i int) string {
	return tagged(name) + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(i)
}

// A reader's count is in the hash, and there is a key for each of its holds.
func readCounts(do ask, name string) map[string]int {
	counts := map[string]int{}
	for owner, count := range pairs(do, name) {
		if owner == "mode" || strings.HasSuffix(owner, ":write") {
			continue
		}
		for i := range number(count) + 1 {
			if do("EXISTS", readHold(name, owner, i+1))[0] == "1" {
				counts[owner]++
			}
		}
		if counts[owner] != number(count) {
			counts["the keys of "+owner] = number(count)
		}
	}
	return counts
}

// readTTL: an owner reads while one of its holds lives, and the hash does.
func readTTL(do ask, name, owner string) (ttl time.Duration) {
	for i := range number(pairs(do, name)[owner]) {
		ttl = max(ttl, pttl(do, readHold(name, owner, i+1)))
	}
	return min(ttl, pttl(do, name))
}

// forKinds runs f for each kind, side by side.
func forKinds(t *testing.T, f func(t *testing.T, k *kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// forNesting is forKinds without the kinds that do not nest.
func forNesting(t *testing.T, f func(t *testing.T, k *kind)) {
	t.Helper()
	forKinds(t, func(t *testing.T, k *kind) {
		if k.nests {
			f(t, k)
		}
	})
}

// fakeKinds runs f under fake time for each kind; see fake.
func fakeKinds(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	forKinds(t, func(t *testing.T, k *kind) { fakeKind(t, k, f) })
}

// fakeNesting runs f under fake time for each kind that nests.
func fakeNesting(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	forNesting(t, func(t *testing.T, k *kind) { fakeKind(t, k, f) })
}

// fakeKind runs f under fake time for a lock of this kind, named x.
func fakeKind(t *testing.T, k *kind, f func(t *testing.T, w *world)) {
	t.Helper()
	fake(t, func(t *testing.T, w *world) {
		w.kind = k
		if k.setUp != nil {
			c, _ := w.client()
			k.setUp(t, c, "x")
		}
		f(t, w)
	})
}

// lock returns the lock of the world's kind, named x, and rival its rival.
func (w *world) lock(c *holdfast.Client) anyLock  { return w.kind.lock(c, "x") }
func (w *world) rival(c *holdfast.Client) anyLock { return w.kind.against(c, "x") }

// mutex returns a plain mutex, which may leave what the kind may.
func (w *world) mutex(c *holdfast.Client, name string) *holdfast.Mutex {
	w.names = append(w.names, name)
	return c.NewMutex(name)
}

// use returns a lock of another name.
func (w *world) use(c *holdfast.Client, name string) anyLock {
	w.t.Helper()
	w.names = append(w.names, name)
	if w.kind.setUp != nil {
		w.kind.setUp(w.t, c, name)
	}
	return w.kind.lock(c, name)
}

// lives is how long an owner holds x if nothing is renewed.
func (w *world) lives(owner holdfast.Owner) time.Duration {
	return w.kind.lives(w.ask, "x", owner.String())
}

// listeners is how many clients listen for releases of x.
func (w *world) listeners() (n int) {
	for _, channel := range w.ask("PUBSUB", "CHANNELS", "*x*") {
		n += number(w.ask("PUBSUB", "NUMSUB", channel)[1])
	}
	return n
}

// ask is do with the reply's elements apart.
func (w *world) ask(args ...string) []string { return strings.Fields(w.do(args...)) }

// left returns which keys should not be there when nobody holds anything.
func (w *world) left() []string {
	w.t.Helper()
	return w.kind.left(w.ask("KEYS", "*"), w.names...)
}

// callsLive is for longer than Redis remembers a call.
const callsLive = 4 * time.Minute

// wantNothing checks that nobody holds anything. What helps calls may live for its time.
func (w *world) wantNothing() {
	w.t.Helper()
	left := slices.DeleteFunc(w.left(), func(key string) bool {
		return slices.ContainsFunc([]string{"holdfast_calls:", "holdfast_zero:", "holdfast_turn:"}, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	if len(left) > 0 {
		w.t.Errorf("left in Redis: %q", left)
	} else if len(w.left()) > 0 {
		time.Sleep(callsLive)
	}
	if left := w.left(); len(left) > 0 {
		w.t.Errorf("left in Redis: %q", left)
	}
}

// wipe deletes what stands in Redis, as an operator might.
func (w *world) wipe() {
	w.t.Helper()
	for _, key := range w.left() {
		w.do("DEL", key)
	}
}

// ask is a platform's do with one lock.
func (p *platform) ask(t *testing.T, name string) ask {
	t.Helper()
	return func(args ...string) []string {
		t.Helper()
		return p.do(t, name, args...)
	}
}

// fresh returns the name of a lock that is ready for use.
func (p *platform) fresh(t *testing.T, k *kind) string {
	t.Helper()
	name := fresh()
	p.setUp(t, k, name)
	return name
}

func (p *platform) setUp(t *testing.T, k *kind, name string) {
	t.Helper()
	if k.setUp != nil {
		k.setUp(t, p.client(t), name)
	}
}

// wantCount checks what stands in Redis: one owner, so many times; 0 is nothing.
func (p *platform) wantCount(t *testing.T, k *kind, name string, owner holdfast.Owner, count int) {
	t.Helper()
	if got, want := k.stands(p.ask(t, name), name), oneOwner(owner, count); !maps.Equal(got, want) {
		t.Errorf("in Redis %v, want %v", got, want)
	}
}

func oneOwner(owner holdfast.Owner, count int) map[string]int {
	if count == 0 {
		return map[string]int{}
	}
	return map[string]int{owner.String(): count}
}

// wantNothing checks that nobody holds the lock, or waits for it.
func (p *platform) wantNothing(t *testing.T, k *kind, name string) {
	t.Helper()
	if left := k.left(p.do(t, name, "KEYS", "*"+name+"*"), name); len(left) > 0 {
		t.Errorf("left in Redis: %q", left)
	}
}

// listens reports whether anybody listens for the lock's releases. Where a client hears that it was granted a lock, it listens for longer.
func (p *platform) listens(t *testing.T, name string) bool {
	t.Helper()
	channels := "CHANNELS"
	if p.sharded {
		channels = "SHARDCHANNELS"
	}
	return len(p.do(t, name, "PUBSUB", channels, "redisson_*"+name+"*")) > 0
}

// standing is how many stand in the lock's line.
func (p *platform) standing(t *testing.T, name string) int {
	t.Helper()
	return number(p.do(t, name, "ZCARD", lineKey(name))[0])
}

// awaitWaiter returns when somebody waits for the lock.
func (p *platform) awaitWaiter(t *testing.T, k *kind, name string) {
	t.Helper()
	if k.polls {
		p.awaitRefusal(t, k.against(p.client(t), name))
		return
	}
	if k.line {
		waitFor(t, "the waiter in line", func() bool { return p.standing(t, name) == 1 })
		return
	}
	if k.queues {
		waitFor(t, "the waiter's number", func() bool { return len(p.do(t, name, "HKEYS", protocol.AsksKey(name))) == 1 })
		return
	}
	waitFor(t, "the waiter's subscription", func() bool { return p.listens(t, name) })
}

// inspectable is what can be inspected.
type inspectable interface {
	Inspect(ctx context.Context) (holdfast.State, error)
}

func isLocked(l inspectable) (bool, error) {
	s, err := l.Inspect(background)
	return s.Locked(), err
}

func holdCount(l inspectable, owner holdfast.Owner) (int, error) {
	s, err := l.Inspect(background)
	return s.Count(owner), err
}

func ttlOf(l inspectable) (time.Duration, error) {
	s, err := l.Inspect(background)
	return s.TTL, err
}

func available(l inspectable) (int, error) {
	s, err := l.Inspect(background)
	return s.Available, err
}

func remaining(l inspectable) (int, error) {
	s, err := l.Inspect(background)
	return s.Remaining, err
}

// leaseOf is how long the permit of an id is held; 0 if it is not.
func leaseOf(l inspectable, id holdfast.Owner) (time.Duration, error) {
	s, err := l.Inspect(background)
	for _, h := range s.Holders {
		if h.Owner == id {
			return h.TTL, err
		}
	}
	return 0, err
}

// permitID is the permit of an id that the tests have written.
func permitID(hex string) holdfast.Owner {
	id, err := holdfast.ParseOwner(hex)
	if err != nil {
		panic(err)
	}
	return id
}
