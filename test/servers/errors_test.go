package servers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// told is what a client's hooks are told.
type told struct {
	errors   chan error // of the background
	released atomic.Int32
}

func (o *told) hooks() holdfast.ClientOption {
	return holdfast.WithHooks(holdfast.Hooks{
		OnError:   func(_ context.Context, e holdfast.Event) { o.errors <- e.Err },
		OnRelease: func(context.Context, holdfast.Event) { o.released.Add(1) },
	})
}

// nothing checks that the background has told nothing.
func (o *told) nothing(t *testing.T) {
	t.Helper()
	for len(o.errors) > 0 {
		t.Errorf("told in the background: %v", <-o.errors)
	}
}

// quiet is a client that has nothing to tell in the background.
func quiet(t *testing.T, p *kit.Platform) *holdfast.Client {
	t.Helper()
	o := told{errors: make(chan error, 100)}
	t.Cleanup(func() { o.nothing(t) }) // when it is closed
	return p.Client(t, o.hooks())
}

// Two kinds of lock of one name, each a hash in Redis: whoever finds the other's there is told so. It changes nothing, and leaves
// nothing to tell or to wait for.
func TestOtherKindOfLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, p := range kit.Both("standalone", []string{s.Addr()}, kit.CLI(s)) {
		kit.ForKinds(t, func(t *testing.T, held *kit.Kind) {
			name := kit.Fresh()
			h := kit.Must(t)(held.Lock(p.Client(t), name).Lock(background))
			c := quiet(t, p)
			for _, k := range kit.Kinds {
				if (k.Mode == "") == (held.Mode == "") {
					continue // of those with modes, and of the others, each knows the other
				}
				l := k.Lock(c, name)
				for what, err := range map[string]error{
					"TryLock":     kit.ErrOf(l.TryLock(background)),
					"Lock":        kit.ErrOf(l.Lock(background, holdfast.Wait(time.Minute))),
					"Inspect":     kit.ErrOf(l.Inspect(background)),
					"ForceUnlock": kit.ErrOf(l.ForceUnlock(background)),
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
				if strings.Contains(err.Error(), "user_script") {
					t.Errorf("%v says where in a script", err)
				}
				if lacking != "a script" {
					kit.WantBackend(t, lacking, err)
				}
			})
		}
	}
}
