package protocol

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The golden names, as Redisson spells them.
func TestGoldenNames(t *testing.T) {
	for _, row := range []struct{ name, channel string }{
		{"myLock", "redisson_lock__channel:{myLock}"},
		{"orders:42", "redisson_lock__channel:{orders:42}"},
		{"{test}:abc:key", "redisson_lock__channel:{test}:abc:key"},
		{"a:{b}:c", "redisson_lock__channel:a:{b}:c"},
		{"{a}{b}", "redisson_lock__channel:{a}{b}"},
		{"später\x00\r\n\"'", "redisson_lock__channel:{später\x00\r\n\"'}"},
	} {
		if got := LockChannel(row.name); got != row.channel {
			t.Errorf("LockChannel(%q) = %q, want %q", row.name, got, row.channel)
		}
		if err := CheckName(row.name); err != nil {
			t.Errorf("CheckName(%q): %v", row.name, err)
		}
	}
	if Released != "0" {
		t.Errorf("Released = %q, want 0", Released)
	}
}

// A10: Redisson accepts names whose derived keys lie in another slot.
func TestA10_HostileBracesAreRefused(t *testing.T) {
	for _, name := range []string{
		"", "{", "}", "{}", "{}a", "a{}b", "a{}", "a}b", "a{", "{a", "}a{b}", "a{b", "}{", "}}", "{{", "{}{a}",
		strings.Repeat("x", MaxName+1),
	} {
		if CheckName(name) == nil {
			t.Errorf("CheckName(%.20q) accepts it", name)
		}
	}
}

func TestSlot(t *testing.T) {
	// As CLUSTER KEYSLOT answers.
	for key, want := range map[string]int{
		"":                  0,
		"123456789":         12739,
		"foo":               12182,
		"{user1000}.follow": 3443,
		"user1000":          3443,
		"foo{}{bar}":        8363,
		"foo{{bar}}zap":     4015,
		"foo{bar}{zap}":     5061,
	} {
		if got := script.Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// Whatever name is accepted, its keys share a slot.
func FuzzAcceptedNamesShareASlot(f *testing.F) {
	for _, seed := range []string{"a", "{a}", "a{b}c", "{a}b}", "a}b", "{{a}", "}{a}", "x{y}{z}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		for _, key := range []string{
			LockChannel(name), TokenKey(name), RWChannel(name), ReservationKey(name), ReadHoldKey(name, "{a}b:1", 1),
			ReadHoldKey(name, "}:1", 1),
		} {
			if a, b := script.Slot(name), script.Slot(key); a != b {
				t.Errorf("%q is in slot %d, %q in %d", name, a, key, b)
			}
		}
	})
}

// The other golden names, with and without a tag of the name's own.
func TestGoldenKeys(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{TokenKey("x"), "redisson_lock_token:{x}"},
		{TokenKey("a:{b}"), "redisson_lock_token:a:{b}"},
		{RWChannel("x"), "redisson_rwlock:{x}"},
		{RWChannel("{a}:b"), "redisson_rwlock:{a}:b"},
		{ReadHoldKey("x", "c:1", 2), "{x}:c:1:rwlock_timeout:2"},
		{ReadHoldKey("{a}:b", "c:1", 1), "{a}:b:c:1:rwlock_timeout:1"},
		{WriterField("c:1"), "c:1:write"},
		{FairQueueKey("x"), "redisson_lock_queue:{x}"},
		{FairTimeoutsKey("x"), "redisson_lock_timeout:{x}"},
		{FairHeartbeatsKey("x"), "holdfast_lock_waiting:{x}"},
		{ReservationKey("x"), "holdfast_next:{x}"},
		{WaiterChannel("x", "c:1"), "redisson_lock__channel:{x}:c:1"},
		{WaiterChannel("{a}:b", "c:1"), "redisson_lock__channel:{a}:b:c:1"},
		{WriterReleased, "1"},
	} {
		if row.got != row.want {
			t.Errorf("%q, want %q", row.got, row.want)
		}
		if strings.Contains(row.got, "{x}") && script.Slot(row.got) != script.Slot("x") {
			t.Errorf("%q is in another slot than its lock", row.got)
		}
	}
}
