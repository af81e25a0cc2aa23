package scripts

import (
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

// twins are two locks that get the same requests, one of them by scripts without their prologues. After each request they must be alike:
// the reply, holders and counts, times to live, entries, requests, and published messages.
type twins struct {
	t      *testing.T
	rnd    *rand.Rand
	sides  [2]*stage
	fenced bool
	actors []string // those of the kind, of which the first are ours
	ours   int
	others bool // an unlisted waiter is subscribed
	steps  []string
	began  int64 // by the server's clock, ms; 0 under fake time, where all is exact
	n      int
}

// prologues are conditions in scripts, and what replaces them so that the prologue of the kind does nothing: the operation does all by the
// functions of the kind.
var prologues = map[string][]string{
	"acquire": {"\nif some == 0 and ", "\nif false and ", "\nif some ~= 0 or ", "\nif true or "},
	"release": {"\nif ARGV[7] == '0' and ", "\nif false and "},
}

// withoutPrologue returns a request whose script has no prologue.
func withoutPrologue(t *testing.T, r script.Request) script.Request {
	t.Helper()
	text := r.Script.Source()
	for pair := range slices.Chunk(prologues[r.Script.Name()], 2) {
		if strings.Count(text, pair[0]) != 1 {
			t.Fatalf("the prologue of %s has no %q", r.Script.Name(), pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	r.Script = driver.NewScript(r.Script.Name(), text)
	return r
}

// TestPrologues: with its prologue a script does the same as without. Random sequences are played on plain and on fenced locks, in memory
// and on a real server.
func TestPrologues(t *testing.T) {
	type lock struct {
		kind   string
		fenced bool
	}
	locks := []lock{{"lock", false}, {"lock", true}, {"rw", false}, {"rw", true}}
	for _, l := range locks {
		t.Run(fmt.Sprintf("%s in memory, fenced %v", l.kind, l.fenced), func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				for seed := range int64(60) {
					play(t, seed, l.kind, l.fenced, 80, nil, w.Server.Driver(), w.Do)
					w.Do("FLUSHALL")
				}
			})
		})
	}
	t.Parallel() // fake time is not for tests beside those on real servers: see faketime.Test
	server := redistest.Start(t)
	do := kit.Direct(t, server)
	d := kit.GoRedis("twins", redis.UniversalOptions{Addrs: []string{server.Addr()}}, nil).Open(t)
	for _, l := range locks {
		t.Run(fmt.Sprintf("%s, fenced %v", l.kind, l.fenced), func(t *testing.T) {
			for seed := range int64(20) {
				play(t, seed, l.kind, l.fenced, 40, server, d, func(args ...string) string {
					t.Helper()
					return strings.Join(do(t, "", args...), " ")
				})
			}
		})
	}
}

// play plays one sequence, until the twins differ.
func play(
	t *testing.T, seed int64, kind string, fenced bool, steps int, server *redistest.Server, d driver.Driver, do func(...string) string,
) {
	t.Helper()
	w := &twins{t: t, rnd: rand.New(rand.NewSource(seed)), fenced: fenced, actors: actors[kind], others: seed%3 == 0}
	w.ours = slices.IndexFunc(w.actors, func(name string) bool { return strings.HasPrefix(name, "java") })
	for i := range w.sides {
		s := newStage(t, kind, kit.Fresh(), 0, d, do)
		defer s.ears.Close()
		s.server = server
		for _, name := range w.actors {
			s.actor(name)
		}
		nobody := s.actor("nobody")
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
		if wrong := w.step(); wrong != "" {
			t.Errorf("seed %d: %s\n%s", seed, strings.Join(w.steps[max(0, len(w.steps)-8):], "\n"), wrong)
			return
		} else if w.late() {
			return
		}
	}
}

// actors are those of each kind. The client of deaf is not subscribed to grants; the last are Redisson's.
var actors = map[string][]string{
	"lock": {"a", "b", "c", "d", "deaf", "java"},
	"rw":   {"a", "aW", "b", "bW", "c", "cW", "front", "frontW", "deaf", "deafW", "java", "javaW"},
}

// late reports whether a sequence on a real server has taken so long that a key may have expired for one twin alone.
func (w *twins) late() bool { return w.began > 0 && time.Now().UnixMilli()-w.began > 2000 }

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
	holder, _, _ := strings.Cut(all[w.rnd.Intn(len(all))], "*")
	return holder
}

// other returns another actor for the same side of the lock.
func (w *twins) other(who string) string {
	for {
		other := w.actors[w.rnd.Intn(len(w.actors))]
		if other != who && strings.HasSuffix(other, "W") == strings.HasSuffix(who, "W") {
			return other
		}
	}
}

// step changes both, and returns their difference; empty if there is none.
func (w *twins) step() string {
	if w.began == 0 {
		time.Sleep(time.Duration(w.rnd.Intn(300_000)) * time.Microsecond)
	} else if w.others { // a real server's clock decides whether it yields to them: it might for one twin alone
		w.do("SET", "TURN", fmt.Sprintf("%d %d", time.Hour.Milliseconds(), time.Now().UnixMilli()))
	}
	who := w.actors[w.rnd.Intn(w.ours)]
	count, holder := w.count(who), w.holder()
	switch k := w.rnd.Intn(100); {
	case k < 45:
		a := protocol.Acquire{From: count, To: count + 1, Lease: []time.Duration{10 * time.Second, 30 * time.Second, 55 * time.Second}[w.rnd.Intn(3)], Token: w.fenced}
		a.Writes = w.sides[0].actors[who+"W"] != nil && (w.count(who+"W") > 0 || w.rnd.Intn(12) == 0)
		if w.rnd.Intn(8) == 0 {
			a.From = w.rnd.Intn(3)
			a.To = a.From + 1
		}
		if count > 3 {
			return ""
		}
		if a.From == 0 && w.rnd.Intn(5) > 0 {
			w.n++
			a.Number, a.Scattered = number(fmt.Sprintf("n%d", w.n)), w.rnd.Intn(6) == 0
		}
		return w.ask(fmt.Sprintf("%s acquires %+v", who, a), func(s *stage) script.Request {
			a.Owner = s.actor(who).owner
			return s.actor(who).lock.Acquire(a)
		})
	case k < 68:
		if count == 0 && w.rnd.Intn(6) > 0 && holder != "" {
			who, count = holder, w.count(holder)
		}
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
	case k < 76:
		return w.ask(who+" leaves", func(s *stage) script.Request { return s.actor(who).lock.Leave(s.actor(who).owner) })
	case k < 79:
		if holder != "" && w.rnd.Intn(2) == 0 {
			who = holder
		}
		names, crowd := []string{w.other(who), w.other(who)}, w.rnd.Intn(4) == 0 && !strings.HasSuffix(who, "W")
		if w.rnd.Intn(2) == 0 {
			names[0] = who
		}
		return w.ask(fmt.Sprint("forced ", names, crowd), func(s *stage) script.Request {
			owners := []string{s.actor(names[0]).owner, s.actor(names[1]).owner}
			if crowd && s.kind == "rw" {
				owners = append(owners, protocol.Everybody)
			}
			return s.actor(who).lock.Force(owners)
		})
	case k < 83:
		from := w.other(who)
		if holder != "" && holder != who && w.rnd.Intn(3) > 0 && strings.HasSuffix(who, "W") == strings.HasSuffix(holder, "W") {
			from = holder
		}
		a := protocol.Acquire{To: 1, Lease: 25 * time.Second, Token: w.fenced}
		return w.ask(fmt.Sprint(who, " adopts from ", from), func(s *stage) script.Request {
			a.Owner = s.actor(who).owner
			return s.actor(who).lock.Adopt(a, s.actor(from).owner)
		})
	case k < 86:
		if holder != "" {
			who, count = holder, w.count(holder)
		}
		if s := w.sides[0]; s.kind == "rw" && !strings.HasSuffix(who, "W") {
			return "" // nothing keeps readers out for a reader
		}
		return w.ask(who+" retains", func(s *stage) script.Request {
			return s.actor(who).lock.Retain(s.actor(who).owner, max(1, count-w.rnd.Intn(2)), s.actor("nobody").owner, 5*time.Second)
		})
	case k < 89:
		ttl := time.Duration(w.rnd.Intn(2)) * 45 * time.Second
		return w.ask(who+" renews "+ttl.String(), func(s *stage) script.Request { return s.actor(who).lock.Renew(s.actor(who).owner, count, ttl) })
	case k < 91:
		return w.ask("inspects", func(s *stage) script.Request { return s.actor(who).lock.Inspect() })
	case k < 92 && w.sides[0].kind == "rw" && !strings.HasSuffix(holder, "W") && holder != "":
		w.steps = append(w.steps, "the read hold of "+holder+" expires")
		w.do("DEL", "@"+holder+":rwlock_timeout:1")
	case k < 94:
		w.steps = append(w.steps, "the lock expires")
		w.do("DEL", "LOCK")
	case k < 96 && w.began == 0:
		w.steps = append(w.steps, "time passes")
		time.Sleep(time.Duration(w.rnd.Intn(6)) * time.Second)
	case holder == "":
		w.foreign()
	case strings.HasPrefix(holder, "java"):
		w.steps = append(w.steps, "java releases it")
		w.do("DEL", "LOCK")
	}
	return ""
}

// foreign lets a Redisson client take the lock, which is free.
func (w *twins) foreign() {
	java := w.actors[w.ours+w.rnd.Intn(len(w.actors)-w.ours)]
	w.steps = append(w.steps, java+" takes it")
	w.do("HSET", "LOCK", "@"+java, "1")
	switch {
	case strings.HasSuffix(java, "W"):
		w.do("HSET", "LOCK", "mode", "write")
	case w.sides[0].kind == "rw":
		w.do("HSET", "LOCK", "mode", "read")
		w.do("SET", "@java:rwlock_timeout:1", "1", "PX", "30000")
	}
	w.do("PEXPIRE", "LOCK", "30000")
}

// do sends a command for both: LOCK and TURN are their keys, @a is a seat, and @a:rwlock_timeout:1 the key of its read hold.
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

// ask sends a request to both, and returns their difference.
func (w *twins) ask(what string, request func(s *stage) script.Request) string {
	w.steps = append(w.steps, what)
	state := w.rnd.Int63()
	var found [2]string
	for i, s := range w.sides {
		w.rnd.Seed(state) // what is random in the request is the same
		r := request(s)
		operation := r.Script.Name()
		if i == 1 {
			r = withoutPrologue(w.t, r)
		}
		reply := s.send(s.actor("a"), r)
		found[i] = strings.Join([]string{w.said(s, operation, reply), w.state(s), s.heard()}, "\n  ")
	}
	if found[0] == found[1] || w.late() {
		return ""
	}
	return fmt.Sprintf("%s:\n  %s\nand\n  %s", what, found[0], found[1])
}

// said returns the contents of a reply, as far as they are the same for both.
func (w *twins) said(s *stage, operation string, reply script.Reply) string {
	exact := w.began == 0
	switch {
	case reply.Code == script.Refused && operation == "acquire":
		found := protocol.ReadRefusal(reply)
		found.Holder = strings.Join(s.named(found.Holder), "")
		if !exact {
			found.Retry, found.TTL = 0, of(found.TTL)
		}
		return fmt.Sprintf("refused %+v", found)
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

// of returns the lease with this rest on a real server, where less than two seconds have passed. No lease is half of another one: see
// others in rw.lua.
func of(left time.Duration) time.Duration {
	leases := []time.Duration{0, 3 * time.Second, 5 * time.Second, 10 * time.Second, 25 * time.Second, 30 * time.Second, 45 * time.Second, 55 * time.Second}
	i, _ := slices.BinarySearch(leases, left)
	return leases[min(i, len(leases)-1)]
}

// state returns the lock's keys.
func (w *twins) state(s *stage) string {
	holders := s.holders()
	waiters := s.named(strings.Fields(s.do("ZRANGE", s.keys["LINE"], "0", "-1"))...)
	asks := s.do("HGETALL", s.keys["ASKS"])
	for _, a := range s.actors {
		asks = strings.ReplaceAll(asks, a.seat+" ", a.name+" ")
	}
	if w.began == 0 {
		return fmt.Sprint(
			s.do("HGET", s.name, "mode"), s.pttl(s.name), holders, waiters, asks, s.do("GET", s.keys["TURN"]), s.do("GET", protocol.TokenKey(s.name)), s.pttl(s.keys["LINE"]), s.pttl(s.keys["ASKS"]),
		)
	}
	for name, lives := range holders {
		holders[name] = of(lives)
	}
	return fmt.Sprint(holders, waiters, len(strings.Fields(asks)), s.do("EXISTS", protocol.TokenKey(s.name)))
}
