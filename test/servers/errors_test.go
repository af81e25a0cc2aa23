package servers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// told are the errors that the background has told.
type told struct {
	mu       sync.Mutex
	errors   []error
	released int
}

func (o *told) hooks() holdfast.ClientOption {
	return holdfast.WithHooks(holdfast.Hooks{
		OnError: func(_ context.Context, e holdfast.Event) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.errors = append(o.errors, e.Err)
		},
		OnRelease: func(context.Context, holdfast.Event) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.released++
		},
	})
}

func (o *told) all() (all []error, released int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.errors), o.released
}

// quiet is a client that has nothing to tell in the background.
func quiet(t *testing.T, p *kit.Platform) *holdfast.Client {
	t.Helper()
	var o told
	t.Cleanup(func() { // when it is closed
		if errs, _ := o.all(); len(errs) > 0 {
			t.Errorf("told in the background: %v", errs)
		}
	})
	return p.Client(t, o.hooks())
}

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

// Two kinds of lock of one name, each a hash in Redis: whoever finds the other's there is told so. It changes nothing, and leaves
// nothing to tell or to wait for.
func TestOtherKindOfLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, p := range both("standalone", []string{s.Addr()}, kit.CLI(s)) {
		kit.ForKinds(t, func(t *testing.T, held *kit.Kind) {
			name := p.Fresh(t, held)
			h := kit.Must(t)(held.Lock(p.Client(t), name).Lock(background))
			c := quiet(t, p)
			for _, k := range kit.Kinds {
				if (k.Mode == "") == (held.Mode == "") {
					continue // of those with modes, and of the others, each knows the other
				}
				l := k.Lock(c, name)
				for what, err := range map[string]error{
					"TryLock":     errOf(l.TryLock(background)),
					"Lock":        errOf(l.Lock(background, holdfast.Wait(kit.Soon))),
					"Inspect":     errOf(l.Inspect(background)),
					"ForceUnlock": errOf(l.ForceUnlock(background)),
				} {
					kit.WantError(t, err, holdfast.ErrOtherKind)
					kit.WantBackend(t, k.Name+"/"+what, err, "another kind of")
				}
			}
			kit.Unlock(t, h)
			p.WantNothing(t, held, name)
		})
	}
}

// A user who lacks a right is told so. What is refused before the script has begun
// had no effect.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for lacking, rules := range map[string][]string{
		"the call": {"+@all", "-evalsha", "~*"},
		"the key":  {"+@all", "~elsewhere"},
		"a script": {"+@all", "-time", "~*"},
	} {
		for client := range kit.ClientRights {
			t.Run(lacking+"/"+client, func(t *testing.T) {
				t.Parallel()
				_, err := quiet(t, kit.Limited(t, s, client, kit.Fresh(), rules)).NewMutex(kit.Fresh()).Inspect(background)
				var backend *holdfast.BackendError
				if !errors.As(err, &backend) || !strings.Contains(err.Error(), "lacks a right, see docs/acl.md") {
					t.Fatalf("%v does not say that a right is lacking", err)
				}
				if lacking != "a script" {
					kit.WantBackend(t, lacking, err)
				}
			})
		}
	}
}
