package waiting

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// Redis' part in the world of a waitlist.

const nobody int8 = -1

type redis struct {
	holder   int8
	until    mono.Time
	list     []entry
	reserved [3]bool   // what Redis keeps for a refused waiter without an ID
	messages []message // each may arrive any number of times
}

// entry is one on the waitlist.
type entry struct{ of, id int8 }

// message is a message on a grant channel.
type message struct {
	to, id int8
	grant  bool
	after  int8 // else
}

// reply is what Redis answers to a request.
type reply struct {
	came, acquired, forced bool
	listed, added          bool
	retry                  time.Duration
	sent                   mono.Time
}

func (r *redis) position(i int8) int {
	return slices.IndexFunc(r.list, func(e entry) bool { return e.of == i })
}

func (r *redis) unlist(i int8) {
	r.list = slices.DeleteFunc(r.list, func(e entry) bool { return e.of == i })
}

func (r *redis) publish(m message) {
	if !slices.Contains(r.messages, m) {
		r.messages = append(r.messages, m)
	}
}

// grant gives the free lock to the first entry with a subscriber; to the owner of a request, if there is one, after those before
// it. Otherwise the release is published.
func (w *waitlistWorld) grant(requesting int8) {
	r := &w.redis
	for len(r.list) > 0 && r.list[0].of != requesting {
		first := r.list[0]
		r.list = r.list[1:]
		if w.process[first.of].connected {
			r.holder, r.until, r.reserved[first.of] = first.of, w.now+grantLease, false
			r.publish(message{to: first.of, id: first.id, grant: true})
			return
		}
	}
	if requesting != nobody {
		r.holder, r.until = requesting, w.now+lease
		return
	}
	w.publishRelease()
}

func (w *waitlistWorld) publishRelease() {
	for i := range w.all() {
		p := &w.process[i]
		p.woken = p.woken || p.listens && p.connected
	}
}

// yields reports whether a release may leave the lock to unlisted waiters though others are listed.
func (w *waitlistWorld) yields() bool {
	return len(w.redis.list) > 0 && slices.ContainsFunc(w.all(), func(p process) bool { return p.listens && p.connected })
}

func (w *waitlistWorld) release(i int8) {
	if w.redis.holder == i {
		w.redis.holder, w.redis.until = nobody, 0
		w.grant(nobody)
	}
}

// releaseYielding tells the first subscriber among the entries to send a request later.
func (w *waitlistWorld) releaseYielding(i int8) {
	r := &w.redis
	if r.holder != i {
		return
	}
	r.holder, r.until = nobody, 0
	w.publishRelease()
	if first := slices.IndexFunc(r.list, func(e entry) bool { return w.process[e.of].connected }); first >= 0 {
		r.publish(message{to: r.list[first].of, id: r.list[first].id, after: 1})
	}
}

func (w *waitlistWorld) leave(i int8) {
	w.redis.unlist(i)
	w.redis.reserved[i] = false
	w.release(i)
}

func (w *waitlistWorld) request(i, id int8) reply {
	r := &w.redis
	if r.holder == nobody {
		w.grant(i)
	}
	if r.holder == i {
		r.unlist(i)
		r.until, r.reserved[i] = max(r.until, w.now+lease), false
		return reply{came: true, acquired: true, sent: w.now}
	}
	said := reply{came: true, retry: time.Duration(r.until - w.now), sent: w.now}
	r.reserved[i] = r.reserved[i] || w.policy.Registers
	if id == 0 {
		return said
	}
	at := r.position(i)
	if said.listed, said.added, said.retry = true, at < 0, hint; at < 0 {
		at = len(r.list)
		r.list = append(r.list, entry{of: i})
	}
	r.list[at].id = id
	return said
}

func (w *waitlistWorld) tick() {
	w.now++
	if r := &w.redis; r.holder != nobody && r.until <= w.now {
		r.holder, r.until = nobody, 0
	}
	for i := range w.all() {
		w.process[i].sends, w.process[i].late = 0, false
	}
}
