package survey

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// FuzzHash: whatever hash stands at a name, it is a lock of ours in every detail, or none; and what is read of
// it makes sense, and can be written as JSON.
func FuzzHash(f *testing.F) {
	const owner = "99f17b91-c6cc-889e-88f6-8265bee545cf:1"
	for _, seed := range []struct{ mode, field, value string }{
		{"", owner, "1"},
		{"", owner, "1e3"},
		{"", owner, "0"},
		{"", owner, "-1"},
		{"", owner, "01"},
		{"", owner, "9223372036854775807"},
		{"", owner, "9223372036854775808"},
		{"", owner, ""},
		{"", owner, " 1"},
		{"", owner, "0x1"},
		{"", owner, "1.0"},
		{"read", owner, "1"},
		{"write", owner + ":write", "2"},
		{"read", "mode", "1"},
		{"", "mode", "read"},
		{"", "x", "1"},
		{"", owner[:36], "1"},
		{"", owner + ":5", "1"},
		{"", "99f17b91-c6cc-889e-88f6-8265bee545cf:\x1b", "1"},
		{"x", owner, "1"},
	} {
		f.Add(seed.mode, seed.field, seed.value, seed.value, int64(1000))
		f.Add(seed.mode, seed.field, seed.value, "3 "+seed.value+" 0123456789abcdef", int64(-1))
	}
	f.Fuzz(func(t *testing.T, mode, name, value, text string, n int64) {
		at := time.UnixMilli(1_700_000_000_000)
		if mode != Reads && mode != Writes {
			mode = "" // as askHash has it
		}
		score := redis.Z{Member: name, Score: float64(n)}
		one := &raw{
			name: "x", ttl: expiry(time.Duration(n)), fields: []field{{name, value}}, fieldCount: 1, token: text, queue: []string{name}, queueLength: 1,
			heartbeats: []redis.Z{score}, held: []redis.Z{score}, heldCount: 1, readHolds: map[string][]*redis.DurationCmd{}, who: map[string]*redis.SliceCmd{},
		}
		one.mode, one.next, one.text = mode, text, value
		one.found, one.lock = holders(mode, one.fields)
		if one.lock {
			for _, h := range one.found {
				if h.Count != 0 && strconv.FormatInt(h.Count, 10) != value { // 0: it is no number
					t.Errorf("%q %q is taken for %+v", name, value, h)
				}
			}
		}
		for _, keyType := range []string{typeHash, typeString, typeNone, typeList} {
			one.keyType, one.permits = keyType, keyType == typeNone && n%2 == 0
			found := one.result(at)
			if found.err != nil {
				continue
			}
			if found.Kind == "" || keyType == typeHash && !one.lock {
				t.Errorf("%s %q %q is taken for %+v", keyType, name, value, found.Lock)
			}
			if found.TTL < 0 || found.Waiting < 0 || found.Listeners < 0 || found.HolderCount < 0 {
				t.Errorf("%+v", found.Lock)
			}
			written, err := json.Marshal(found.Lock)
			if err != nil || !json.Valid(written) {
				t.Errorf("%s: %v", written, err)
			}
		}
		if wants, id, ok := protocol.ReadReservation(text); ok && (wants < 1 || len(id) != protocol.PermitID) {
			t.Errorf("%q reserves %d for %q", text, wants, id)
		}
		if since := moment(text); !since.IsZero() && (since.Before(time.UnixMilli(1)) || since.Year() > 40_000) {
			t.Errorf("%q is %v", text, since)
		}
	})
}

// FuzzPattern compares the matching of names with one that tries everything.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"*", ""},
		{"a*b*c", "aXbYc"},
		{"[a-c]x", "bx"},
		{"[^a]", "b"},
		{`\*`, "*"},
		{"[", "["},
		{"[]", "]"},
		{"a[b", "ab"},
		{`[\]]`, "]"},
		{"?", "\xff"},
		{"**a", "aa"},
		{"*[", "a["},
		{`\`, `\`},
		{"[a-", "a"},
		{"a", "ab"},
		{"a*b", "abc"},
		{"[z-a]", "m"},
		{"*a*a*a*b", "aaaaaaaaaa"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 12 {
			return
		}
		if got, want := matches(pattern, text), matchesAll(pattern, text); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, text, got, want)
		}
	})
}

// matchesAll tries every text for every star.
func matchesAll(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		for i := range len(text) + 1 {
			if matchesAll(pattern[1:], text[i:]) {
				return true
			}
		}
		return false
	case text == "":
		return false
	}
	ok, rest := matchesByte(pattern, text[0])
	return ok && matchesAll(rest, text[1:])
}
