package robustness

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// A phantom is what stands in Redis for a client that does not have it: nobody renews it, nobody
// gives it back, and others are kept out until its lease has ended. A call whose outcome is not
// known may leave one for a while; then the client goes on asking until it is gone. So a phantom is
// what the client has not asked about for quiet, and more than it has handed out.

// identity is by what the owners and the permits of a client are known.
type identity struct {
	owners  string // what its owners begin with
	permits string // what the ids of its permits begin with
}

func identityOf(c *simClient) (identity, error) {
	id, _, _ := strings.Cut(c.NewOwner().String(), ":")
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) < protocol.PermitPrefix {
		return identity{}, fmt.Errorf("the client's id is %q, %w", id, err)
	}
	return identity{owners: id + ":", permits: string(raw[:protocol.PermitPrefix])}, nil
}

// of reports whether an owner, or a permit, is one of the client's.
func (id identity) of(holder string) bool {
	return strings.HasPrefix(holder, id.owners) || len(holder) == 16 && strings.HasPrefix(holder, id.permits)
}

// asks notes whom a call is about: owners, and permits, whose ids stand behind one another in one argument. c.mu is held.
func (c *simClient) asks(args []string, now time.Time) {
	for _, arg := range args {
		if owner := strings.TrimSuffix(arg, protocol.WriterField("")); c.of(owner) {
			c.asked[owner] = now
		}
		for id := range slices.Chunk([]byte(arg), protocol.PermitID) {
			if c.of(string(id)) {
				c.asked[string(id)] = now
			}
		}
	}
}

// has notes how much of a lock the client has handed out.
func (c *simClient) has(lock string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handedOut[lock] += n
}

// quiet is for how long a client may say nothing about what it is going to give back: an attempt
// has its time, a limit that is known to half a second and half of an answer's time, and the release that follows
// has its time, too. A client that does not know the server's clock yet asks every three seconds.
func (s *schedule) quiet() time.Duration {
	quiet := s.timeout + 2*time.Second
	if s.uses["skew"] {
		quiet += 3 * time.Second
	}
	return quiet
}

// phantoms looks for them, and fails if it finds the same ones twice in a row: what one client
// gives to another goroutine is neither's for a moment.
func (w *world) phantoms(every time.Duration, stop <-chan struct{}) {
	if w.s.class != program.ClassA || w.s.kind.Open == nil {
		return
	}
	before := map[string]bool{}
	for {
		timer := time.NewTimer(every)
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		now := map[string]bool{}
		for _, name := range w.s.locks {
			for _, found := range w.phantomsOf(name) {
				if before[found] {
					w.s.failf("a phantom: %s", found)
					return
				}
				now[found] = true
			}
		}
		before = now
	}
}

// phantomsOf describes what stands at a lock that no client has.
func (w *world) phantomsOf(name string) (found []string) {
	stands := w.standing(name)
	if len(stands) == 0 {
		return nil
	}
	w.mu.Lock()
	clients := w.clients
	w.mu.Unlock()
	for _, c := range clients {
		if text := c.phantoms(name, stands); text != "" {
			found = append(found, text)
		}
	}
	return found
}

// phantoms describes how much more of a lock the client seems to have than it has handed out, and does not ask
// about; nothing if it has not. What it has detached is another's soon, or ends.
func (c *simClient) phantoms(name string, stands map[string]int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.dead || c.closed {
		return ""
	}
	n, all := 0, []string{}
	for holder, count := range stands {
		if c.of(holder) && now.Sub(c.asked[holder]) > c.w.s.quiet() && !now.Before(c.detachedUntil[holder]) {
			n += count
			all = append(all, fmt.Sprintf("%q %d times, last asked about at %v", holder, count, c.asked[holder].Sub(c.w.s.start)))
		}
	}
	if n <= c.handedOut[name] {
		return ""
	}
	return fmt.Sprintf("client %d has handed out %d of %q, and in Redis stands %s", c.id, c.handedOut[name], name, strings.Join(all, ", "))
}

// standing is who holds a lock in Redis, and how often.
func (w *world) standing(name string) map[string]int {
	s := w.s
	stands := map[string]int{}
	if s.kind.Model.Permits > 0 {
		held := w.list("ZRANGEBYSCORE", protocol.PermitsKey(name), "("+strconv.FormatInt(time.Now().Add(s.skew()).UnixMilli(), 10), "+inf")
		for _, id := range held {
			stands[id] = 1
		}
		return stands
	}
	fields := w.list("HGETALL", name)
	for i := 0; i+1 < len(fields); i += 2 {
		n, err := strconv.Atoi(fields[i+1])
		if err != nil {
			continue // the mode
		}
		owner, writes := strings.CutSuffix(fields[i], ":write")
		if s.kind.Model.Shared && !writes {
			n = w.reads(name, owner, n)
		}
		stands[owner] += n
	}
	return stands
}

// reads is how many of an owner's read holds live.
func (w *world) reads(name, owner string, n int) (live int) {
	for i := range n {
		if w.do("EXISTS", protocol.ReadHoldKey(name, owner, i+1)) == "1" {
			live++
		}
	}
	return live
}

// list is the reply to a command, a list of texts.
func (w *world) list(args ...string) (texts []string) {
	reply, err := w.server.Do(args...)
	if err != nil {
		w.s.t.Errorf("%v: %v", args, err)
		return nil
	}
	items, _ := reply.([]any)
	for _, item := range items {
		text, _ := item.(string)
		texts = append(texts, text)
	}
	return texts
}
