package interop

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The examples in docs/protocol.md are executed, each by whom its block says, and
// what stands in Redis afterwards is compared with the page.
//
// A block opens with three backquotes, the word wire, and who: holdfast, redisson
// (each version), or redisson-VERSION. Lines with > in front are steps: an owner,
// a verb, a kind, a name and numbers, as [Peer.Ask] takes them; & at the end means
// that the owner waits. An owner G is holdfast's whoever else acts. The other lines
// are what [world.dump] says then.
func TestProtocolExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```wire (.*?)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 30 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	room := make(chan struct{}, 4) // so many JVMs
	for i, block := range blocks {
		for who := range strings.FieldsSeq(block[1]) {
			versions := []string{strings.TrimPrefix(who, "redisson-")}
			if who == "redisson" {
				versions = Versions
			}
			for _, version := range versions {
				t.Run(fmt.Sprintf("%d/%s", i+1, version), func(t *testing.T) {
					t.Parallel()
					room <- struct{}{}
					defer func() { <-room }()
					example(t, version, block[2])
				})
			}
		}
	}
}

// example executes a block and compares.
func example(t *testing.T, version, text string) {
	w := newWorld(t, version, strings.Contains(text, "> G "))
	var want []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if step, ok := strings.CutPrefix(line, "> "); ok {
			w.step(step)
		} else if line != "" {
			want = append(want, line)
		}
	}
	var got []string
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got = slices.DeleteFunc(w.dump(), func(line string) bool {
			// A holder of ours listens from some time on, which the page has said.
			return w.ours != nil && strings.HasPrefix(line, "LISTEN ") && !slices.Contains(want, line)
		})
		if slices.EqualFunc(got, want, agree) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page says\n%s\nbut there is\n%s", text, strings.Join(got, "\n"))
		}
	}
}

var duration = regexp.MustCompile(`\d+ s\b`)

// agree compares lines; times may be so much shorter as an example takes.
func agree(got, want string) bool {
	if duration.ReplaceAllString(got, "") != duration.ReplaceAllString(want, "") {
		return false
	}
	a, b := duration.FindAllString(got, -1), duration.FindAllString(want, -1)
	return slices.EqualFunc(a, b, func(got, want string) bool {
		g, _ := strconv.Atoi(strings.TrimSuffix(got, " s"))
		w, _ := strconv.Atoi(strings.TrimSuffix(want, " s"))
		return g <= w && g >= w-8
	})
}

// world is a Redis with those who act on it.
type world struct {
	*testing.T
	rdb  *redis.Client
	java *Peer // nil: holdfast acts
	ours *ours

	mu       sync.Mutex
	names    map[string]string // what the page calls owners and permits
	messages []string
}

func newWorld(t *testing.T, version string, both bool) *world {
	s := redistest.Start(t)
	w := &world{T: t, rdb: redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2}), names: map[string]string{}}
	sub := w.rdb.PSubscribe(t.Context(), "*")
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m := range sub.Channel() {
			w.mu.Lock()
			w.messages = append(w.messages, "MESSAGE "+m.Channel+"  "+m.Payload)
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(sub.Close(), w.rdb.Close()); err != nil {
			t.Error(err)
		}
		<-heard
	})
	if version != "holdfast" {
		ctx, cancel := context.WithTimeout(background, 5*time.Minute)
		defer cancel()
		java, err := Start(ctx, Config{Version: version, Mode: "single", Addresses: []string{s.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(java.Kill)
		w.java = java
	}
	if version == "holdfast" || both {
		w.ours = newOurs(t, s.Addr())
	}
	return w
}

// step has an owner do something. If it is to wait, step returns when that shows.
func (w *world) step(text string) {
	before := w.dump()
	text, waits := strings.CutSuffix(text, " &")
	words := strings.Fields(text)
	ask := func(thread, verb, kind, name string, numbers ...any) func() (string, error) {
		return w.java.Ask(thread, verb, kind, name, numbers...)
	}
	if w.java == nil || words[0] == "G" {
		ask = w.ours.ask
	}
	w.introduce(words[0], ask)
	var numbers []any
	for _, word := range words[4:] {
		for id, name := range w.names {
			if name == word {
				word = hex.EncodeToString([]byte(id))
			}
		}
		numbers = append(numbers, word)
	}
	answer := ask(words[0], words[1], words[2], words[3], numbers...)
	if waits {
		for deadline := time.Now().Add(5 * time.Second); slices.Equal(w.dump(), before) && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond) // the try after the subscription
		return
	}
	got, err := soonest(answer)
	if err != nil {
		w.Fatal(text, err)
	}
	if id, err := hex.DecodeString(got); err == nil && len(id) == 16 {
		w.mu.Lock()
		w.names[string(id)] = "id" + strconv.Itoa(len(w.names))
		w.mu.Unlock()
	}
}

// soonest is an answer that has to come within 20 s.
func soonest(answer func() (string, error)) (string, error) {
	type result struct {
		value string
		err   error
	}
	came := make(chan result, 1)
	go func() {
		value, err := answer()
		came <- result{value, err}
	}()
	select {
	case r := <-came:
		return r.value, r.err
	case <-time.After(20 * time.Second):
		return "", context.DeadlineExceeded
	}
}

// introduce learns what an owner is called on the wire.
func (w *world) introduce(owner string, ask func(thread, verb, kind, name string, numbers ...any) func() (string, error)) {
	if slices.Contains(slices.Collect(maps.Values(w.names)), owner) {
		return
	}
	full, err := soonest(ask(owner, "thread", "mutex", "any"))
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(full, ":") {
		full = w.java.ID + ":" + full
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[full] = owner
}

// dump says what stands in Redis, on which channels somebody listens, and which
// messages there have been. A time to come is written in seconds, rounded up.
func (w *world) dump() []string {
	var keys, listening []string
	for _, key := range w.strings("KEYS", "*") {
		lines := append([]string{"KEY " + key + "  " + w.rdb.Type(background, key).Val() + expiry(w.rdb.PTTL(background, key).Val())},
			w.value(key)...)
		keys = append(keys, w.named(strings.Join(lines, "\n")))
	}
	for _, channel := range w.strings("PUBSUB", "CHANNELS") {
		listening = append(listening, w.named("LISTEN "+channel))
	}
	slices.Sort(keys)
	slices.Sort(listening)
	var messages []string
	w.mu.Lock()
	for _, m := range w.messages {
		messages = append(messages, w.named(m))
	}
	w.mu.Unlock()
	var lines []string
	for _, key := range keys {
		lines = append(lines, strings.Split(key, "\n")...)
	}
	return slices.Concat(lines, listening, messages)
}

// named writes what owners and permits are called in the page.
func (w *world) named(text string) string {
	for id, name := range w.names {
		text = strings.ReplaceAll(text, id, name)
	}
	return request.ReplaceAllString(text, "random")
}

// request is the id of a request of Redisson's to unlock.
var request = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// readable writes the 16 random bytes of a call of holdfast's as the page does.
func readable(s string) string {
	printable := !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	if printable || len(s) < 16 {
		return s
	}
	if _, err := strconv.Atoi(strings.TrimPrefix(s[16:], " ")); err == nil {
		return "random" + s[16:]
	}
	return s[:len(s)-16] + "random"
}

func (w *world) strings(args ...any) []string {
	found, err := w.rdb.Do(background, args...).StringSlice()
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func expiry(ttl time.Duration) string {
	if ttl < 0 {
		return ""
	}
	return fmt.Sprintf("  expires in %.0f s", math.Ceil(ttl.Seconds()))
}

func (w *world) value(key string) (lines []string) {
	switch w.rdb.Type(background, key).Val() {
	case "string":
		return []string{"    " + readable(instant(w.rdb.Get(background, key).Val()))}
	case "list":
		for i, member := range w.rdb.LRange(background, key, 0, -1).Val() {
			lines = append(lines, fmt.Sprintf("    %d: %s", i, member))
		}
		return lines
	case "hash":
		for field, value := range w.rdb.HGetAll(background, key).Val() {
			lines = append(lines, "    "+field+" = "+value)
		}
	case "zset":
		for _, z := range w.rdb.ZRangeWithScores(background, key, 0, -1).Val() {
			member := z.Member.(string)
			lines = append(lines, "    "+cmp.Or(w.names[member], readable(member))+" = "+instant(strconv.FormatFloat(z.Score, 'f', -1, 64)))
		}
	}
	slices.Sort(lines)
	return lines
}

// instant writes what is a time of today as one.
func instant(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	now := float64(time.Now().UnixMicro())
	if left := n/1000 - now/1e6; math.Abs(left) < 1800 {
		if left <= 0 {
			return "ms, past"
		}
		return fmt.Sprintf("ms, in %.0f s", math.Ceil(left))
	}
	if math.Abs(n-now) < 60e6 {
		return "µs, now"
	}
	return text
}

// ours does with holdfast what [Peer] does with Redisson.
type ours struct {
	*testing.T
	c      *holdfast.Client
	owners map[string]holdfast.Owner
	ctx    context.Context

	mu    sync.Mutex
	holds map[string][]*holdfast.Hold
}

func newOurs(t *testing.T, addr string) *ours {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	c, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	t.Cleanup(func() {
		cancel()
		closing, stop := context.WithTimeout(background, 10*time.Second)
		defer stop()
		if err := errors.Join(c.Close(closing), rdb.Close()); err != nil {
			t.Log(err)
		}
	})
	return &ours{T: t, c: c, owners: map[string]holdfast.Owner{}, holds: map[string][]*holdfast.Hold{}, ctx: ctx}
}

func (o *ours) ask(thread, verb, kind, name string, numbers ...any) func() (string, error) {
	owner, ok := o.owners[thread]
	if !ok {
		owner = o.c.NewOwner()
		o.owners[thread] = owner
	}
	if verb == "thread" {
		return func() (string, error) { return owner.String(), nil }
	}
	var n [2]int
	var id string
	for i, word := range numbers {
		var err error
		if n[i], err = strconv.Atoi(fmt.Sprint(word)); err != nil {
			id = fmt.Sprint(word)
		}
	}
	done := make(chan struct{})
	var value string
	var err error
	do := func() {
		defer close(done)
		ctx := holdfast.WithOwner(o.ctx, owner)
		switch kind {
		case "semaphore":
			err = o.semaphore(ctx, o.c.NewSemaphore(name), verb, n[0])
		case "latch":
			err = o.latch(ctx, o.c.NewLatch(name), verb, n[0])
		case "permits":
			value, err = o.permits(ctx, o.c.NewPermitSemaphore(name), verb, id, n)
		default:
			err = o.lock(ctx, o.kind(kind, name), verb, thread+kind+name, n)
		}
	}
	go do()
	return func() (string, error) { <-done; return value, err }
}

func (o *ours) kind(kind, name string) lock {
	switch kind {
	case "fenced":
		return o.c.NewMutex(name, holdfast.Fenced())
	case "spin":
		return o.c.NewMutex(name, holdfast.Polling(holdfast.ConstantBackoff(10*time.Millisecond)))
	case "fair":
		return o.c.NewFairMutex(name)
	case "read":
		return o.c.NewRWMutex(name).Reader()
	case "write":
		return o.c.NewRWMutex(name, holdfast.WritersFirst()).Writer()
	}
	return o.c.NewMutex(name)
}

func (o *ours) lock(ctx context.Context, l lock, verb, key string, n [2]int) error {
	var options []holdfast.LockOption
	lease := n[0]
	if verb == "trylock" {
		options, lease = append(options, holdfast.Wait(time.Duration(n[0])*time.Millisecond)), n[1]
	}
	if lease > 0 {
		options = append(options, holdfast.Lease(time.Duration(lease)*time.Millisecond))
	}
	switch verb {
	case "lock", "token", "trylock":
		h, err := l.Lock(ctx, options...)
		if err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.holds[key] = append(o.holds[key], h)
		}
		if errors.Is(err, holdfast.ErrLocked) && verb == "trylock" {
			err = nil
		}
		return err
	case "unlock":
		o.mu.Lock()
		last := len(o.holds[key]) - 1
		h := o.holds[key][last]
		o.holds[key] = o.holds[key][:last]
		o.mu.Unlock()
		return h.Unlock()
	case "force":
		_, err := l.ForceUnlock(ctx)
		return err
	}
	return errors.ErrUnsupported
}

func (o *ours) semaphore(ctx context.Context, s *holdfast.Semaphore, verb string, n int) (err error) {
	switch verb {
	case "set":
		_, err = s.TrySetPermits(ctx, n)
	case "acquire":
		err = s.Acquire(ctx, n)
	case "release":
		err = s.Release(n)
	case "add":
		err = s.AddPermits(ctx, n)
	case "drain":
		_, err = s.Drain(ctx)
	default:
		err = errors.ErrUnsupported
	}
	return err
}

func (o *ours) latch(ctx context.Context, l *holdfast.Latch, verb string, n int) (err error) {
	switch verb {
	case "set":
		_, err = l.TrySetCount(ctx, n)
	case "down":
		err = l.CountDown(ctx)
	case "await":
		err = l.Await(ctx)
	case "delete":
		_, err = l.Delete(ctx)
	default:
		err = errors.ErrUnsupported
	}
	return err
}

func (o *ours) permits(ctx context.Context, s *holdfast.PermitSemaphore, verb, id string, n [2]int) (value string, err error) {
	switch verb {
	case "set":
		_, err = s.TrySetPermits(ctx, n[0])
	case "acquire":
		var h *holdfast.Hold
		if h, err = s.Lock(ctx, holdfast.Lease(time.Duration(n[0])*time.Millisecond)); err == nil {
			value = s.IDs(h)[0]
		}
	case "release":
		err = s.Release(ctx, id)
	case "update":
		err = s.UpdateLease(ctx, id, time.Duration(cmp.Or(n[1], n[0]))*time.Millisecond)
	default:
		err = errors.ErrUnsupported
	}
	return value, err
}

// What the page says about Redisson's renewal of reads, and what that does to a
// reader of another client who was promised more.
func TestProtocolReadRenewal(t *testing.T) {
	for version, shortens := range map[string]bool{"4.7.0": false, "3.52.0": true} {
		t.Run(version, func(t *testing.T) {
			s := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			defer rdb.Close()
			java, err := Start(background, Config{Version: version, Mode: "single", Addresses: []string{s.Addr()}, Watchdog: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(java.Kill)
			h, err := newOurs(t, s.Addr()).c.NewRWMutex("x").Reader().Lock(background, holdfast.Lease(10*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := soonest(java.Ask("A", "lock", "read", "x")); err != nil {
				t.Fatal(err)
			}
			short := func(key string) bool { return rdb.PTTL(background, key).Val() <= 3*time.Second }
			for deadline := time.Now().Add(10 * time.Second); !short("x") && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			if hold := short("{x}:" + h.Owner().String() + ":rwlock_timeout:1"); !short("x") || hold != shortens {
				t.Errorf("the hash is short: %v; our read hold's key: %v, want %v", short("x"), hold, shortens)
			}
		})
	}
}
