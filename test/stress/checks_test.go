package stress

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// reads reports whether a hold of the owner for reading is handed out.
func (p *program) reads(name string, owner holdfast.Owner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.holds {
		if h.Name() == name && !h.writes && h.Owner() == owner {
			return true
		}
	}
	return false
}

// enter notes a hold, and checks that nobody writes while another one is in.
func (p *program) enter(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, now := h.Name(), time.Now()
	h.excused = now.Before(p.forced[name])
	p.changes[name]++
	p.granted++
	if last, held := p.last[name]; held && last != h.client.id {
		p.between++
	}
	p.last[name] = h.client.id
	reads, writes := false, false // those of its owner
	for o := range p.holds {
		if o.Name() != name {
			continue
		}
		if o.run == h.run && o.writes {
			writes = true // or did until now
		}
		if !o.live(now) || !h.live(now) {
			continue
		}
		if o.run == h.run {
			reads = reads || !o.writes
		} else if o.writes || h.writes {
			p.failf("%s: %v (writes %v, since %v, until %v) and %v (writes %v) overlap", name, o.Owner(), o.writes,
				o.from.Sub(p.start), o.Deadline().Sub(p.start), h.Owner(), h.writes)
		}
	}
	for j := range p.theirs {
		p.beside(h, j, now)
	}
	if h.writes && reads && !writes && !p.uses['o'] && h.live(now) {
		p.failf("%s: %v was a reader and is the writer now", name, h.Owner())
	}
	if h.writes && h.Token() > 0 && h.live(now) && !p.uses['o'] {
		if h.Token() < p.tokens[name] {
			p.failf("%s: token %d after %d", name, h.Token(), p.tokens[name])
		}
		p.tokens[name] = h.Token()
	}
	p.holds[h] = struct{}{}
}

func (p *program) leave(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, h)
	p.changes[h.Name()]++
}

// beside checks a hold of ours and one of Redisson's. p.mu is held, here and in what follows.
func (p *program) beside(h *hold, j *theirs, now time.Time) {
	if h.Name() == j.Name && now.Before(j.until) && h.live(now) && (h.writes || j.writes) {
		p.failf("%s: %v (writes %v, until %v) and %s of Redisson's (writes %v, until %v) overlap", j.Name, h.Owner(), h.writes,
			h.Deadline().Sub(p.start), j.Owner, j.writes, j.until.Sub(p.start))
	}
}

// monitor looks at Redis every so often.
func (p *program) monitor(stop <-chan struct{}) {
	rng := p.drawing(3)
	for {
		pause := upTo(rng, 200*time.Millisecond)
		if p.calm.Load() {
			pause = 2 * time.Second
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		p.mu.Lock()
		counts := map[string]int{}
		for h := range p.holds {
			p.compare(h, counts)
		}
		p.oversleep()
		p.mu.Unlock()
	}
}

// compare holds Redis against what a holder believes. The hold is not being unlocked.
func (p *program) compare(h *hold, counts map[string]int) {
	now := time.Now()
	if !h.live(now) {
		return
	}
	field := h.Owner().String()
	if h.writes && p.kind == "rw" {
		field = protocol.WriterField(field)
	}
	known := h.Name() + " " + field
	if shared := known + " shared"; !h.fresh || counts[shared] == 0 {
		counts[known]++
		if h.fresh {
			counts[shared]++
		}
	}
	want := counts[known]
	all := p.w.Do("HGETALL", h.Name())
	count, _ := strconv.Atoi(p.w.Do("HGET", h.Name(), field))
	left := h.Deadline().Sub(now)
	lock, read := p.w.PTTL(h.Name()), left
	if !h.writes {
		read = -1
		for i := range count {
			read = max(read, p.w.PTTL(protocol.ReadHoldKey(h.Name(), h.Owner().String(), i+1)))
		}
	}
	if h.live(time.Now()) && (count < want || lock < left || read < left) {
		p.failf("%s: %v trusts its hold (writes %v, %d known) for %v more; in Redis %s, for %v, its key for %v",
			h.Name(), h.Owner(), h.writes, want, left, all, lock, read)
	}
}

// oversleep looks for waiters who could have been let in.
func (p *program) oversleep() {
	// Redisson does not say that its writers go on as readers (L10). And who would read waits while its owner waits to write.
	if !p.uses['x'] || p.uses['j'] || p.uses['o'] {
		return
	}
	for w := range p.waiters {
		readable := p.w.Do("HGET", w.name, "mode") == "read" && p.w.Do("ZCOUNT", protocol.WaitlistKey(w.name), "-inf", "(0") == "0"
		free := p.w.Do("EXISTS", w.name) == "0" || !w.writes && readable
		if !free || w.changes != p.changes[w.name] {
			w.changes, w.idle = p.changes[w.name], time.Time{}
		}
		switch {
		case free && w.idle.IsZero():
			w.idle = time.Now()
		case free && time.Since(w.idle) > 1300*time.Millisecond:
			p.failf("%s: it could be taken since %v, and a waiter (writes %v) sleeps", w.name, w.idle.Sub(p.start), w.writes)
			w.idle = time.Now().Add(time.Hour)
		}
	}
}
