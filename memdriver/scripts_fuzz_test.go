package memdriver

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// fuzzedRequests are one of each script.
func fuzzedRequests() []script.Request {
	one := protocol.Acquire{Owner: "c:1", To: 1, Lease: time.Minute, Token: true, Waiting: true}
	once := protocol.Once{ID: "0123456789abcdef", TTL: time.Minute}
	mutex, read, write := protocol.NewMutex("x"), protocol.NewRead("x"), protocol.NewWrite("x")
	fair := protocol.Fair{Mutex: mutex}
	set := protocol.PermitSet{Permits: protocol.Permits{Name: "x"}, IDs: []string{"0123456789abcdef"}}
	taking := protocol.Taking{Semaphore: protocol.Semaphore{Name: "x"}, Once: once, N: 2, Undo: "fedcba9876543210"}
	latch := protocol.Latch{Name: "x"}
	all := []script.Request{
		protocol.Expire([]string{"x"}, time.Second, "lost"),
		protocol.Delete([]string{"x"}, "lost"),
		fair.Leave("c:1"), write.Leave("c:1"), set.Acquire(one), set.Release("", 1, 0), set.Renew("", 1, time.Minute), set.Lease("0123456789abcdef", time.Second),
		set.Set(once, 3, true), taking.Acquire(one), taking.Release("", 1, 0), taking.Add(once, 2, true), latch.Acquire(protocol.Acquire{}), latch.Down(once),
		latch.Set(once, 5), set.Inspect(), protocol.InspectNumber("x"),
	}
	for _, l := range []protocol.Lock{mutex, fair, read, write} {
		all = append(all, l.Acquire(one), l.Release("c:1", 1, 0), l.Renew("c:1", 1, time.Minute), l.Adopt(one, "d:2"), l.Force([]string{"c:1"}), l.Inspect())
		all = append(all, l.Retain("c:1", 1, "d:1", time.Second))
	}
	return slices.DeleteFunc(all, script.Request.IsZero)
}

// FuzzScripts runs each script with arguments that no call of ours has, on locks that somebody
// holds. It replies as ours do, or refuses; no lock then lives for ever, and nobody else's key is touched.
func FuzzScripts(f *testing.F) {
	requests := fuzzedRequests()
	// Each argument of each request, on each lock: what is drawn at random rarely meets the one that matters. Tests run
	// them all. A fuzzer has fewer to begin with: one that may try 1,000 inputs would come to no other.
	arguments := []string{"", "A", "-1", "0", "1.5", "1e3", "0x10", "nan", "9223372036854775807"}
	if flag.Lookup("test.fuzz").Value.String() != "" {
		arguments = nil
		for i := range requests {
			f.Add(byte(i), byte(1), "0", byte(i))
		}
	}
	for i, r := range requests {
		for at := range max(1, len(r.Args)) {
			for _, argument := range arguments {
				for before := range byte(4) {
					f.Add(byte(i), byte(at), argument, before)
				}
			}
		}
	}
	s, err := NewServer()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	d := s.Driver()
	do := func(t *testing.T, args ...string) any {
		reply, err := s.Do(args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	f.Fuzz(func(t *testing.T, which, at byte, argument string, before byte) {
		if len(argument) > 100 {
			return
		}
		r := requests[int(which)%len(requests)]
		place := -1
		if len(r.Args) > 0 {
			place = int(at) % len(r.Args)
		}
		if n, err := strconv.ParseFloat(argument, 64); err == nil && n > 1e4 && place > 0 {
			return // it may be how often a loop runs; a lease comes first
		}
		do(t, "FLUSHALL")
		do(t, "SET", "other", "untouched")
		switch before % 4 {
		case 1:
			do(t, "HSET", "x", "c:1", "1")
			do(t, "PEXPIRE", "x", "60000")
		case 2:
			do(t, "HSET", "x", "c:2", "3", "mode", "write")
			do(t, "PEXPIRE", "x", "60000")
		case 3:
			do(t, "SET", "x", "4")
		}
		args := append([]string{"0", r.Channel, "PUBLISH"}, r.Args...)
		if place >= 0 {
			args[3+place] = argument
		}
		reply, err := d.execute(driver.Call{Script: r.Script, Keys: r.Keys, Args: args})
		if err == nil {
			if _, err := script.Parse(reply); err != nil {
				t.Errorf("%s %q: %v", r.Script.Name(), args, err)
			}
		}
		if do(t, "GET", "other") != "untouched" {
			t.Errorf("%s %q has changed another key", r.Script.Name(), args)
		}
		for _, key := range do(t, "KEYS", "*").([]any) {
			name := key.(string)
			kind := do(t, "TYPE", name)
			if kind != "hash" || strings.HasPrefix(name, "holdfast_calls:") {
				continue
			}
			persisted := r.Script.Name() == "expire" && args[3] == "0" // as it was told to be
			if do(t, "PTTL", name) == int64(-1) && !persisted {
				t.Errorf("%s %q: %s lives for ever: %v, %v", r.Script.Name(), args, name, do(t, "HGETALL", name), fmt.Sprint(reply, err))
			}
		}
	})
}
