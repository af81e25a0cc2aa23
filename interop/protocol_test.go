package interop

import (
	"cmp"
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

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The examples in docs/internals/protocol.md and testdata/examples.md are executed, each by whom its block says, and
// what stands in Redis afterwards is compared with the page.
//
// A block opens with three backquotes, the word wire, and who: holdfast, redisson
// (each version), or redisson-VERSION. Lines with > in front are steps: an owner,
// a verb, a kind, a name and numbers, as [Peer.Ask] takes them; & at the end means
// that the owner waits. An owner G is holdfast's whoever else acts. The other lines
// are what [world.dump] says then.
func TestProtocolExamples(t *testing.T) {
	var blocks [][]string
	for _, file := range []string{"../docs/internals/protocol.md", "testdata/examples.md"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, regexp.MustCompile("(?ms)^```wire (.*?)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)...)
	}
	if len(blocks) < 49 {
		t.Fatalf("there are %d examples", len(blocks))
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
	w := newScene(t, version, strings.Contains(text, "> G "))
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
			return w.golang != nil && strings.HasPrefix(line, "LISTEN ") && !slices.Contains(want, line)
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

// scene is a Redis with those who act on it.
type scene struct {
	*testing.T
	rdb    *redis.Client
	java   *Peer // nil: holdfast acts
	golang *Peer

	mu       sync.Mutex
	names    map[string]string // what the page calls owners and permits
	messages []string
}

func newScene(t *testing.T, version string, both bool) *scene {
	s := redistest.Start(t)
	w := &scene{T: t, rdb: redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2}), names: map[string]string{}}
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
	c := Config{Version: version, Mode: Single, Addresses: []string{s.Addr()}}
	if version != "holdfast" {
		if w.java = startPeer(t, StartJava, c); w.java == nil {
			t.FailNow()
		}
	}
	if version == "holdfast" || both {
		if w.golang = startPeer(t, StartGo, c); w.golang == nil {
			t.FailNow()
		}
	}
	return w
}

// step has an owner do something. If it is to wait, step returns when that shows.
func (w *scene) step(text string) {
	before := w.dump()
	text, waits := strings.CutSuffix(text, " &")
	words := strings.Fields(text)
	actor := w.java
	if w.java == nil || words[0] == "G" {
		actor = w.golang
	}
	w.introduce(words[0], actor)
	var numbers []any
	for _, word := range words[4:] {
		for id, name := range w.names {
			if name == word {
				word = hex.EncodeToString([]byte(id))
			}
		}
		numbers = append(numbers, word)
	}
	if words[2] == "write" && !actor.Java {
		words[2] = "writersfirst" // the page shows what it leaves
	}
	answer := actor.Ask(words[0], words[1], words[2], words[3], numbers...)
	if waits {
		for deadline := time.Now().Add(5 * time.Second); slices.Equal(w.dump(), before) && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond) // the try after the subscription
		return
	}
	got, err := within(patience, answer)
	if err != nil {
		w.Fatal(text, err)
	}
	if id, err := hex.DecodeString(got); err == nil && len(id) == 16 {
		w.mu.Lock()
		w.names[string(id)] = "id" + strconv.Itoa(len(w.names))
		w.mu.Unlock()
	}
}

// introduce learns what an owner is called on the wire.
func (w *scene) introduce(owner string, actor *Peer) {
	if slices.Contains(slices.Collect(maps.Values(w.names)), owner) {
		return
	}
	full, err := within(patience, actor.Ask(owner, "owner", "mutex", "any"))
	if err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[full] = owner
}

// dump says what stands in Redis, on which channels somebody listens, and which
// messages there have been. A time to come is written in seconds, rounded up.
func (w *scene) dump() []string {
	var keys, listening []string
	for _, key := range w.strings("KEYS", "*") {
		if strings.HasPrefix(key, "holdfast_client:") {
			continue // who a client is, which has a section of its own
		}
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
func (w *scene) named(text string) string {
	text = nameless.ReplaceAllString(text, "CLIENT:random") // before those of which it may begin with the name
	for id, name := range w.names {
		text = strings.ReplaceAll(text, id, name)
	}
	text = grants.ReplaceAllString(text, "${1}CLIENT$2")
	text = granted.ReplaceAllString(text, "${1}NUMBER")
	text = asked.ReplaceAllStringFunc(text, func(line string) string {
		ask := asked.FindStringSubmatch(line)
		return ask[1] + "NUMBER " + ask[2] + " " + instant(ask[3]) + " " + ask[4]
	})
	return request.ReplaceAllString(text, "random")
}

// What stands in a line, and is said there.
var (
	grants = regexp.MustCompile(`(holdfast_granted:)[0-9a-f-]{36}(.*)`)
	// nameless is one who waits for permits.
	nameless = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f-]{17}:\d{6,}`)
	granted  = regexp.MustCompile(`(MESSAGE holdfast_granted:CLIENT  )\w+`)
	asked    = regexp.MustCompile(`(?m)^(.* = )\w+ (\d+) (\d{13}) ([01](?: random)?)$`)
)

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

func (w *scene) strings(args ...any) []string {
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

func (w *scene) value(key string) (lines []string) {
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
			lines = append(lines, "    "+field+" = "+readable(value))
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
	if math.Abs(n+1<<52-now) < 60e6 {
		return "µs, now, in front"
	}
	return text
}

// What the page says about Redisson's renewal of reads, and that holdfast sets right
// what it does to a reader who was promised more.
func TestProtocolReadRenewal(t *testing.T) {
	t.Parallel() // it waits for a watchdog
	for version, shortens := range map[string]bool{"4.7.0": false, "3.52.0": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			defer rdb.Close()
			// Beside a watchdog of 30 s there are 20 s for what takes 10.
			java, golang := startBoth(t, Config{Version: version, Mode: Single, Addresses: []string{s.Addr()}, Watchdog: 30 * time.Second})
			d := &duel{T: t, k: &kind{name: "read"}, a: java, b: golang}
			d.do(golang, "G", "lock", "x", 600_000)
			d.do(java, "A", "lock", "x")
			hold := "{x}:" + d.do(golang, "G", "owner", "x") + ":rwlock_timeout:1"
			short := func(key string) bool { return rdb.PTTL(background, key).Val() <= 30*time.Second }
			d.until("Java has renewed it", func() bool { return short("x") })
			if short(hold) != shortens {
				t.Errorf("our read hold's key is short: %v", short(hold))
			}
			d.until("we have set it right", func() bool { return !short("x") && !short(hold) })
			d.want(d.do(golang, "G", "lost", "x"), "false")
		})
	}
}
