package kit

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kinds"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// AnyLock is what every kind of lock can do.
type AnyLock interface {
	holdfast.Inspector
	Adopt(ctx context.Context, owner holdfast.Owner, options ...holdfast.TryOption) (*holdfast.Hold, error)
}

// Maker returns the lock of a name.
type Maker func(c *holdfast.Client, name string) AnyLock

// ask executes a command and returns the reply's elements.
type ask func(args ...string) []string

// Kind is a kind of lock, as the suites need to know it. Every suite runs for
// each of them.
type Kind struct {
	rights.Kind // the tests of its rights are in test/rights

	Lock Maker
	// rival makes a lock that excludes, and is excluded by, Lock's of that name;
	// nil: Lock itself does.
	rival Maker
	// Readers makes a lock of which several are held at once, but not beside the
	// rival; nil if there is none.
	Readers Maker
}

// Kinds are all kinds whose holds have owners.
var Kinds = func() (all []*Kind) {
	for _, k := range rights.Kinds() {
		if k.Number {
			continue
		}
		kind := &Kind{Kind: k, Lock: maker(k.Variant)}
		if k.Mode != "" {
			kind.Readers = Reader()
		}
		if k.Shared {
			kind.rival = Writer()
		}
		all = append(all, kind)
	}
	return all
}()

// MutexKind is the plain mutex.
var MutexKind = Kinds[0]

func maker(v protocol.Variant) Maker {
	return func(c *holdfast.Client, name string) AnyLock {
		return kinds.Open(c, v, name).(AnyLock)
	}
}

// Reader makes the read sides of read-write locks.
func Reader(options ...holdfast.RWOption) Maker {
	return func(c *holdfast.Client, name string) AnyLock { return c.NewRWMutex(name, options...).RLocker() }
}

// Writer makes the write sides of read-write locks.
func Writer(options ...holdfast.RWOption) Maker {
	return func(c *holdfast.Client, name string) AnyLock { return c.NewRWMutex(name, options...) }
}

// Against makes the lock's rival.
func (k *Kind) Against(c *holdfast.Client, name string) AnyLock {
	if k.rival == nil {
		return k.Lock(c, name)
	}
	return k.rival(c, name)
}

// Field is that of an owner in the lock's hash, and in the line.
func (k *Kind) Field(owner string) string {
	if k.Mode == "write" {
		return protocol.WriterField(owner)
	}
	return owner
}

// Channel is where those who do not stand in line hear of releases.
func (k *Kind) Channel(name string) string {
	if k.Mode != "" {
		return protocol.RWChannel(name)
	}
	return protocol.LockChannel(name)
}

// Nests reports whether an owner may hold it more than once.
func (k *Kind) Nests() bool { return !k.NonReentrant }

// ByMessage reports whether a hold may begin with a grant message.
func (k *Kind) ByMessage() bool { return !k.Fenced && !k.Polling }

// Left returns which of the keys should not be there when nobody holds the locks
// of these names.
func (k *Kind) Left(keys []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		name, token := strings.CutPrefix(key, "redisson_lock_token:")
		tagged := func(other string) bool { return Tagged(other) == name }
		return k.Fenced && token && slices.ContainsFunc(names, tagged) || strings.HasPrefix(key, "holdfast_yield:") // it stays for a second at most
	})
}

// WaitlistKey is who stands in line, and RequestsKey what they have asked; see protocol/lua/waitlist.lua.
func WaitlistKey(name string) string { return "holdfast_waitlist:" + Tagged(name) }
func RequestsKey(name string) string { return "holdfast_requests:" + Tagged(name) }

// Tagged is the name with a hash tag, as it stands in other keys.
func Tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// Pairs reads the reply to HGETALL.
func Pairs(do ask, name string) map[string]string { return Fields(do("HGETALL", name)) }

// Number reads a number; -1 stands for what is none.
func Number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// PTTL returns the time to live of a key.
func PTTL(do ask, key string) time.Duration {
	return time.Duration(Number(do("PTTL", key)[0])) * time.Millisecond
}

// Stands reads, without the library, how often each owner holds the lock. A plain lock is a hash of owner -> count;
// a writer's field has :write behind it.
func (k *Kind) Stands(do ask, name string) map[string]int {
	if k.Mode == "read" {
		return ReadCounts(do, name)
	}
	counts := map[string]int{}
	for field, count := range Pairs(do, name) {
		if owner, writes := strings.CutSuffix(field, ":write"); writes == (k.Mode == "write") {
			counts[owner] = Number(count)
		}
	}
	return counts
}

// Lives reads how long the owner holds it if nothing is renewed.
func (k *Kind) Lives(do ask, name, owner string) time.Duration {
	if k.Mode == "read" {
		return ReadTTL(do, name, owner)
	}
	return PTTL(do, name)
}

// ReadHold is the key of the i-th hold of a reader, counted from 1.
func ReadHold(name, owner string, i int) string {
	return Tagged(name) + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(i)
}

// ReadCounts reads how often each owner reads: its count is in the hash, and there is a key for each of its holds.
func ReadCounts(do ask, name string) map[string]int {
	counts := map[string]int{}
	for owner, count := range Pairs(do, name) {
		if owner == "mode" || strings.HasSuffix(owner, ":write") {
			continue
		}
		for i := range Number(count) + 1 {
			if do("EXISTS", ReadHold(name, owner, i+1))[0] == "1" {
				counts[owner]++
			}
		}
		if counts[owner] != Number(count) {
			counts["the keys of "+owner] = Number(count)
		}
	}
	return counts
}

// ReadTTL is how long an owner reads: while one of its holds lives, and the hash does.
func ReadTTL(do ask, name, owner string) (ttl time.Duration) {
	for i := range Number(Pairs(do, name)[owner]) {
		ttl = max(ttl, PTTL(do, ReadHold(name, owner, i+1)))
	}
	return min(ttl, PTTL(do, name))
}

// ForKinds runs f for each kind, side by side.
func ForKinds(t *testing.T, f func(t *testing.T, k *Kind)) {
	t.Helper()
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// forNesting is [ForKinds] without the kinds that do not nest.
func forNesting(t *testing.T, f func(t *testing.T, k *Kind)) {
	t.Helper()
	ForKinds(t, func(t *testing.T, k *Kind) {
		if k.Nests() {
			f(t, k)
		}
	})
}

// FakeKinds runs f under fake time for each kind; see [Fake].
func FakeKinds(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	ForKinds(t, func(t *testing.T, k *Kind) { FakeKind(t, k, f) })
}

// FakeNesting runs f under fake time for each kind that nests.
func FakeNesting(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	forNesting(t, func(t *testing.T, k *Kind) { FakeKind(t, k, f) })
}

// FakeKind runs f under fake time for a lock of this kind, named x.
func FakeKind(t *testing.T, k *Kind, f func(t *testing.T, w *World)) {
	t.Helper()
	Fake(t, func(t *testing.T, w *World) {
		w.Kind = k
		f(t, w)
	})
}

// Lock returns the lock of the world's kind, named x, and Rival its rival.
func (w *World) Lock(c *holdfast.Client) AnyLock  { return w.Kind.Lock(c, "x") }
func (w *World) Rival(c *holdfast.Client) AnyLock { return w.Kind.Against(c, "x") }

// Mutex returns a plain mutex, which may leave what the kind may.
func (w *World) Mutex(c *holdfast.Client, name string) *holdfast.Mutex {
	w.Names = append(w.Names, name)
	return c.NewMutex(name)
}

// Use returns a lock of another name.
func (w *World) Use(c *holdfast.Client, name string) AnyLock {
	w.Names = append(w.Names, name)
	return w.Kind.Lock(c, name)
}

// Lives is how long an owner holds x if nothing is renewed.
func (w *World) Lives(owner holdfast.Owner) time.Duration {
	return w.Kind.Lives(w.Ask, "x", owner.String())
}

// Listeners is how many clients listen for releases of x.
func (w *World) Listeners() (n int) {
	for _, channel := range w.Ask("PUBSUB", "CHANNELS", "*x*") {
		n += Number(w.Ask("PUBSUB", "NUMSUB", channel)[1])
	}
	return n
}

// Ask is [World.Do] with the reply's elements apart.
func (w *World) Ask(args ...string) []string { return strings.Fields(w.Do(args...)) }

// left returns which keys should not be there when nobody holds anything.
func (w *World) left() []string {
	w.T.Helper()
	return w.Kind.Left(w.Ask("KEYS", "*"), w.Names...)
}

// CallsLive is for longer than Redis remembers a call.
const CallsLive = 4 * time.Minute

// helps is the key of what helps calls.
var helps = regexp.MustCompile("^holdfast_(calls|zero):")

// WantNothing checks that nobody holds anything. What helps calls may live for its time.
func (w *World) WantNothing() {
	w.T.Helper()
	left := w.left()
	if len(left) > 0 && !slices.ContainsFunc(left, func(key string) bool { return !helps.MatchString(key) }) {
		time.Sleep(CallsLive)
		left = w.left()
	}
	if len(left) > 0 {
		w.T.Errorf("left in Redis: %q", left)
	}
}

// Wipe deletes what stands in Redis, as an operator might.
func (w *World) Wipe() {
	w.T.Helper()
	for _, key := range w.left() {
		w.Do("DEL", key)
	}
}

// Ask is [Platform.Do] with one lock.
func (p *Platform) Ask(t *testing.T, name string) ask {
	t.Helper()
	return func(args ...string) []string {
		t.Helper()
		return p.Do(t, name, args...)
	}
}

// WantCount checks what stands in Redis: one owner, so many times; 0 is nothing.
func (p *Platform) WantCount(t *testing.T, k *Kind, name string, owner holdfast.Owner, count int) {
	t.Helper()
	k.wantCount(t, p.Ask(t, name), name, owner, count)
}

func (k *Kind) wantCount(t *testing.T, do ask, name string, owner holdfast.Owner, count int) {
	t.Helper()
	want := map[string]int{owner.String(): count}
	if count == 0 {
		clear(want)
	}
	if got := k.Stands(do, name); !maps.Equal(got, want) {
		t.Errorf("in Redis %v, want %v", got, want)
	}
}

// WantNothing checks that nobody holds the lock, or waits for it.
func (p *Platform) WantNothing(t *testing.T, k *Kind, name string) {
	t.Helper()
	if left := k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name); len(left) > 0 {
		t.Errorf("left in Redis: %q", left)
	}
}

// Listens reports whether anybody listens for the lock's releases. Where a client hears that it was granted a lock, it listens for longer.
func (p *Platform) Listens(t *testing.T, name string) bool {
	t.Helper()
	channels := "CHANNELS"
	if p.Sharded {
		channels = "SHARDCHANNELS"
	}
	return len(p.Do(t, name, "PUBSUB", channels, "redisson_*"+name+"*")) > 0
}

// Standing is how many stand in the lock's line.
func (p *Platform) Standing(t *testing.T, name string) int {
	t.Helper()
	return Number(p.Do(t, name, "ZCARD", WaitlistKey(name))[0])
}

// AwaitWaiter returns when somebody waits for the lock.
func (p *Platform) AwaitWaiter(t *testing.T, k *Kind, name string) {
	t.Helper()
	switch {
	case k.Polling:
		p.awaitRefusal(t, k.Against(p.Client(t), name))
	case k.Listed():
		WaitFor(t, "the waiter in line", func() bool { return p.Standing(t, name) == 1 })
	default:
		WaitFor(t, "the waiter's number", func() bool { return len(p.Do(t, name, "HKEYS", protocol.RequestsKey(name))) == 1 })
	}
}

// Inspectable is what can be inspected.
type Inspectable interface {
	Inspect(ctx context.Context) (holdfast.State, error)
}

// HoldCount is how often an owner holds it.
func HoldCount(l Inspectable, owner holdfast.Owner) (int, error) {
	s, err := l.Inspect(background)
	return s.Count(owner), err
}

// TTLOf is how long it is held if nothing is renewed.
func TTLOf(l Inspectable) (time.Duration, error) {
	s, err := l.Inspect(background)
	return s.TTL, err
}

// Available is how many permits there are.
func Available(l Inspectable) (int, error) {
	s, err := l.Inspect(background)
	return s.Available, err
}

// Remaining is the count of a latch.
func Remaining(l Inspectable) (int, error) {
	s, err := l.Inspect(background)
	return s.Remaining, err
}

// LeaseOf is how long the permit of an id is held; 0 if it is not.
func LeaseOf(l Inspectable, id holdfast.Owner) (time.Duration, error) {
	s, err := l.Inspect(background)
	for _, h := range s.Holders {
		if h.Owner == id {
			return h.TTL, err
		}
	}
	return 0, err
}

// PermitID is the permit of an id that the tests have written.
func PermitID(hex string) holdfast.Owner {
	id, err := holdfast.ParseOwner(hex)
	if err != nil {
		panic(err)
	}
	return id
}
