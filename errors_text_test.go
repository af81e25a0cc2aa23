package holdfast

import (
	"context"
	"errors"
	"testing"

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
