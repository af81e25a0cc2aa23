package main

import (
	"fmt"
	"strings"
)

// mutant is one fault in our own code.
type mutant struct {
	name     string
	file     string
	old, new string   // old stands in the file once
	suite    []string // what go test is given to catch it
}

// simulation are the schedules of one kind of lock, or of all.
func simulation(kind string, more ...string) []string {
	args := []string{"./robustness", "-run", "TestSimulation$", "-for", "40s"}
	if kind != "" {
		args = append(args, "-kind", kind)
	}
	return append(args, more...)
}

var mutants = []mutant{
	{
		name: "renewal after unlock", file: "loss.go", suite: simulation("mutex", "-class", "a"),
		old: "trusted := watch.Remove(s.entry)",
		new: "trusted := watch.Deadline(s.entry) > 0",
	},
	{
		name: "trust from the receipt", file: "granted.go", suite: simulation("mutex", "-class", "a"),
		old: "a.watch(h, res.Sent)",
		new: "a.watch(h, now)",
	},
	{
		name: "renewal trusted from the receipt", file: "internal/watchdog/run.go", suite: simulation("mutex", "-class", "a"),
		old: "d.raise(e, sent, now, m.ttl)",
		new: "d.raise(e, time.Now(), now, m.ttl)",
	},
	{
		name: "missed resubscription", file: "internal/wakeup/wakeup.go", suite: simulation("mutex"),
		old: "\t\ts.confirmed = s.confirmed || e.Kind == driver.Subscribed\n",
		new: "\t\tif s.confirmed && e.Kind == driver.Subscribed {\n\t\t\treturn\n\t\t}\n\t\ts.confirmed = s.confirmed || e.Kind == driver.Subscribed\n",
	},
	{
		name: "a cancelled waiter stays in line", file: "acquire.go", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "return a.kind.requests.Leave(a.state.owner.String())",
		new: "return script.Request{}",
	},
	{
		name: "a waiter that leaves wakes nobody", file: "internal/waitqueue/waitqueue.go", suite: simulation("mutex"),
		old: "q.remove(w, departed)\n\tq.promote()\n",
		new: "q.remove(w, departed)\n",
	},
	{
		name: "a former holder re-enters", file: "owner.go", suite: simulation("mutex", "-class", "a"),
		old: "if err := held.hold.alive(); err == nil || errors.Is(err, ErrLost) {\n\t\t\treturn claim{owner: held.owner, hold: held.hold, lost: err}, true",
		new: "if err := held.hold.alive(); err == nil || !errors.Is(err, nil) {\n\t\t\treturn claim{owner: held.owner, fresh: true}, true",
	},
	{
		name: "the limit is ignored", file: "internal/protocol/lua/frame.lua", suite: simulation("mutex", "-class", "a"),
		old: "if ARGV[1] ~= '0' and at - ARGV[1] > 0 then",
		new: "if ARGV[1] == 'never' then",
	},
	{
		name: "an increment in place of a state", file: "internal/protocol/lua/mutex_acquire.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])\nif free",
		new: "redis.call('HINCRBY', KEYS[1], ARGV[5], 1)\nif free",
	},
	{
		name: "an unknown acquire is not cleaned up", file: "acquire.go", suite: simulation("mutex", "-class", "a"),
		old: "todo := cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()}\n\tif a.received",
		new: "todo := cleanup{leave: a.leaving()}\n\tif a.received",
	},
	{
		name: "a read hold counts twice", file: "internal/protocol/lua/read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "keep_reads(key, prefix, owner, count, to, lease)",
		new: "keep_reads(key, prefix, owner, count, to + 1, lease)",
	},
	{
		name: "a reader beside the writer", file: "internal/protocol/lua/read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "  if mode == 'write' then\n    -- from rw: writer",
		new: "  if mode == 'never' then\n    -- from rw: writer",
	},
	{
		name: "a token that follows the clock alone", file: "internal/protocol/lua/common.lua", suite: simulation("fenced", "-class", "b"),
		old: "local token = math.max(last + 1, us)",
		new: "local token = us",
	},
	{
		name: "a count down that found zero is forgotten", file: "internal/protocol/lua/latch_down.lua", suite: simulation("latch", "-class", "a"),
		old: "remember(KEYS[2], ARGV[4], ARGV[5]) -- at zero, too",
		new: "if count > 0 then remember(KEYS[2], ARGV[4], ARGV[5]) end -- at zero, too",
	},
	{
		name: "a hand-over past its time", file: "handover.go",
		suite: []string{"./test", "-run", "TestHandOver|TestHandedOver|TestHand"},
		old:   "case s.cohort == nil && now > h.since.Add(slice), s.cohort != nil && now > s.cohort.until:",
		new:   "case now < 0:",
	},
}

// unbroken are the same suites on what nobody has broken: they pass, or what they say of the others is worth nothing.
var unbroken = mutant{name: "none", suite: simulation("")}

// apply returns the text of the mutant's file with the fault in it.
func (m mutant) apply(text string) (string, error) {
	if n := strings.Count(text, m.old); m.old == "" || m.old == m.new || n != 1 {
		return "", fmt.Errorf("mutant %q: what it replaces stands %d times in %s", m.name, n, m.file)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}
