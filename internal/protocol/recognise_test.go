package protocol

import (
	"slices"
	"strings"
	"testing"
)

const (
	ourOwner  = "99f17b91-c6cc-889e-88f6-8265bee545cf:12"
	javaOwner = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
)

// naming are the keys and channels from which the name of their lock can be read.
var naming = map[string]func(string) string{
	"line": WaitlistKey, "queue": FairQueueKey, "token": TokenKey, "next": ReservationKey, "calls": CallsKey,
	"zero": LatchZeroKey, "semaphore": SemaphoreChannel, "permits": PermitsKey, "latch": LatchChannel,
}

// TestNamesOf takes the names of locks back out of their keys and channels.
func TestNamesOf(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"job", "a:b:c", "{user}:cart", "a{b}", "{a}b}", "x:timeout", "redisson_sc:x", "\x1b[31m"} {
		for what, key := range naming {
			if got := NamesOf(key(name)); len(got) == 0 || got[0] != name {
				t.Errorf("%s of %q: %q", what, name, got)
			}
		}
		if got := NamesOf(LatchChannel(name)); len(got) != 1 || got[0] != name {
			t.Errorf("latch of %q: %q", name, got)
		}
	}
	for what, key := range naming {
		if what == "latch" { // always has braces of its own
			continue
		}
		if got := NamesOf(key("{x}")); !slices.Equal(got, []string{"x", "{x}"}) {
			t.Errorf("%s of {x}, and of x: %q", what, got)
		}
	}
	for _, key := range []string{"job", "redisson_lock_queue:job", "redisson_lock_queue:{}", "session:timeout", ":timeout", "redisson_lock_queues:{job}", latchPrefix + "job"} {
		if got := NamesOf(key); len(got) > 0 {
			t.Errorf("%q is beside %q", key, got)
		}
	}
}

// TestAuxiliary tells the strings beside locks from those that may be semaphores.
func TestAuxiliary(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		TokenKey("x"), ReservationKey("{x}y"), LatchZeroKey("x"), ReadHoldKey("x", ourOwner, 1),
		"redisson_unlock_latch:{x}:0123456789abcdef0123456789abcdef", "holdfast_client:99f17b91-c6cc-889e",
		WaitlistKey("x"), RequestsKey("{x}y"), YieldKey("x"),
	} {
		if !Auxiliary(key) {
			t.Errorf("%q stands for itself", key)
		}
	}
	for _, key := range []string{"x", "redisson", "redisson_lock_tokens:{x}", "orders:redisson_lock_token:{x}"} {
		if Auxiliary(key) {
			t.Errorf("%q stands beside a lock", key)
		}
	}
}

func TestIsOwner(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		ourOwner: true, javaOwner: true, javaOwner + ":7f0d": true, "0B0EE0E1-9A5C-4E5F-8B0E-0F6CBB0A3F7D:1": true, ourOwner[:37] + "-5": true,
		"": false, "mode": false, ourOwner[:36]: false, ourOwner[:37]: false, ourOwner[:37] + "x": false, "a:1": false,
		strings.Replace(ourOwner, "-", "x", 1): false, strings.Replace(ourOwner, "9", "g", 1): false, ourOwner[:37] + "9223372036854775808": false,
	} {
		if got := IsOwner(text); got != want {
			t.Errorf("%q is an owner: %v", text, got)
		}
	}
}

// A request says until when its entry is live, and how many permits are wanted, if any.
func TestReadRequest(t *testing.T) {
	for text, want := range map[string][2]int64{
		"ID 3000 9000 1": {9000, 0}, "ID 3000 9000 0{": {9000, 0}, "ID 3000 9000 0 " + strings.Repeat(" ", 32): {9000, 2}, "ID 3000 x 0": {}, "": {}, "ID": {},
	} {
		if until, wants := ReadRequest(text); until != want[0] || wants != want[1] {
			t.Errorf("%q: live until %d, and wants %d", text, until, wants)
		}
	}
}

// FuzzNamesOf: a name that is read from a key is one that such a key, or channel, belongs to.
func FuzzNamesOf(f *testing.F) {
	for _, key := range naming {
		f.Add(key("x"))
		f.Add(key("{user}:cart"))
		f.Add(key("{x}"))
	}
	f.Add("session:timeout")
	f.Add("redisson_lock_queue:{}")
	f.Fuzz(func(t *testing.T, key string) {
		for _, name := range NamesOf(key) {
			belongs := false
			for _, of := range naming {
				belongs = belongs || of(name) == key
			}
			if !belongs {
				t.Errorf("%q is taken for a key of %q", key, name)
			}
		}
	})
}
