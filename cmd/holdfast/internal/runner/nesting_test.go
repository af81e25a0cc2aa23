//go:build unix

package runner

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/presence"
)

const (
	someOwner  = "0b0ee0e1-9a5c-8e5f-8b0e-0f6cbb0a3f7d:57"
	somePermit = "00112233445566778899aabbccddeeff"
)

// TestClaimed has every subset of the variables, and values of each that no run has set: what says half of a run is refused, with a remedy
// that names each variable that is set.
func TestClaimed(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		lockVariable: "job", ownerVariable: someOwner, runnerVariable: "4711", permitVariable: somePermit, tokenVariable: "1700000000000000",
	}
	for subset := range 1 << len(ofLock) {
		environment := map[string]string{}
		for i, name := range ofLock {
			if subset&(1<<i) != 0 {
				environment[name] = good[name]
			}
		}
		whole := !slices.ContainsFunc(always, func(name string) bool { return environment[name] == "" })
		checkClaim(t, environment, environment[lockVariable] == "" || whole)
	}
	for name, values := range map[string][]string{
		runnerVariable: {"x", "0", "-1", "-4711", "+4711", "04711", " 4711", "4711 ", "47.11", "0x10", "2147483648", "9223372036854775808", "4711\n", "1e3"},
		ownerVariable:  {"x", ":", "a:", ":1", "a:b", "a:+1", "a:1.0", "\x1b:x", somePermit[1:]},
		permitVariable: {"x", someOwner, somePermit[1:], somePermit + "0", strings.ToUpper(somePermit)},
		tokenVariable:  {"x", "0", "-1", "1e3", "nan", "+1", "01", "9007199254740992", "9223372036854775808"},
	} {
		for _, value := range values {
			environment := maps.Clone(good)
			environment[name] = value
			checkClaim(t, environment, false)
		}
	}
}

// checkClaim checks what comes of an environment. A claim is passed on as it was.
func checkClaim(t *testing.T, environment map[string]string, wanted bool) {
	t.Helper()
	c, err := claimed(func(name string) string { return environment[name] })
	if (err == nil) != wanted {
		t.Errorf("%q: %v", environment, err)
	}
	for name := range environment {
		if err != nil && !strings.Contains(err.Error(), "-u "+name) {
			t.Errorf("%q: there is no -u %s in %q", environment, name, err)
		}
	}
	if err != nil || environment[lockVariable] == "" {
		if c != (claim{}) {
			t.Errorf("%q: %+v", environment, c)
		}
		return
	}
	passed := c.environment()
	for name, value := range environment {
		if !slices.Contains(passed, name+"="+value) || len(passed) != len(environment) {
			t.Errorf("%q is passed on as %q", environment, passed)
		}
	}
}

// TestClaimHolds: the claim is about the owner that it names, or about its permit.
func TestClaimHolds(t *testing.T) {
	t.Parallel()
	var owner, permit holdfast.Owner
	if err := owner.UnmarshalText([]byte(someOwner)); err != nil {
		t.Fatal(err)
	}
	if err := permit.UnmarshalText([]byte(somePermit)); err != nil {
		t.Fatal(err)
	}
	state := holdfast.State{Holders: []holdfast.Holder{{Owner: holdfast.Owner{}}, {Owner: owner}, {Owner: permit}}}
	for _, c := range []struct {
		claim   claim
		permits bool
		want    string
	}{
		{claim{owner: someOwner}, false, someOwner},
		{claim{owner: someOwner, permit: somePermit}, true, somePermit},
		{claim{owner: "other:1"}, false, ""},
		{claim{owner: "other:1", permit: somePermit}, false, ""},
	} {
		got := ""
		if h := c.claim.holds(state, c.permits); h != nil {
			got = h.Owner.String()
		}
		if got != c.want {
			t.Errorf("%+v: %q", c.claim, got)
		}
	}
	// A run of another kind has no permit, and a holder without an owner is nobody's.
	if h := (claim{owner: someOwner}).holds(state, true); h != nil {
		t.Errorf("a claim without a permit is believed: %+v", h)
	}
}

// TestIsRunOf: only the name of the lock counts, not the words of the command.
func TestIsRunOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, name string
		want       bool
	}{
		{"holdfast run job -- true", "job", true},
		{"/usr/bin/holdfast run --lease 6s --fenced job -- true", "job", true},
		{"holdfast --redis redis://h run job -c true", "job", true},
		{"holdfast run -- -job -- true", "-job", true},
		{"holdfast run -- job -- true", "job", true},
		{"holdfast run -v other -- true", "-v", false},
		{"holdfast run --try -- -job -- true", "-job", true},
		{"holdfast run other -- sh -c x job", "job", false},
		{"holdfast run other -- run job", "job", false},
		{"holdfast run other -- -job", "-job", false},
		{"holdfast run -- -other -- -job", "-job", false},
		{"holdfast wait job", "job", false},
		{"run job -- true", "job", false},
		{"bash", "job", false},
		{"", "job", false},
	} {
		if got := isRunOf(strings.Fields(c.line), c.name); got != c.want {
			t.Errorf("%s: %v for %s", c.line, got, c.name)
		}
	}
}

// TestIdentityOf: whatever a command is called, others are told a name that the library takes.
func TestIdentityOf(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"/bin/report.sh": "report.sh", "a\x1b\u202eb": "a??b", "\xff\u3164": "??", "heart\u2764\ufe0f": "heart\u2764?",
		"e" + strings.Repeat("\u0301", 30): "e\u0301\u0301\u0301\u0301" + strings.Repeat("?", 20), strings.Repeat("\U0001f512", 40): strings.Repeat("\U0001f512", 25),
	} {
		got := identityOf(command)
		if got != "holdfast run "+want {
			t.Errorf("%q: %q", command, got)
		}
		if presence.Printable(got) != got {
			t.Errorf("the library refuses %q", got)
		}
	}
}
