package scripts

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// twins are two locks of one kind that get the same requests, one of them by scripts without their prologues. After each request they must
// be alike: the reply, holders and counts, times to live, entries, requests, and published messages.
type twins struct {
	twinKind

	t      *testing.T
	rnd    *rand.Rand
	sides  [2]*stage
	fenced bool
	others bool // an unlisted waiter is subscribed
	steps  []string
	began  int64 // by the server's clock, ms; 0 under fake time, where all is exact
	n      int
}

// twinKind is a kind of lock, and how its twins are used and compared. Functions of locks with owners are nil if that kind does nothing more.
type twinKind struct {
	name, stage  string
	reads        string              // the command that reads the waitlist; empty: ZRANGE
	fencing      bool                // it has fencing tokens
	alwaysListed bool                // Redisson's waiters are listed: they do not subscribe to the lock's own channel
	ours, java   []string            // actors: holdfast's, which send the requests, and Redisson's. The client of deaf is not subscribed to grants
	prologues    map[string][]string // by operation: conditions, and what replaces each so that the prologue does nothing

	step  func(w *twins) string                                                 // changes both, and returns their difference
	found func(w *twins, s *stage, operation string, reply script.Reply) string // what is compared

	acquire func(w *twins, who string, a *protocol.Acquire)     // completes the parameters
	forced  func(w *twins, who string, names []string) []string // returns the owners that a force names; "": all others
	foreign func(w *twins, holder string)                       // another program changes the lock
	takes   func(w *twins, java string)                         // a Redisson client takes the lock
	state   func(w *twins, s *stage) string                     // what the kind has in Redis besides
}

// lockPrologues are those of locks with owners.
var lockPrologues = map[string][]string{
	"acquire": {"\nif some == 0 and ", "\nif false and ", "\nif some ~= 0 or ", "\nif true or "},
	"release": {"\nif ARGV[7] == '0' and ", "\nif false and "},
}

var twinKinds = []twinKind{
	{
		name: "mutex", stage: "lock", fencing: true, ours: []string{"a", "b", "c", "d", "deaf"}, java: []string{"java"},
		prologues: lockPrologues, step: (*twins).lockStep, found: (*twins).lockFound,
		foreign: (*twins).javaUses, takes: (*twins).javaTakes,
	},
	{
		name: "fair", stage: "fair", reads: "LRANGE", fencing: true, alwaysListed: true,
		ours: []string{"a", "b", "c", "d", "deaf"}, java: []string{"java", "java2"},
		prologues: lockPrologues, step: (*twins).lockStep, found: (*twins).lockFound,
		acquire: (*twins).fairAcquire, forced: (*twins).fairForced, foreign: (*twins).fairForeign, takes: (*twins).fairTakes, state: (*twins).fairState,
	},
	{
		name: "rw", stage: "rw", fencing: true, java: []string{"java", "javaW"},
		ours:      []string{"a", "aW", "b", "bW", "c", "cW", "front", "frontW", "deaf", "deafW"},
		prologues: lockPrologues, step: (*twins).lockStep, found: (*twins).lockFound,
		acquire: (*twins).rwAcquire, forced: (*twins).rwForced, foreign: (*twins).rwForeign, takes: (*twins).rwTakes, state: (*twins).rwState,
	},
	{
		name: "permits", stage: "semaphore", ours: []string{"a", "b", "c", "d", "e", "deaf", "f2", "g2", "h3", "i4", "deaf2"},
		prologues: map[string][]string{
			"acquire": {"\nif (some == 0 or not usable) and ", "\nif false and "},
			"release": {"\nif score and ", "\nif false and "},
		},
		step: (*twins).permitsStep, found: (*twins).permitsFound,
	},
}

// TestPrologues: with its prologue a script does the same as without. Random sequences are played on locks of each kind, plain and fenced, in
// memory and on a real server.
func TestPrologues(t *testing.T) {
	var all []*twins
	for _, kind := range twinKinds {
		all = append(all, &twins{twinKind: kind})
		if kind.fencing {
			all = append(all, &twins{twinKind: kind, fenced: true})
		}
	}
	for _, w := range all {
		t.Run(w.String()+" in memory", func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, world *kit.World) {
				for seed := range int64(60) {
					w.play(t, seed, 80, nil, world.Server.Driver(), world.Do)
					world.Do("FLUSHALL")
				}
			})
		})
	}
	t.Parallel() // fake time is not for tests beside those on real servers: see faketime.Test
	server := redistest.Start(t)
	do := kit.Direct(t, server)
	d := kit.GoRedis("twins", redis.UniversalOptions{Addrs: []string{server.Addr()}}, nil).Open(t)
	for _, w := range all {
		t.Run(w.String(), func(t *testing.T) {
			for seed := range int64(20) {
				w.play(t, seed, 40, server, d, func(args ...string) string {
					t.Helper()
					return strings.Join(do(t, "", args...), " ")
				})
			}
		})
	}
}

func (w *twins) String() string {
	if w.fenced {
		return "fenced " + w.name
	}
	return w.name
}

// play plays one sequence with new twins like these, until they differ.
func (w *twins) play(t *testing.T, seed int64, steps int, server *redistest.Server, d driver.Driver, do func(...string) string) {
	t.Helper()
	w = &twins{twinKind: w.twinKind, fenced: w.fenced, t: t, rnd: rand.New(rand.NewSource(seed)), others: seed%3 == 0 && !w.alwaysListed}
	for i := range w.sides {
		s := newStage(t, w.stage, kit.Fresh(), 3, d, do)
		defer s.ears.Close()
		s.server = server
		for _, name := range w.actors() {
			s.actor(name)
		}
		nobody := s.actor("nobody") // the placeholder
		nobody.owner = strings.Replace(nobody.owner, ":257", ":-3", 1)
		nobody.seat = nobody.owner
		s.actor("nobodyW")
		if w.others {
			s.listen(s.shared)
		}
		w.sides[i] = s
	}
	if server != nil {
		w.began = time.Now().UnixMilli()
	}
	for range steps {
		w.pause()
		if wrong := w.step(w); wrong != "" {
			t.Errorf("seed %d: %s\n%s", seed, strings.Join(w.steps[max(0, len(w.steps)-8):], "\n"), wrong)
			return
		} else if w.late() {
			return
		}
	}
}

// late reports whether a sequence on a real server has taken so long that a key may have expired for one twin alone.
func (w *twins) late() bool { return w.began > 0 && time.Now().UnixMilli()-w.began > 2000 }

// pause makes time pass in memory. A real server's clock decides whether it yields to unlisted waiters: it might for one twin alone, so the
// next yield window begins in an hour.
func (w *twins) pause() {
	if w.began == 0 {
		time.Sleep(time.Duration(w.rnd.Intn(300_000)) * time.Microsecond)
	} else if w.others {
		w.do("SET", "TURN", fmt.Sprintf("%d %d 3", time.Hour.Milliseconds(), time.Now().UnixMilli()))
	}
}

// actors returns all of them.
func (w *twins) actors() []string { return slices.Concat(w.ours, w.java) }

// oneOf returns one of these at random.
func oneOf[T any](w *twins, all ...T) T { return all[w.rnd.Intn(len(all))] }

// note notes what happens.
func (w *twins) note(what ...any) { w.steps = append(w.steps, fmt.Sprint(what...)) }

// do sends a command for both: the names in [stage] are their keys, @a is a seat, and @a:rwlock_timeout:1 the key of its read hold.
func (w *twins) do(args ...string) {
	for _, s := range w.sides {
		words := slices.Clone(args)
		for i, word := range words {
			if name, found := strings.CutPrefix(word, "@"); found {
				name, reads := strings.CutSuffix(name, ":rwlock_timeout:1")
				words[i] = s.actor(name).seat
				if reads {
					words[i] = protocol.ReadHoldKey(s.name, s.actor(name).owner, 1)
				}
			} else if key := s.keys[word]; key != "" {
				words[i] = key
			}
		}
		s.do(words...)
	}
}

// ask sends a request to both, and returns their difference; empty if there is none, or if the kind has no such request.
func (w *twins) ask(what string, request func(s *stage) script.Request) string {
	w.note(what)
	state := w.rnd.Int63()
	var found [2]string
	for i, s := range w.sides {
		w.rnd.Seed(state) // what is random in the request is the same
		r := request(s)
		if r.Script == nil {
			return ""
		}
		operation := r.Script.Name()
		if i == 1 {
			r = w.withoutPrologue(r)
		}
		found[i] = w.found(w, s, operation, s.send(s.actor(w.ours[0]), r))
	}
	if found[0] == found[1] || w.late() {
		return ""
	}
	return fmt.Sprintf("%s:\n  %s\nand\n  %s", what, found[0], found[1])
}

// withoutPrologue returns a request whose script has no prologue: the operation does all by the functions of the kind.
func (w *twins) withoutPrologue(r script.Request) script.Request {
	w.t.Helper()
	text := r.Script.Source()
	for pair := range slices.Chunk(w.prologues[r.Script.Name()], 2) {
		if strings.Count(text, pair[0]) != 1 {
			w.t.Fatalf("the prologue of %s has no %q", r.Script.Name(), pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	r.Script = driver.NewScript(r.Script.Name(), text)
	return r
}

// leases are the times to live that the twins' locks have. No lease is half of another one: see others in rw.lua.
var leases = []time.Duration{0, 3 * time.Second, 5 * time.Second, 10 * time.Second, 25 * time.Second, 30 * time.Second, 45 * time.Second, 55 * time.Second}

// of returns the lease with this rest on a real server, where less than two seconds have passed.
func of(left time.Duration) time.Duration {
	i, _ := slices.BinarySearch(leases, left)
	return leases[min(i, len(leases)-1)]
}

// count returns an actor's count.
func (w *twins) count(name string) int {
	s := w.sides[0]
	n, _ := strconv.Atoi(s.do("HGET", s.name, s.actor(name).seat))
	return n
}

// holder returns the name of an actor that holds the lock; empty if none does.
func (w *twins) holder() string {
	all := slices.Sorted(maps.Keys(w.sides[0].holders()))
	if len(all) == 0 {
		return ""
	}
	holder, _, _ := strings.Cut(oneOf(w, all...), "*")
	return holder
}

// sameSide reports whether two actors are for the same side of a lock.
func sameSide(a, b string) bool { return strings.HasSuffix(a, "W") == strings.HasSuffix(b, "W") }

// other returns another actor for the same side of the lock.
func (w *twins) other(who string) string {
	for {
		if other := oneOf(w, w.actors()...); other != who && sameSide(other, who) {
			return other
		}
	}
}

// lockStep is a step of locks with owners.
func (w *twins) lockStep() string {
	who := oneOf(w, w.ours...)
	count, holder := w.count(who), w.holder()
	holding, held := who, count // mostly an actor that holds the lock
	if holder != "" {
		holding, held = holder, w.count(holder)
	}
	switch k := w.rnd.Intn(100); {
	case k < 45:
		return w.acquires(who, count)
	case k < 68:
		if count > 0 || w.rnd.Intn(6) == 0 {
			return w.releases(who, count)
		}
		return w.releases(holding, held)
	case k < 76:
		return w.ask(who+" leaves", func(s *stage) script.Request { return s.actor(who).lock.Leave(s.actor(who).owner) })
	case k < 79:
		return w.forces(oneOf(w, who, holding))
	case k < 83:
		return w.adopts(who, holder)
	case k < 86:
		return w.ask(holding+" retains", func(s *stage) script.Request {
			return s.actor(holding).lock.Retain(s.actor(holding).owner, max(1, held-w.rnd.Intn(2)), s.actor("nobody").owner, 5*time.Second)
		})
	case k < 89:
		ttl := oneOf(w, 0, 45*time.Second)
		return w.ask(who+" renews "+ttl.String(), func(s *stage) script.Request { return s.actor(who).lock.Renew(s.actor(who).owner, count, ttl) })
	case k < 91:
		return w.ask("inspects", func(s *stage) script.Request { return s.actor(who).lock.Inspect() })
	case k < 93:
		w.note("the lock expires")
		w.do("DEL", "LOCK")
	case k < 95 && w.began == 0:
		w.note("time passes")
		time.Sleep(time.Duration(w.rnd.Intn(6)) * time.Second)
	default:
		w.foreign(w, holder)
	}
	return ""
}

// acquires makes an actor with this count acquire the lock.
func (w *twins) acquires(who string, count int) string {
	if count > 3 {
		return ""
	}
	a := protocol.Acquire{From: count, To: count + 1, Lease: oneOf(w, 10*time.Second, 30*time.Second, 55*time.Second), Token: w.fenced}
	if w.rnd.Intn(8) == 0 {
		a.From = w.rnd.Intn(3)
		a.To = a.From + 1
	}
	if a.From == 0 {
		w.waits(&a)
	}
	if w.acquire != nil {
		w.acquire(w, who, &a)
	}
	return w.ask(fmt.Sprintf("%s acquires %+v", who, a), func(s *stage) script.Request {
		a.Owner = s.actor(who).owner
		return s.actor(who).lock.Acquire(a)
	})
}

// waits decides whether an acquire waits, listed or unlisted.
func (w *twins) waits(a *protocol.Acquire) {
	w.n++
	switch w.rnd.Intn(10) {
	case 0:
	case 1:
		a.Waiting, a.Unlisted = true, true
	default:
		a.Waiting, a.Number, a.Scattered = true, number(fmt.Sprintf("n%d", w.n)), w.rnd.Intn(6) == 0
	}
}

// releases makes an actor with this count release the lock.
func (w *twins) releases(who string, count int) string {
	from, to := max(1, count), 0
	if count > 1 && w.rnd.Intn(2) == 0 {
		to = count - 1
	}
	if w.rnd.Intn(8) == 0 {
		from = 1 + w.rnd.Intn(2)
		to = w.rnd.Intn(from)
	}
	counting, listens := w.rnd.Intn(2) == 0, w.rnd.Intn(3) == 0
	return w.ask(fmt.Sprintf("%s releases %d %d %v %v", who, from, to, counting, listens), func(s *stage) script.Request {
		r := s.actor(who).lock.Release(s.actor(who).owner, from, to)
		if counting {
			r = protocol.CountingListeners(r, listens)
		}
		return r
	})
}

// forces releases the lock of two actors, mostly of this one.
func (w *twins) forces(who string) string {
	names := []string{w.other(who), w.other(who)}
	if w.rnd.Intn(3) > 0 {
		names[0] = who
	}
	if w.forced != nil {
		names = w.forced(w, who, names)
	}
	return w.ask(fmt.Sprintf("forced %q", names), func(s *stage) script.Request {
		owners := make([]string, len(names))
		for i, name := range names {
			if name != "" {
				owners[i] = s.actor(name).owner
			}
		}
		return s.actor(who).lock.Force(owners)
	})
}

// adopts makes an actor adopt a hold, mostly that of the holder.
func (w *twins) adopts(who, holder string) string {
	from := w.other(who)
	if holder != "" && holder != who && sameSide(who, holder) && w.rnd.Intn(3) > 0 {
		from = holder
	}
	a := protocol.Acquire{To: 1, Lease: 25 * time.Second, Token: w.fenced}
	return w.ask(fmt.Sprint(who, " adopts from ", from), func(s *stage) script.Request {
		a.Owner = s.actor(who).owner
		return s.actor(who).lock.Adopt(a, s.actor(from).owner)
	})
}

// javaUses makes a Redisson client take the lock, which is free, or release it.
func (w *twins) javaUses(holder string) {
	switch {
	case holder == "":
		w.takes(w, oneOf(w, w.java...))
	case slices.Contains(w.java, holder):
		w.note(holder, " releases it")
		w.do("DEL", "LOCK")
	}
}

// javaTakes makes a Redisson client take the lock.
func (w *twins) javaTakes(java string) {
	w.note(java, " takes it")
	w.do("HSET", "LOCK", "@"+java, "1")
	w.do("PEXPIRE", "LOCK", "30000")
}

// lockFound returns the reply, the keys and the messages of locks with owners.
func (w *twins) lockFound(s *stage, operation string, reply script.Reply) string {
	return strings.Join([]string{w.lockReply(s, operation, reply), w.lockState(s), s.heard()}, "\n  ")
}

// lockReply returns the contents of a reply, as far as they are the same for both.
func (w *twins) lockReply(s *stage, operation string, reply script.Reply) string {
	exact := w.began == 0
	switch {
	case reply.Code == script.Refused && operation == "acquire":
		found := protocol.ReadRefusal(reply)
		found.Holder = strings.Join(s.named(found.Holder), "")
		if !exact {
			found.Retry, found.TTL = 0, of(found.TTL)
		}
		return fmt.Sprintf("refused %+v", found)
	case reply.Code == script.Done && operation == "release" && w.alwaysListed: // nothing else of it is read
		return "released " + reply.Untold()
	case reply.Code == script.Done && operation == "release":
		heard, granted := protocol.ReadHeard(reply)
		return fmt.Sprint("released ", heard, granted, reply.Untold())
	case operation == "inspect":
		state, err := protocol.ReadState(reply)
		kit.OK(w.t, err)
		if !exact {
			state.TTL, state.Token = 0, min(state.Token, 1)
		}
		for i := range state.Holders {
			state.Holders[i].Owner = s.named(state.Holders[i].Owner)[0]
			if !exact {
				state.Holders[i].TTL = 0
			}
		}
		state.Waiters = s.named(state.Waiters...)
		return fmt.Sprintf("%+v", state)
	case !exact && w.fenced && len(reply.Rest) > 0 && (operation == "acquire" || operation == "adopt"):
		return fmt.Sprint(operation, " ", reply.Code)
	}
	return fmt.Sprint(operation, " ", reply.Code, reply.Rest)
}

// lockState returns the lock's keys.
func (w *twins) lockState(s *stage) string {
	holders, more := s.holders(), ""
	if w.state != nil {
		more = w.state(w, s)
	}
	waiters := s.named(strings.Fields(s.do(cmp.Or(w.reads, "ZRANGE"), s.keys["LINE"], "0", "-1"))...)
	asks := w.named(s, s.do("HGETALL", s.keys["ASKS"]))
	if w.began == 0 {
		return fmt.Sprint(
			holders, s.pttl(s.name), waiters, asks, s.do("GET", s.keys["TURN"]), s.do("GET", protocol.TokenKey(s.name)),
			s.pttl(s.keys["LINE"]), s.pttl(s.keys["ASKS"]), " ", more,
		)
	}
	for name, lives := range holders {
		holders[name] = of(lives)
	}
	return fmt.Sprint(holders, waiters, len(strings.Fields(asks)), s.do("EXISTS", protocol.TokenKey(s.name)), " ", more)
}

// named returns a text of words with the names of seats, each of which may be there more than once.
func (w *twins) named(s *stage, text string) string {
	words := strings.Fields(text)
	for i := range words {
		words[i] = s.named(words[i])[0]
	}
	return strings.Join(words, " ")
}
