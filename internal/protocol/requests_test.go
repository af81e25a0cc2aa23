package protocol

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// What the headers of the Lua files promise, each kind asks for: script, keys,
// channel, arguments.
func TestGoldenRequests(t *testing.T) {
	one := Acquire{Owner: "c:1", From: 0, To: 1, Lease: 30 * time.Second, Token: true, Waiting: true}
	once := Once{ID: "id", TTL: time.Minute}
	mutex, polling := NewMutex("x"), NewMutex("x")
	mutex.Fenced, mutex.TokenTTL, polling.Polling = true, time.Hour, true
	numbered := one
	numbered.Number = "n"
	nested := numbered
	nested.Writes, nested.Unlisted = true, true
	fair := Fair{NewMutex("x")}
	read, write := NewRead("x"), NewWrite("x")
	write.WritersFirst = true
	first := "12345678h\x00\x00\x00\x00\x00\x01\x02"
	set := PermitSet{Permits{"x"}, []string{first, "q"}}
	taking := Taking{Semaphore{"x"}, once, 2, "undo"}
	line := "redisson_lock_queue:{x} redisson_lock_timeout:{x} holdfast_lock_waiting:{x}"
	for want, got := range map[string]script.Request{
		"acquire | x redisson_lock_token:{x} |  | 30000 c:1 0 1 3600000":                                      mutex.Acquire(one),
		"acquire | x redisson_lock_token:{x} |  | 30000 c:1 0 1 3600000 n 3000 0":                             mutex.Acquire(numbered),
		"acquire | x |  | 2000 c:1 1 2":                                                                       polling.Acquire(Acquire{Owner: "c:1", From: 1, To: 2, Lease: 2 * time.Second}),
		"acquire | x |  | 2000 c:1 0 1  n 2000 1":                                                             mutex.Acquire(Acquire{Owner: "c:1", To: 1, Lease: 2 * time.Second, Number: "n", Scattered: true}),
		"leave | x | redisson_lock__channel:{x} | 0 c:1":                                                      mutex.Leave("c:1"),
		"retain | x | redisson_lock__channel:{x} | 0 c:1 2 c:-1 500":                                          mutex.Retain("c:1", 2, "c:-1", 500*time.Millisecond),
		"release | x | redisson_lock__channel:{x} | 0 c:1 2 1":                                                mutex.Release("c:1", 2, 1),
		"release | x |  | 0 c:1 1 0":                                                                          polling.Release("c:1", 1, 0),
		"renew | x |  | c:1 30000":                                                                            mutex.Renew("c:1", 1, 30*time.Second),
		"adopt | x redisson_lock_token:{x} | redisson_lock__channel:{x} | 30000 c:1 d:2 1 3600000 0":          mutex.Adopt(one, "d:2"),
		"force | x | redisson_lock__channel:{x} | 0 d:2":                                                      polling.Force([]string{"d:2"}),
		"inspect | x redisson_lock_token:{x} |  | 1":                                                          mutex.Inspect(),
		"acquire | x redisson_lock_token:{x} " + line + " |  | 30000 c:1 0 1 0  1":                            fair.Acquire(one),
		"acquire | x redisson_lock_token:{x} " + line + " |  | 30000 c:1 0 1 0 n 3000 0 1":                    fair.Acquire(numbered),
		"acquire | x " + line + " |  | 2000 c:1 1 2":                                                          fair.Acquire(Acquire{Owner: "c:1", From: 1, To: 2, Lease: 2 * time.Second, Waiting: true}),
		"release | x " + line + " |  | 0 c:1 1 0":                                                             fair.Release("c:1", 1, 0),
		"leave | x " + line + " |  | 0 c:1":                                                                   fair.Leave("c:1"),
		"retain | x " + line + " |  | 0 c:1 2 c:-1 500":                                                       fair.Retain("c:1", 2, "c:-1", 500*time.Millisecond),
		"force | x " + line + " | redisson_lock__channel:{x}:d:2 | 0 d:2":                                     fair.Force([]string{"d:2"}),
		"inspect | x " + line + " |  | 0":                                                                     fair.Inspect(),
		"adopt | x redisson_lock_token:{x} | redisson_lock__channel:{x}:d:2 | 30000 c:1 d:2 1 0 0":            fair.Adopt(one, "d:2"),
		"acquire | x {x}:c:1:rwlock_timeout:1 |  | 30000 c:1 0 1":                                             read.Acquire(one),
		"release | x {x}:c:1:rwlock_timeout:1 {x}:c:1:rwlock_timeout:2 | redisson_rwlock:{x} | 0 c:1 2 1":     read.Release("c:1", 2, 1),
		"renew | x {x}:c:1:rwlock_timeout:1 |  | c:1 30000 1":                                                 read.Renew("c:1", 1, 30*time.Second),
		"acquire | x redisson_lock_token:{x} |  | 30000 c:1:write 0 1 0":                                      write.Acquire(one),
		"release | x | redisson_rwlock:{x} | 1 c:1:write 1 0":                                                 write.Release("c:1", 1, 0),
		"renew | x |  | c:1:write 30000":                                                                      write.Renew("c:1", 1, 30*time.Second),
		"leave | x {x}:c:1:rwlock_timeout:1 | redisson_rwlock:{x} | 0 c:1":                                    read.Leave("c:1"),
		"acquire | x {x}:c:1:rwlock_timeout:1 |  | 30000 c:1 0 1   writes":                                    read.Acquire(nested),
		"adopt | x redisson_lock_token:{x} | redisson_rwlock:{x} | 30000 c:1:write d:2:write 1 0 0":           write.Adopt(one, "d:2"),
		"adopt | x {x}:c:1:rwlock_timeout:1 | redisson_rwlock:{x} | 30000 c:1 d:2 1  0":                       read.Adopt(one, "d:2"),
		"retain | x | redisson_rwlock:{x} | 1 c:1:write 2 c:-1:write 500":                                     write.Retain("c:1", 2, "c:-1", 500*time.Millisecond),
		"force | x | redisson_rwlock:{x} | 1 d:2:write e:3:write":                                             write.Force([]string{"d:2", "e:3"}),
		"leave | x | redisson_rwlock:{x} | 1 c:1:write":                                                       write.Leave("c:1"),
		"acquire | x {x}:c:1:rwlock_timeout:1 |  | 30000 c:1 0 1  n 3000 0":                                   read.Acquire(numbered),
		"acquire | x redisson_lock_token:{x} |  | 30000 c:1:write 0 1 0 n 3000 0+":                            write.Acquire(numbered),
		"acquire | x {x}:timeout | redisson_sc:{x} | 30000 c:258 0 1   " + first + "q":                        set.Acquire(one),
		"acquire | x {x}:timeout | redisson_sc:{x} | 30000 c:258 0 1  N 3000 1 " + first + "q":                set.Acquire(Acquire{Owner: "c:1", Lease: 30 * time.Second, Waiting: true, Number: "N", Scattered: true}),
		"acquire | x {x}:timeout | redisson_sc:{x} | 2000 c:258 0 1  unlisted " + first + "q":                 set.Acquire(Acquire{Owner: "c:1", Lease: 2 * time.Second, Waiting: true, Unlisted: true}),
		"acquire | x {x}:timeout | redisson_sc:{x} | 2000 c:258 0 1   " + first + "q":                         set.Acquire(Acquire{Owner: "c:1", Lease: 2 * time.Second}),
		"leave | x {x}:timeout | redisson_sc:{x} |  c:258 1 0 0  " + first + "q":                              set.Leave("c:1"),
		"release | x {x}:timeout | redisson_sc:{x} |  c:258 1 0 0  " + first + "q":                            set.Release("c:1", 1, 0),
		"force | x {x}:timeout | redisson_sc:{x} | 1 holdfast_lost:{x} p":                                     set.GiveBack([]string{"p"}),
		"renew | {x}:timeout |  |  30000 " + first + "q":                                                      set.Renew("", 1, 30*time.Second),
		"lease | x {x}:timeout | redisson_sc:{x} | p 1000 holdfast_lost:{x}":                                  set.Lease("p", time.Second),
		"set | x {x}:timeout holdfast_calls:{x} | redisson_sc:{x} | id 60000 3 1":                             set.Set(once, 3, true),
		"acquire | x holdfast_calls:{x} holdfast_next:{x} | redisson_sc:{x} | id 60000 2 1":                   taking.Acquire(one),
		"undo | x holdfast_calls:{x} holdfast_next:{x} | redisson_sc:{x} | id 60000 2 undo":                   taking.Release("", 1, 0),
		"leave | x holdfast_next:{x} | redisson_sc:{x} | id":                                                  taking.Leave(""),
		"add | x holdfast_calls:{x} | redisson_sc:{x} | id 60000 2 1":                                         taking.Add(once, 2, true),
		"await | x holdfast_zero:{x} |  | 7":                                                                  Latch{"x"}.Acquire(Acquire{Since: 7}),
		"down | x holdfast_calls:{x} holdfast_zero:{x} | redisson_countdownlatch__channel__{x} | id 60000 0":  Latch{"x"}.Down(once),
		"set | x holdfast_calls:{x} holdfast_zero:{x} | redisson_countdownlatch__channel__{x} | id 60000 1 5": Latch{"x"}.Set(once, 5),
		"expire | x |  | 1000":                          Expire([]string{"x"}, time.Second, ""),
		"delete | x {x}:timeout | holdfast_lost:{x} | ": Delete([]string{"x", "{x}:timeout"}, "holdfast_lost:{x}"),
	} {
		text := fmt.Sprintf("%s | %s | %s | %s", got.Script.Name(), strings.Join(got.Keys, " "), got.Channel, strings.Join(got.Args, " "))
		if text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
}

// Replicas acknowledge what makes somebody a holder, and nothing else.
func TestWhatReplicasAcknowledge(t *testing.T) {
	all := map[string]Waitable{
		"mutex": NewMutex("x"), "fair": Fair{NewMutex("x")}, "read": NewRead("x"), "write": NewWrite("x"),
		"permits": PermitSet{Permits{"x"}, []string{"p"}}, "semaphore": Taking{Semaphore{"x"}, Once{}, 1, ""}, "latch": Latch{"x"},
	}
	for name, w := range all {
		if got := w.Acquire(Acquire{To: 1}).Acknowledged; got != (name != "latch") {
			t.Errorf("acquire of %s: %v", name, got)
		}
		if w.Release("c:1", 1, 0).Acknowledged {
			t.Errorf("release of %s", name)
		}
		if l, ok := w.(Lock); ok {
			if request := l.Adopt(Acquire{}, "d:2"); request.Acknowledged == request.IsZero() {
				t.Errorf("adopt of %s", name)
			}
		}
	}
}

func TestReadReplies(t *testing.T) {
	reply := func(rest ...any) script.Reply { return script.Reply{Rest: rest} }
	equal := func(got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	const ms = time.Millisecond
	equal(ReadRefusal(reply(int64(1500), "c:1")), Refusal{TTL: 1500 * ms, Holder: "c:1", Retry: 1501 * ms, Position: -1})
	equal(ReadRefusal(reply(int64(-1), "c:1")), Refusal{TTL: -1, Holder: "c:1", Retry: -1, Position: -1})
	equal(ReadRefusal(reply(int64(-2))), Refusal{Retry: ms, Position: -1})
	equal(ReadRefusal(reply()), Refusal{Retry: ms, Position: -1})
	equal(ReadRefusal(reply(int64(1500), "c:1", int64(20))), Refusal{TTL: 1500 * ms, Holder: "c:1", Retry: 21 * ms, Position: -1})
	equal(ReadRefusal(reply(int64(1500), "c:1", int64(-1))), Refusal{TTL: 1500 * ms, Holder: "c:1", Retry: -1, Position: -1})
	equal(ReadRefusal(reply(int64(-2), "", int64(20), int64(0), int64(1), int64(0))), Refusal{Retry: 21 * ms, New: true})
	equal(ReadRefusal(reply(int64(1500), "c:1", int64(20), int64(-1), int64(0), int64(0))), Refusal{TTL: 1500 * ms, Holder: "c:1", Retry: 21 * ms, Position: -1})
	equal(ReadRefusal(reply(int64(1500), "c:1", int64(20), int64(7), int64(0), int64(1))), Refusal{TTL: 1500 * ms, Holder: "c:1", Retry: 21 * ms, Position: 7, Beside: true})

	number := rand.Text()
	name := AskName(number)
	for payload, want := range map[string]Message{
		number: {Number: number, Granted: true}, number + "_1795901735205": {Number: number, Granted: true},
		name + " 0": {Number: name}, name + " 20": {Number: name, After: 20 * time.Millisecond},
		name + " 1001": {Number: name}, name + " -1": {Number: name}, name + " x": {Number: name}, name + " ": {Number: name},
	} {
		got, ok := ReadMessage(payload)
		equal(ok, true)
		equal(got, want)
	}
	for _, payload := range []string{"", " ", "_1", "n", name, name + "_1", number + " 0", number + "0", number[1:], number[1:] + " 0", " " + number} {
		if got, ok := ReadMessage(payload); ok {
			t.Errorf("%q is read as %+v", payload, got)
		}
	}

	for ask, want := range map[string]string{
		"n_1795901735205 3000 1795901739705 0": "1795901735205", "n_1795901735205 3000 1795901739705 0{": "1795901735205",
		"n 3000 1795901739705 0": "", "n 3000 1795901739705 0_1": "", "": "",
	} {
		equal(FairSince(ask), want)
	}

	state, err := ReadState(reply(int64(-1), "7", []any{"c:1", "write", "2", "-1"}, []any{"d:1"}, int64(3)))
	equal(state, State{TTL: -1, Token: 7, Holders: []Holder{{"c:1", "write", 2, -1}}, Waiters: []string{"d:1"}, Number: 3})
	equal(err, nil)
	for _, bad := range [][]any{{}, {int64(1)}, {int64(1), "x"}, {int64(1), "1", "x"}, {int64(1), "1", []any{"c:1", "", "x", "1"}}, {int64(1), "1", []any{"c:1", ""}}} {
		if _, err := ReadState(reply(bad...)); err == nil {
			t.Errorf("%v was read", bad)
		}
	}

	found, err := PermitSet{}.ReadRenewal(reply(nil, []any{"2", "1000", "-1", "-1", "r"}), 1)
	equal(found, Renewal{Count: 2, Lives: true, Left: time.Second, Gone: -time.Millisecond, Missing: []string{"r"}})
	equal(err, nil)
	found, err = PermitSet{}.ReadRenewal(reply([]any{"2", "1000", "-1", "500"}), 0)
	equal(found, Renewal{Count: 2, Lives: true, Left: time.Second, Gone: -time.Millisecond, Ends: true, End: 500 * time.Millisecond, Missing: []string{}})
	equal(err, nil)
	if _, err := (PermitSet{}).ReadRenewal(reply([]any{"2", "1000", "-1"}), 0); err == nil {
		t.Error("three numbers were read as four")
	}

	short, err := ReadShortage(reply(int64(1000), "", int64(5), int64(-1), int64(3), int64(2), int64(1)))
	equal(short, Shortage{TTL: time.Second, Available: -1, Held: 3, Reserved: 2, Exists: true})
	equal(err, nil)
	short, err = ReadShortage(reply(int64(-1), "", int64(5), int64(7), int64(1), int64(1), int64(-1), int64(3), int64(2), int64(0))) // with a place in line
	equal(short, Shortage{TTL: -1, Available: -1, Held: 3, Reserved: 2})
	equal(err, nil)
	if _, err := ReadShortage(reply(int64(1000))); err == nil {
		t.Error("half a refusal was read")
	}

	count, at, err := ReadCount(reply(int64(-1), "", int64(-1), int64(4), int64(99)))
	equal([]any{count, at, err}, []any{4, int64(99), nil})
}

// docs/acl.md says how a tenant's digits are found without the library.
func TestTenantPrefix(t *testing.T) {
	for name, want := range map[string]string{"billing": "0c95c7ec-", "": ""} {
		if got := TenantPrefix(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
