package scripts

import (
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

// theirs is the permit of a Redisson client.
const theirs = "theirs\x4f--------1"

// scoreOf returns when a permit expires, in ms; 0 if it is not held.
func (s *stage) scoreOf(id string) float64 {
	score, _ := strconv.ParseFloat(s.do("ZSCORE", s.keys["HELD"], id), 64)
	return score
}

// permitsStep is a step of permits: they have no owners. A digit in the name of an actor is the number of its permits.
func (w *twins) permitsStep() string {
	for _, s := range w.sides { // a prologue leaves permits that have expired to the next script
		s.send(s.actor("a"), protocol.Permits{Name: s.name}.Inspect())
		s.hearAll()
		clear(s.said)
	}
	s := w.sides[0]
	who := oneOf(w, w.ours...)
	if w.rnd.Intn(3) > 0 {
		who = oneOf(w, w.ours[:6]...) // one permit each
	}
	var holders []string
	for _, name := range w.ours {
		if slices.ContainsFunc(s.actor(name).ids, func(id string) bool { return s.scoreOf(id) > 0 }) {
			holders = append(holders, name)
		}
	}
	holder := who
	if len(holders) > 0 && w.rnd.Intn(6) > 0 {
		holder = oneOf(w, holders...)
	}
	permits := func(s *stage) protocol.Permits { return protocol.Permits{Name: s.name} }
	w.n++
	once := protocol.Once{ID: fmt.Sprint("call", w.n), TTL: time.Minute}
	switch k := w.rnd.Intn(100); {
	case k < 45:
		a := protocol.Acquire{To: 1, Lease: oneOf(w, 10*time.Second, 30*time.Second, 55*time.Second)}
		w.waits(&a)
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
		ttl := oneOf(w, 3*time.Second, 45*time.Second)
		return w.ask(fmt.Sprint("lease of ", holder, ttl), func(s *stage) script.Request { return permits(s).Lease(s.actor(holder).ids[0], ttl) })
	case k < 89:
		ttl := oneOf(w, 0, 45*time.Second)
		return w.ask(holder+" renews "+ttl.String(), func(s *stage) script.Request { return s.actor(holder).lock.Renew("", 1, ttl) })
	case k < 91:
		return w.ask("inspects", func(s *stage) script.Request { return permits(s).Inspect() })
	case k < 92:
		w.note("the semaphore is deleted, or is going to be")
		if w.rnd.Intn(2) == 0 {
			w.do("PEXPIRE", "LOCK", "2500")
			w.do("PEXPIRE", "HELD", "2500")
		} else {
			w.do("DEL", "LOCK")
		}
	case k < 96 && w.began == 0:
		w.note("time passes")
		time.Sleep(time.Duration(w.rnd.Intn(12)) * time.Second)
	case s.scoreOf(theirs) > 0:
		w.note("java releases one")
		w.do("ZREM", "HELD", theirs)
		w.do("INCR", "LOCK")
	case kit.Number(s.do("GET", s.name)) > 0:
		w.note("java takes one")
		w.do("ZADD", "HELD", oneOf(w, "922337203685477", fmt.Sprint(time.Now().Add(25*time.Second).UnixMilli())), theirs)
		w.do("DECR", "LOCK")
	}
	return ""
}

// permitsFound returns the reply, the keys and the messages of permits.
func (w *twins) permitsFound(s *stage, operation string, reply script.Reply) string {
	names := permitNames(s)
	found := []string{w.permitsReply(operation, reply), w.permitsState(s, names)}
	s.hearAll()
	others := slices.DeleteFunc(s.said[s.shared], func(available string) bool { return available == "0" }) // which is no news
	delete(s.said, s.shared)
	return names.Replace(strings.Join(append(found, fmt.Sprint(s.heard(), others)), "\n  "))
}

// permitNames replaces seats and permits by their names.
func permitNames(s *stage) *strings.Replacer {
	pairs := []string{theirs, "java"}
	for _, a := range s.actors {
		pairs = append(pairs, a.seat, a.name)
		for i, id := range a.ids {
			name := fmt.Sprint(" ", a.name, "#", i)
			pairs = append(pairs, id, name, hex.EncodeToString([]byte(id)), name)
		}
	}
	return strings.NewReplacer(pairs...)
}

// permitsReply returns the contents of a reply, as far as they are the same for both.
func (w *twins) permitsReply(operation string, reply script.Reply) string {
	exact := w.began == 0
	switch {
	case reply.Code == script.Refused && operation == "acquire":
		found := protocol.ReadRefusal(reply)
		short, err := protocol.ReadShortage(reply)
		kit.OK(w.t, err)
		if !exact {
			found.Retry, found.TTL, short.TTL = 0, of(found.TTL), of(short.TTL)
		}
		return fmt.Sprintf("refused %+v %+v", found, short)
	case operation == "release" && reply.Code == script.Done: // nothing else of it is read
		return "released " + reply.Untold()
	case !exact && (operation == "acquire" || operation == "inspect" || operation == "renew"):
		return fmt.Sprint(operation, " ", reply.Code)
	}
	return fmt.Sprint(operation, " ", reply.Code, reply.Rest)
}

// permitsState returns the keys of permits.
func (w *twins) permitsState(s *stage, names *strings.Replacer) string {
	var held []string
	for permit := range slices.Chunk(strings.Fields(names.Replace(s.do("ZRANGE", s.keys["HELD"], "0", "-1", "WITHSCORES"))), 2) {
		if w.began > 0 {
			expiry, _ := strconv.ParseFloat(permit[1], 64)
			permit[1] = of(time.Until(time.UnixMilli(int64(expiry)))).String()
		}
		held = append(held, strings.Join(permit, " "))
	}
	slices.Sort(held) // by name: those that expire together are in the order of their ids
	state := fmt.Sprint(s.do("GET", s.name), held, s.do("ZRANGE", s.keys["LINE"], "0", "-1"))
	if w.began > 0 {
		return state
	}
	return state + fmt.Sprint(
		" ", s.do("HGETALL", s.keys["ASKS"]), s.do("GET", s.keys["TURN"]),
		s.pttl(s.keys["LINE"]), s.pttl(s.keys["ASKS"]), s.pttl(s.keys["HELD"]), s.pttl(s.name),
	)
}
