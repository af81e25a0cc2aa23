package scripts

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// permitActors are the sets of permits. A digit is how many one has; the clients of the deaf are not subscribed to grants.
var permitActors = []string{"a", "b", "c", "d", "e", "deaf", "f2", "g2", "h3", "i4", "deaf2"}

// theirs is the permit of a Redisson client.
const theirs = "theirs\x4f--------1"

// scoreOf returns when a permit expires, in ms; 0 if it is not held.
func (s *stage) scoreOf(id string) float64 {
	score, _ := strconv.ParseFloat(s.do("ZSCORE", s.keys["HELD"], id), 64)
	return score
}

// stepPermits changes both, and returns their difference; empty if there is none.
func (w *twins) stepPermits() string {
	w.pause()
	for _, s := range w.sides { // a prologue leaves permits that have expired to the next script
		s.send(s.actor("a"), protocol.Permits{Name: s.name}.Inspect())
		s.hearAll()
		clear(s.said)
	}
	s := w.sides[0]
	who := permitActors[w.rnd.Intn(len(permitActors))]
	if w.rnd.Intn(3) > 0 {
		who = permitActors[w.rnd.Intn(6)]
	}
	var holders []string
	for _, name := range permitActors {
		if slices.ContainsFunc(s.actor(name).ids, func(id string) bool { return s.scoreOf(id) > 0 }) {
			holders = append(holders, name)
		}
	}
	holder := who
	if len(holders) > 0 && w.rnd.Intn(6) > 0 {
		holder = holders[w.rnd.Intn(len(holders))]
	}
	permits := func(s *stage) protocol.Permits { return protocol.Permits{Name: s.name} }
	w.n++
	once := protocol.Once{ID: fmt.Sprint("call", w.n), TTL: time.Minute}
	switch k := w.rnd.Intn(100); {
	case k < 45:
		a := protocol.Acquire{To: 1, Lease: []time.Duration{10 * time.Second, 30 * time.Second, time.Minute}[w.rnd.Intn(3)]}
		if w.rnd.Intn(4) > 0 {
			a.Waiting, a.Number, a.Scattered = true, number(fmt.Sprintf("n%d", w.n)), w.rnd.Intn(6) == 0
		} else {
			a.Unlisted = w.rnd.Intn(2) == 0
		}
		return w.ask(fmt.Sprintf("%s acquires %+v", who, a), func(s *stage) script.Request {
			a.Owner = s.actor(who).owner
			return s.actor(who).lock.Acquire(a)
		})
	case k < 68:
		return w.ask(holder+" releases", func(s *stage) script.Request { return s.actor(holder).lock.Release(s.actor(holder).owner, 1, 0) })
	case k < 75:
		return w.ask(who+" leaves", func(s *stage) script.Request { return s.actor(who).lock.Leave(s.actor(who).owner) })
	case k < 78:
		return w.ask("forced "+holder+" "+who, func(s *stage) script.Request {
			return s.actor(who).lock.Force([]string{hex.EncodeToString([]byte(s.actor(holder).ids[0])), hex.EncodeToString([]byte(s.actor(who).ids[0]))})
		})
	case k < 80:
		return w.ask("given back "+holder, func(s *stage) script.Request { return permits(s).GiveBack(s.actor(holder).ids) })
	case k < 82:
		n, always := w.rnd.Intn(6), w.rnd.Intn(3) > 0
		return w.ask(fmt.Sprint("set ", n, always), func(s *stage) script.Request { return permits(s).Set(once, n, always) })
	case k < 84:
		n := w.rnd.Intn(4) - 1
		return w.ask(fmt.Sprint("add ", n), func(s *stage) script.Request { return permits(s).Add(once, n) })
	case k < 86:
		ttl := []time.Duration{time.Second, 40 * time.Second}[w.rnd.Intn(2)]
		return w.ask(fmt.Sprint("lease of ", holder, ttl), func(s *stage) script.Request { return permits(s).Lease(s.actor(holder).ids[0], ttl) })
	case k < 89:
		ttl := time.Duration(w.rnd.Intn(2)) * 45 * time.Second
		return w.ask(holder+" renews "+ttl.String(), func(s *stage) script.Request { return s.actor(holder).lock.Renew("", 1, ttl) })
	case k < 91:
		return w.ask("inspects", func(s *stage) script.Request { return permits(s).Inspect() })
	case k < 92:
		w.steps = append(w.steps, "the semaphore is deleted, or is going to be")
		if w.rnd.Intn(2) == 0 {
			w.do("PEXPIRE", "LOCK", "2500")
			w.do("PEXPIRE", "HELD", "2500")
		} else {
			w.do("DEL", "LOCK")
		}
	case k < 96 && w.began == 0:
		w.steps = append(w.steps, "time passes")
		time.Sleep(time.Duration(w.rnd.Intn(12)) * time.Second)
	case s.scoreOf(theirs) > 0:
		w.steps = append(w.steps, "java releases one")
		w.do("ZREM", "HELD", theirs)
		w.do("INCR", "LOCK")
	case kit.Number(s.do("GET", s.name)) > 0:
		w.steps = append(w.steps, "java takes one")
		w.do("ZADD", "HELD", []string{"922337203685477", fmt.Sprint(time.Now().Add(20 * time.Second).UnixMilli())}[w.rnd.Intn(2)], theirs)
		w.do("DECR", "LOCK")
	}
	return ""
}

// permits returns what a reply says, as far as it is the same for both, how the semaphore stands, and what was published.
func (w *twins) permits(s *stage, operation string, reply script.Reply) string {
	exact := w.began == 0
	ids := map[string]string{}
	for _, a := range s.actors {
		for i, id := range a.ids {
			ids[id] = fmt.Sprint(a.name, "#", i)
		}
	}
	said := fmt.Sprint(operation, " ", reply.Code, reply.Rest)
	switch {
	case reply.Code == script.Refused && operation == "acquire":
		found := protocol.ReadRefusal(reply)
		short, err := protocol.ReadShortage(reply)
		kit.OK(w.t, err)
		if !exact {
			found.Retry, found.TTL, short.TTL = 0, of(found.TTL), of(short.TTL)
		}
		said = fmt.Sprintf("refused %+v %+v", found, short)
	case operation == "release" && reply.Code == script.Done: // nobody reads how many have heard
		said = fmt.Sprint("released ", reply.Untold())
	case !exact && (operation == "acquire" || operation == "inspect" || operation == "renew"):
		said = fmt.Sprint(operation, " ", reply.Code)
	}
	for id, name := range ids {
		said = strings.ReplaceAll(strings.ReplaceAll(said, id, name), hex.EncodeToString([]byte(id)), name)
	}
	for _, a := range s.actors {
		said = strings.ReplaceAll(said, a.owner, a.name)
	}
	var held []string
	for _, id := range append(slices.Sorted(func(yield func(string) bool) {
		for id := range ids {
			if !yield(id) {
				return
			}
		}
	}), theirs) {
		if score := s.scoreOf(id); score > 0 && exact {
			held = append(held, fmt.Sprintf("%s=%.0f", cmp.Or(ids[id], "java"), score))
		} else if score > 0 {
			held = append(held, cmp.Or(ids[id], "java"))
		}
	}
	slices.Sort(held)
	waiters := s.named(strings.Fields(s.do("ZRANGE", s.keys["LINE"], "0", "-1"))...)
	state := fmt.Sprint(s.do("GET", s.name), held, waiters)
	if exact {
		for _, name := range waiters {
			request := s.do("HGET", s.keys["ASKS"], s.actor(name).owner)
			for id, name := range ids {
				request = strings.ReplaceAll(request, id, " "+name)
			}
			state += fmt.Sprintf(" %s: %s", name, request)
		}
		since := s.do("HGET", s.keys["ASKS"], " since")
		for _, a := range s.actors {
			since = strings.ReplaceAll(since, a.owner, a.name)
		}
		state += fmt.Sprint(since, s.do("GET", s.keys["TURN"]), s.pttl(s.keys["LINE"]), s.pttl(s.keys["ASKS"]), s.pttl(s.keys["HELD"]), s.pttl(s.name))
	}
	s.hearAll()
	others := slices.DeleteFunc(s.said[s.shared], func(available string) bool { return available == "0" }) // which is no news
	delete(s.said, s.shared)
	return strings.Join([]string{said, state, fmt.Sprint(s.heard(), others)}, "\n  ")
}
