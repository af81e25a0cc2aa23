package holdfast

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// TestErrorsAreVisible: whatever a name, an owner or a server says, the text of an error has nothing that a terminal obeys or a
// reader does not see. What the error wraps stays as it came.
func TestErrorsAreVisible(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;own\a\n\u202e\u3164\ufe00\u034f\u200b\x9b\xff\U000e0001e\u0301\u0302\u0303\u0304\u0305"
	said := errors.New("ERR " + hostile)
	backend := &BackendError{Op: "acquire", Name: hostile, Err: said}
	locked := &LockedError{Name: hostile, Holder: Owner{hostile}}
	named := &LockedError{Name: hostile, Holder: Owner{"a:1"}, Who: Identity{Program: hostile, Host: hostile}}
	for what, err := range map[string]error{
		"locked": locked, "named": named, "backend": backend,
		"permits":  &PermitsError{Name: hostile},
		"lost":     &LostError{Name: hostile, Reason: LostTaken, Err: said},
		"problem":  lockerr.Problem(hostile, hostile, ErrUntold),
		"invalid":  invalid("name: %.80q: %w", hostile, said),
		"gave up":  &gaveUpError{context.Canceled, backend},
		"refused":  &gaveUpError{context.Canceled, named},
		"several":  joinOnce(said, backend),
		"explains": engineErrors{}.Backend("acquire", hostile, false, said),
	} {
		if text := err.Error(); text != visible.Text(text) {
			t.Errorf("%s: %q", what, text)
		}
	}
	for _, err := range []error{backend, &LostError{Err: said}, invalid("%w", said), joinOnce(said, backend)} {
		if !errors.Is(err, said) || said.Error() != "ERR "+hostile {
			t.Errorf("%q does not wrap what the server said", err)
		}
	}
	if text := (Owner{"a\ufe00:1"}).shown(); text != visible.Text(text) {
		t.Errorf("%q", text)
	}
}

// TestBadTokenIsNamed: a fenced lock whose last token is none is no lock of another name's, so the error says what to set.
func TestBadTokenIsNamed(t *testing.T) {
	t.Parallel()
	const reply = "WRONGTYPE the last fencing token, at redisson_lock_token, is no number below 2^53"
	said := driver.ServerError(reply, errors.New(reply))
	err := engineErrors{}.Backend("acquire", "x", false, said)
	if text := err.Error(); !errors.Is(err, ErrOtherKind) || !errors.Is(err, said) || strings.Contains(text, "another name") || !strings.Contains(text, "set the key of the last one") {
		t.Error(err)
	}
	other := driver.ServerError("WRONGTYPE Operation against a key holding the wrong kind of value", errors.New("WRONGTYPE Operation"))
	if err := (engineErrors{}).Backend("acquire", "x", false, other); !errors.Is(err, ErrOtherKind) || !strings.Contains(err.Error(), "use another name") {
		t.Error(err)
	}
}

// TestSharesDoNotOverflow: what a server says of permits is counted without overflow.
func TestSharesDoNotOverflow(t *testing.T) {
	t.Parallel()
	err := &PermitsError{Name: "x", Wanted: 1, Available: math.MinInt, Total: 1}
	if text := err.Error(); !strings.Contains(text, "all 9223372036854775807 are held") {
		t.Error(text)
	}
	owner := Owner{"a:1"}
	state := State{Holders: []Holder{{Owner: owner, Count: math.MaxInt, Mode: ModeRead}, {Owner: owner, Count: math.MaxInt, Mode: ModeWrite}}}
	if got := state.Count(owner); got != math.MaxInt || !state.HeldBy(owner) {
		t.Error(got)
	}
}
