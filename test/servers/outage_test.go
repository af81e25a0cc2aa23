package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestOutageHoweverACallIsBounded: Redis is away when a call begins, or from a moment on at which it waits. Whatever ends the call says
// that Redis failed, and a context that ended says so besides. test/hold has all kinds and calls, under fake time.
func TestOutageHoweverACallIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rival, err := testclient.New(kit.Both("", []string{s.Addr()}, nil)[0].Open(t))
	kit.OK(t, err)
	t.Cleanup(func() { kit.OK(t, rival.Close()) })
	for p, proxy := range kit.ThroughProxy(t, s) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for state, away := range map[string]func(on bool){
				"refused": func(on bool) {
					if proxy.Refuse(on); on {
						proxy.Cut()
					}
				},
				"silent": func(on bool) { proxy.BlackHole(redistest.Both, on) },
			} {
				for _, waits := range []bool{false, true} {
					c := p.Client(t)
					kit.Turn(t)(c.NewMutex(kit.Fresh()).Lock(background)) // Redis was there
					name, after := kit.Fresh(), 2*time.Second
					if waits {
						held := kit.Must(t)(rival.NewMutex(name).Lock(background))
						defer held.Unlock()
						after = 4 * time.Second
					} else {
						away(true)
					}
					var calls sync.WaitGroup
					for bound, lock := range bounded(c.NewMutex(name), after, waits) {
						calls.Go(func() {
							h, err := lock()
							if err == nil {
								kit.NoError(t, fmt.Errorf("%s, %s: acquired", state, bound), h.Unlock())
							}
							if !errors.As(err, new(*holdfast.BackendError)) || errors.As(err, new(*holdfast.LockedError)) {
								t.Errorf("%s, waits: %v, %s: %v", state, waits, bound, err)
							}
							if errors.Is(err, context.DeadlineExceeded) != (bound == "deadline") || errors.Is(err, context.Canceled) != (bound == "cancelled") {
								t.Errorf("%s, waits: %v, %s: it does not match the end of the context, or should not: %v", state, waits, bound, err)
							}
						})
					}
					if waits {
						time.Sleep(500 * time.Millisecond)
						away(true)
					}
					calls.Wait()
					away(false)
				}
			}
		})
	}
}

// bounded lists the ways to bound a Lock by a time.
func bounded(m *holdfast.Mutex, after time.Duration, waits bool) map[string]func() (*holdfast.Hold, error) {
	all := map[string]func() (*holdfast.Hold, error){
		"deadline": func() (*holdfast.Hold, error) {
			ctx, cancel := context.WithTimeout(background, after)
			defer cancel()
			return m.Lock(ctx)
		},
		"cancelled": func() (*holdfast.Hold, error) {
			ctx, cancel := context.WithCancel(background)
			defer time.AfterFunc(after, cancel).Stop()
			return m.Lock(ctx)
		},
		"Wait": func() (*holdfast.Hold, error) { return m.Lock(background, holdfast.Wait(after)) },
	}
	if !waits {
		all["TryLock"] = func() (*holdfast.Hold, error) { return m.TryLock(background) }
	}
	return all
}
