package scripts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The scripts of the line are asked directly here, by owners whose clients do nothing else. A test is mostly a story, of rows like
//
//	second asks c | refused 1 | holder 30s | first second | first:told
//
// They say who asks what, or what else happens: see [stage.step]. Behind that stand
//
//   - the answer: done, refused or changed; the place, listens if the owner is to listen for Redisson, too, untold if somebody may not
//     have heard; and "in", when to ask again.
//   - who holds the lock, for how long; or - if nobody does. A nested hold is a*2.
//   - who stands in line, or - if nobody does. Of each its last ask is checked.
//   - who hears what. n+0 is the number n, and that it is to ask in 0 ms; told is what Redisson's are told; others are those who wait
//     where Redisson's do.
//
// What others are told by a read-write lock stands behind them.
//
// What is empty, or left out at the end, is not checked; but if messages are asked for, there must be none besides.
//
// A name is an owner. Who begins with "deaf" does not hear of grants; "java" is a client of Redisson's. At a semaphore, one whose name
// ends with a digit wants as many permits. At a read-write lock a name that ends with W is an owner that writes, the same one as without
// the W, and "front" is one with WritersFirst.

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a lock, and the server where those who wait for it stand in line.
type stage struct {
	t       *testing.T
	kind    string // "lock", "fair", "semaphore" or "rw"
	name    string
	driver  driver.Driver
	server  *redistest.Server // nil: in memory, under fake time
	publish string            // the command
	shared  string            // the channel where Redisson's listen
	keys    map[string]string
	do      func(args ...string) string

	actors map[string]*actor
	total  int // permits that there are

	ears   driver.Listener
	events chan driver.Event
	said   map[string][]string // by the channel, since messages were asked for
}

// actor is an owner, or a set of permits, and its client.
type actor struct {
	name, owner string
	seat        string // its field in the lock's hash, and its entry
	lock        protocol.Lock
	driver      driver.Driver
	ids         []string // raw
	ask         string   // what that of the last one begins with; empty if that had no number
	since       int64    // when it joined the line
}

// inMemory runs f for each kind under fake time. A semaphore has so many permits.
func inMemory(t *testing.T, kinds string, permits int, f func(s *stage)) {
	t.Helper()
	for kind := range strings.FieldsSeq(kinds) {
		t.Run(kind+" in memory", func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				f(newStage(t, kind, "x", permits, w.Server.Driver(), w.Do))
				w.Do("FLUSHALL")
			})
		})
	}
}

// everywhere runs f there, and on a real server.
func everywhere(t *testing.T, kinds string, permits int, f func(s *stage)) {
	t.Helper()
	inMemory(t, kinds, permits, f)
	t.Parallel() // fake time is not for tests beside those on real servers: see faketime.Test
	server := redistest.Start(t)
	for kind := range strings.FieldsSeq(kinds) {
		t.Run(kind, func(t *testing.T) { f(onServer(t, server, kind, permits)) })
	}
}

// onServer returns a stage on a real server.
func onServer(t *testing.T, server *redistest.Server, kind string, permits int) *stage {
	t.Helper()
	do := kit.Direct(t, server)
	d := kit.GoRedis("line", redis.UniversalOptions{Addrs: []string{server.Addr()}}, nil).Open(t)
	s := newStage(t, kind, kit.Fresh(), permits, d, func(args ...string) string {
		t.Helper()
		return strings.Join(do(t, "", args...), " ")
	})
	s.server = server
	return s
}

func newStage(t *testing.T, kind, name string, permits int, d driver.Driver, do func(args ...string) string) *stage {
	t.Helper()
	s := &stage{
		t: t, kind: kind, name: name, driver: d, publish: "PUBLISH", shared: protocol.LockChannel(name), do: do,
		keys: map[string]string{
			"LOCK": name, "LINE": protocol.WaitlistKey(name), "ASKS": protocol.RequestsKey(name), "TURN": protocol.YieldKey(name),
			"TIMES": protocol.FairTimeoutsKey(name), "HELD": protocol.PermitsKey(name),
		},
		actors: map[string]*actor{}, total: permits, events: make(chan driver.Event, 1000), said: map[string][]string{},
	}
	switch kind {
	case "fair":
		s.keys["LINE"] = protocol.FairQueueKey(name)
	case "semaphore":
		s.shared = protocol.SemaphoreChannel(name)
		do("SET", name, strconv.Itoa(permits))
	case "rw":
		s.shared = protocol.RWChannel(name)
	}
	s.ears = d.Listen(func(e driver.Event) { s.events <- e })
	t.Cleanup(s.ears.Close)
	s.listen("over:" + name)
	return s
}

// count counts actors, each of which has a client of its own, and calls.
var count atomic.Int64

func (s *stage) actor(name string) *actor {
	if a := s.actors[name]; a != nil {
		return a
	}
	n, version := 99_999_999-count.Add(1), "8" // later ones are earlier in the alphabet
	if strings.HasPrefix(name, "java") {
		version = "4"
	}
	a := &actor{name: name, owner: fmt.Sprintf("%08d-0000-%s000-8000-000000000000:257", n, version), driver: s.driver}
	owner, writes := strings.CutSuffix(name, "W")
	if writes = writes && s.kind == "rw"; writes {
		a.owner = s.actor(owner).owner
	}
	a.seat = a.owner
	switch mutex := protocol.NewMutex(s.name); s.kind {
	case "lock":
		a.lock = mutex
	case "fair":
		a.lock = protocol.Fair{Mutex: mutex}
		s.listen(protocol.WaiterChannel(s.name, a.owner))
	case "semaphore":
		for i := range max(1, kit.Number(name[len(name)-1:])) {
			a.ids = append(a.ids, fmt.Sprintf("%06d\x80-h\x00\x00\x00\x00\x00%c%c", n%1e6, 1+i/100, 1+i%100))
		}
		a.lock = protocol.PermitSet{Permits: protocol.Permits{Name: s.name}, IDs: a.ids}
	case "rw":
		a.lock = protocol.NewRead(s.name)
		if writes {
			lock := protocol.NewWrite(s.name)
			lock.WritersFirst = strings.HasPrefix(name, "front")
			a.lock, a.seat = lock, protocol.WriterField(a.owner)
		}
	}
	if !strings.HasPrefix(name, "deaf") && !writes {
		s.listen(s.grants(a))
	}
	s.actors[name] = a
	return a
}

// named are the names of seats.
func (s *stage) named(seats ...string) []string {
	for _, a := range s.actors {
		if i := slices.Index(seats, a.seat); i >= 0 {
			seats[i] = a.name
		}
	}
	return seats
}

// grants is the channel where an actor's client listens.
func (s *stage) grants(a *actor) string {
	client, _, _ := strings.Cut(a.owner, ":")
	return protocol.GrantChannel(client, s.name, s.publish == "SPUBLISH")
}

// pttl is for how long a key lives.
func (s *stage) pttl(key string) time.Duration {
	return time.Duration(kit.Number(s.do("PTTL", key))) * time.Millisecond
}

// lives is for how long a seat of a read-write lock holds it, which it does n times.
func (s *stage) lives(seat string, n int) (longest time.Duration) {
	if strings.HasSuffix(seat, protocol.WriterField("")) {
		return s.pttl(s.name)
	}
	for i := range n {
		longest = max(longest, s.pttl(protocol.ReadHoldKey(s.name, seat, i+1)))
	}
	return longest
}

func (s *stage) listen(channel string) {
	s.ears.Subscribe(channel)
	s.hear(driver.Event{Kind: driver.Subscribed, Channel: channel})
}

// hear notes what is said until an event comes.
func (s *stage) hear(last driver.Event) {
	for e := range s.events {
		if e == last {
			return
		}
		s.said[e.Channel] = append(s.said[e.Channel], e.Payload)
	}
}

// play has all of a story happen.
func (s *stage) play(story string) {
	s.t.Helper()
	for row := range strings.Lines(story) {
		columns := strings.Split(row, "|")
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		if columns[0] != "" {
			s.step(columns[0], columns[1:]...)
		}
	}
}

// step has one row of a story happen: an actor asks one of [stage.request], or
//
//	time 3s            passes, in memory
//	others listen      where Redisson's do; but a fair lock is not announced there
//	no turn            from now on nothing is left to those others
//	turn 20ms          what is free is left to them for so long
//	redis DEL LOCK     as Redis is asked: LOCK, LINE, ASKS, TURN, TIMES and HELD are its keys, @a is an owner
//	permits add 3      or set; or made, if there are none
//	a vanishes         what it holds has ended by itself
func (s *stage) step(what string, want ...string) {
	s.t.Helper()
	words := strings.Fields(what)
	who, verb, args := words[0], words[1], words[2:]
	var r script.Request
	var a *actor
	switch {
	case who == "time":
		time.Sleep(duration(verb))
	case what == "others listen":
		s.listen(s.shared)
	case what == "no turn":
		s.do("SET", s.keys["TURN"], fmt.Sprintf("%d %d", time.Hour.Milliseconds(), time.Now().UnixMilli()))
	case who == "turn":
		s.do("SET", s.keys["TURN"], fmt.Sprintf("5 %d", time.Now().Add(duration(verb)).UnixMilli()))
	case who == "redis":
		for i, word := range words {
			if name, found := strings.CutPrefix(word, "@"); found {
				words[i] = s.actor(name).owner
			} else {
				words[i] = cmp.Or(s.keys[word], word)
			}
		}
		s.do(words[1:]...)
	case verb == "vanishes" && s.kind == "semaphore": // with one permit
		s.do("ZREM", s.keys["HELD"], s.actor(who).ids[0])
		s.do("INCR", s.name)
	case verb == "vanishes":
		s.do("DEL", s.name)
	case who == "permits":
		once := protocol.Once{ID: fmt.Sprint("call", count.Add(1)), TTL: time.Second}
		a = s.actor("operator")
		if n := kit.Number(args[0]); verb == "add" {
			s.total += n
			r = protocol.Permits{Name: s.name}.Add(once, n)
		} else {
			s.total = n
			r = protocol.Permits{Name: s.name}.Set(once, n, verb == "set")
		}
	default:
		a = s.actor(strings.Split(who, ",")[0])
		r = s.request(who, verb, args)
	}
	var reply script.Reply
	if a != nil {
		reply = s.send(a, r)
		s.note(a, verb, args, reply)
		time.Sleep(2 * time.Microsecond) // those who come later do so in another one
	}
	checks := []func(what, want string, reply script.Reply){s.answers, s.holds, s.stands, s.hears}
	for i, column := range want {
		if column != "" || i == 3 {
			checks[i](what, column, reply)
		}
	}
}

const lease = 30 * time.Second

// asked is what an acquire asks for, by these words: a lease, a number, or what else it may say.
func (a *actor) asked(verb string, words []string) protocol.Acquire {
	args := protocol.Acquire{Owner: a.owner, To: 1, Lease: lease, Waiting: verb != "tries", Unlisted: verb == "tries" || verb == "waits"}
	for _, word := range words {
		switch d, err := time.ParseDuration(word); {
		case err == nil:
			args.Lease = d
		case word == "scattered":
			args.Scattered = true
		case word == "token":
			args.Token = true
		default:
			args.Number = number(word)
		}
	}
	return args
}

// number is the number of an ask that stands in a story as a word: as long as one is.
func number(word string) string { return word + strings.Repeat("Z", 26-len(word)) }

// request is what an actor asks for, with words behind it.
func (s *stage) request(who, verb string, words []string) script.Request {
	a := s.actor(strings.Split(who, ",")[0])
	switch verb {
	case "tries", "waits", "comes", "asks": // not to wait; outside of the line; before it has a number; with a number, and a lease
		return a.lock.Acquire(a.asked(verb, words))
	case "nests":
		return a.lock.Acquire(protocol.Acquire{Owner: a.owner, From: 1, To: 2, Lease: lease})
	case "renews":
		return a.lock.Renew(a.owner, 1, lease)
	case "releases": // it may be listening
		return protocol.CountingListeners(a.lock.Release(a.owner, 1, 0), len(words) > 0)
	case "leaves":
		return a.lock.Leave(a.owner)
	case "retains": // for so long
		return a.lock.Retain(a.owner, 1, s.actor("nobody").owner, duration(words[0]))
	case "inspects":
		return a.lock.Inspect()
	case "forced": // by somebody who has seen all of them hold the lock
		var holders []string
		for name := range strings.SplitSeq(who, ",") {
			b := s.actor(name)
			if holders = append(holders, b.owner); s.kind == "semaphore" {
				holders[len(holders)-1] = fmt.Sprintf("%x", b.ids[0])
			}
		}
		return a.lock.Force(holders)
	}
	s.t.Fatalf("%s %s: what is that?", who, verb)
	return script.Request{}
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *stage) send(a *actor, r script.Request) script.Reply {
	raw, err := a.driver.Eval(background, driver.Call{
		Script: r.Script, Keys: r.Keys, Args: append([]string{"0", r.Channel, s.publish}, r.Args...),
	})
	kit.OK(s.t, err)
	reply, err := script.Parse(raw)
	kit.OK(s.t, err)
	return reply
}

// note keeps what is to stand of an ask. Only the first are all believed for as long.
func (s *stage) note(a *actor, verb string, words []string, reply script.Reply) {
	if verb != "asks" && verb != "waits" {
		return
	}
	args, lives := a.asked(verb, words), 3*time.Second
	a.ask = ""
	if found := protocol.ReadRefusal(reply); reply.Code == script.Refused && found.Position >= 0 {
		number := args.Number
		if found.New {
			a.since = reply.Now
		}
		if s.kind == "fair" {
			lives = 4500 * time.Millisecond
			number += fmt.Sprintf("_%d", a.since)
		}
		a.ask = fmt.Sprintf("%s %d ", number, args.Grant().Milliseconds())
		if found.Position < 8 {
			a.ask += fmt.Sprintf("%d %d", reply.Now+lives.Milliseconds(), map[bool]int{true: 1}[args.Scattered])
		}
	}
}

func (s *stage) wrong(what, column, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %s %q, want %q", what, column, got, want)
	}
}

func (s *stage) answers(what, want string, reply script.Reply) {
	want, again, hinted := strings.Cut(want, " in ")
	got := map[script.Code]string{script.Done: "done", script.Refused: "refused", script.Changed: "changed"}[reply.Code]
	if found := protocol.ReadRefusal(reply); reply.Code == script.Refused && found.Position >= 0 {
		got += fmt.Sprint(" ", found.Position)
		if found.Beside {
			got += " listens"
		}
	}
	if reply.Code == script.Done && reply.Untold() != "" {
		got += " untold"
	}
	s.wrong(what, "answer", got, want)
	if hinted {
		s.wrong(what, "ask again in", (protocol.ReadRefusal(reply).Retry - time.Millisecond).String(), duration(again).String())
	}
	if strings.Contains(what, "inspects") {
		_, err := protocol.ReadState(reply)
		kit.OK(s.t, err)
	}
}

// holders are those who hold the lock, or all of their permits, and for how long.
func (s *stage) holders() map[string]time.Duration {
	all := map[string]time.Duration{}
	if s.kind == "rw" {
		fields := strings.Fields(s.do("HGETALL", s.name))
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] != "mode" {
				all[strings.TrimSuffix(s.named(fields[i])[0]+"*"+fields[i+1], "*1")] = s.lives(fields[i], kit.Number(fields[i+1]))
			}
		}
		return all
	}
	if s.kind != "semaphore" {
		if holder, count, found := strings.Cut(s.do("HGETALL", s.name), " "); found {
			all[strings.TrimSuffix(s.named(holder)[0]+"*"+count, "*1")] = s.pttl(s.name)
		}
		return all
	}
	n := 0
	for _, a := range s.actors {
		for i, id := range a.ids {
			score, err := strconv.ParseFloat(s.do("ZSCORE", s.keys["HELD"], id), 64)
			if err != nil {
				break
			}
			if n++; i == len(a.ids)-1 {
				all[a.name] = time.Until(time.UnixMilli(int64(score)))
			}
		}
	}
	s.wrong("permits", "held", s.do("ZCARD", s.keys["HELD"]), fmt.Sprint(n))
	s.wrong("permits", "available", s.do("GET", s.name), fmt.Sprint(s.total-n))
	return all
}

// holds checks who holds the lock, and for how long: to 2 ms in memory, while a real server may have taken two thirds of that. It also
// checks what a refusal and a release say of it.
func (s *stage) holds(what, want string, reply script.Reply) {
	got, wanted := s.holders(), map[string]time.Duration{}
	words := strings.Fields(want)
	for i := 0; i+1 < len(words); i += 2 {
		name, lives := words[i], duration(words[i+1])
		wanted[name] = lives
		least := lives - 2*time.Millisecond
		if s.server != nil {
			least = lives / 3
		}
		if got[name] <= lives && got[name] >= least {
			wanted[name] = got[name]
		}
	}
	if !maps.Equal(got, wanted) {
		s.t.Errorf("%s: held by %v, want %v", what, got, wanted)
	}
	if refused := reply.Code == script.Refused; refused && s.kind != "semaphore" && strings.Contains(what, " asks") {
		holder, _, _ := strings.Cut(strings.TrimPrefix(want, "-"), " ")
		if found := protocol.ReadRefusal(reply).Holder; s.kind != "rw" || found != "" { // a reader may make way for a writer that waits
			s.wrong(what, "said to be held by", s.named(found)[0], strings.TrimSuffix(holder, "W"))
		}
	}
	if heard, granted := protocol.ReadHeard(reply); reply.Code == script.Done && s.kind == "lock" && strings.Contains(what, " releases") {
		if granted != (want != "-") || granted && heard > 0 {
			s.t.Errorf("%s: granted %v, and %d have heard", what, granted, heard)
		}
	}
}

// stands checks who stands in line, and what each has asked last.
func (s *stage) stands(what, want string, reply script.Reply) {
	command := "ZRANGE"
	if s.kind == "fair" {
		command = "LRANGE"
	}
	line := s.named(strings.Fields(s.do(command, s.keys["LINE"], "0", "-1"))...)
	s.wrong(what, "in line stand", strings.Join(line, " "), strings.TrimPrefix(want, "-"))
	asks, key := 0, s.keys["ASKS"]
	for _, name := range line {
		a := s.actor(name)
		if a.ask == "" {
			continue
		}
		asks++
		if got := s.do("HGET", key, a.seat); !strings.HasPrefix(got, a.ask) || !strings.HasSuffix(got, strings.Join(a.ids, "")) {
			s.wrong(what, "ask of "+name, got, a.ask+"..."+strings.Join(a.ids, ""))
		}
	}
	if s.do("HEXISTS", key, " since") == "1" { // somebody is held back
		asks++
	}
	s.wrong(what, "asks", s.do("HLEN", key), fmt.Sprint(asks))
	if s.kind == "fair" {
		s.wrong(what, "times", s.do("ZCARD", s.keys["TIMES"]), fmt.Sprint(len(line)))
		if len(line) == 0 {
			s.wrong(what, "keys", s.do("EXISTS", protocol.FairHeartbeatsKey(s.name)), "0")
		}
	}
	if strings.Contains(what, "inspects") && s.kind != "semaphore" {
		state, _ := protocol.ReadState(reply)
		s.wrong(what, "waiters", strings.Join(s.named(state.Waiters...), " "), want)
	}
}

// spoken is what was said as it stands in a story: with the word of a whole number if it grants, or else of the half that names the
// ask. Behind the number of a fair lock's ask stands when its waiter joined the line.
func spoken(payload string) string {
	message, ok := protocol.ReadMessage(payload)
	word, after, later := strings.Cut(payload, " ")
	if word, _, _ = strings.Cut(word, "Z"); !ok || protocol.AskName(message.Number) != number(word)[:13] {
		return fmt.Sprintf("%q", payload)
	} else if later {
		return word + "+" + after
	}
	return word
}

// heard is what has been said since messages were asked for last.
func (s *stage) heard() string {
	s.hearAll()
	var all []string
	for _, a := range s.actors {
		if said := s.said[s.grants(a)]; said != nil && (s.kind != "rw" || a.seat == a.owner) { // both sides have one client
			var words []string
			for _, payload := range said {
				words = append(words, spoken(payload))
			}
			all = append(all, a.name+":"+strings.Join(words, ","))
		}
		if said := s.said[protocol.WaiterChannel(s.name, a.owner)]; said != nil {
			all = append(all, a.name+":told")
			s.wrong(a.name, "is told", strings.Join(said, ","), protocol.Released)
		}
	}
	if said := s.said[s.shared]; said != nil {
		all = append(all, "others")
		payload := protocol.Released
		switch s.kind {
		case "semaphore":
			payload = s.do("GET", s.name)
		case "rw":
			all[len(all)-1] += ":" + strings.Join(said, ",")
			payload = strings.Join(said, ",")
		}
		s.wrong("others", "hear", strings.Join(said, ","), payload)
	}
	clear(s.said)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// hearAll notes all that has been said.
func (s *stage) hearAll() {
	over := "over:" + s.name
	s.do("PUBLISH", over, "over")
	s.hear(driver.Event{Kind: driver.Message, Channel: over, Payload: "over"})
}

// hears checks that.
func (s *stage) hears(what, want string, _ script.Reply) {
	if s.kind == "fair" {
		want = strings.TrimSuffix(want, "others")
	}
	words := strings.Fields(want)
	slices.Sort(words)
	s.wrong(what, "heard", s.heard(), strings.Join(words, " "))
}

// limited reaches the server with these rights alone; NAME is the lock's.
func (s *stage) limited(rules ...string) driver.Driver {
	rules = strings.Fields(strings.ReplaceAll(strings.Join(rules, " "), "NAME", s.name))
	return kit.Limited(s.t, s.server, "go-redis", kit.Fresh(), rules).Open(s.t)
}
