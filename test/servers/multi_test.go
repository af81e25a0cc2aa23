package servers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A multi-lock of several slots, or of one: all of its locks are held, extended and given back, or none.
func TestMultiLockOnACluster(t *testing.T) {
	onClusters(t, func(t *testing.T, p *kit.Platform) {
		tag := kit.Fresh()
		multiLock(t, p, []string{"{" + tag + "}:a", "{" + tag + "}:b", "{" + tag + "}:c"})
		apart := []string{kit.Fresh(), kit.Fresh(), kit.Fresh()}
		slices.Sort(apart) // as a multi-lock does
		multiLock(t, p, apart)
	})
}

func multiLock(t *testing.T, p *kit.Platform, names []string) {
	t.Helper()
	c, other := p.Client(t), p.Client(t)
	m := holdfast.NewMultiLock(kit.Mutexes(c, names...)...)
	h := kit.Must(t)(m.Lock(background))
	for _, name := range names {
		wantReply(t, p, name, h.Owner().String()+" 1", "HGETALL", name)
	}
	kit.OK(t, h.Extend(background, time.Hour))
	_, err := other.NewMutex(names[1]).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
	h = kit.Must(t)(other.NewMutex(names[2]).Lock(background))
	_, err = m.Lock(background, holdfast.Wait(5*time.Second))
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.Name != names[2] || locked.Holder != h.Owner() {
		t.Errorf("%v", err)
	}
	for _, name := range names[:2] {
		nothingLeft(t, p, kit.MutexKind, name)
	}
	kit.Unlock(t, h)
}

// fleet is several servers.
type fleet []*redistest.Server

// redlock returns a RedLock named x of clients of its own, through both adapters.
func (f fleet) redlock(t *testing.T, options ...holdfast.ClientOption) *holdfast.MultiLock {
	t.Helper()
	var lockers []holdfast.Locker
	for i, s := range f {
		p := kit.GoRedis("", redis.UniversalOptions{Addrs: []string{s.Addr()}, MaxRetries: -1}, nil)
		if i%2 == 1 {
			p = kit.RueidisAt("", rueidis.ClientOption{InitAddress: []string{s.Addr()}}, nil)
		}
		p.Dead = func() bool { return !s.Running() }
		lockers = append(lockers, p.Client(t, options...).NewMutex("x"))
	}
	return holdfast.NewRedLock(lockers...)
}

// awaitHeld returns when the lock is held on all of the servers, or on none.
func (f fleet) awaitHeld(t *testing.T, exists string) {
	t.Helper()
	for _, s := range f {
		kit.WaitFor(t, "whether the lock is held to be "+exists, func() bool { return s.Cli(t, "EXISTS", "x") == exists })
	}
}

// Several processes contend for one RedLock while a server is stopped and goes on: no two holds overlap. Then the
// servers die one by one under a hold. It goes on without one of three, and ends while the last one still keeps others
// from a quorum.
func TestRedLockOnServers(t *testing.T) {
	t.Parallel()
	f := fleet{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	f.contend(t)
	h := kit.Must(t)(f.redlock(t, holdfast.WithLease(9*time.Second)).Lock(background))
	f.awaitHeld(t, "1")
	f[0].Kill()
	time.Sleep(10 * time.Second) // more than a lease
	if h.Context().Err() != nil {
		t.Fatalf("lost with two servers: %v", context.Cause(h.Context()))
	}
	f[1].Kill()
	<-h.Context().Done()
	kit.WantLost(t, h)
	if f[2].Cli(t, "EXISTS", "x") != "1" {
		t.Error("held nowhere when the loss was told")
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	f[2:].awaitHeld(t, "0")
}

func (f fleet) contend(t *testing.T) {
	t.Helper()
	var inside atomic.Int32
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for range 4 {
		r := f.redlock(t) // its timeout is longer than the server is stopped: some are given back on a quorum only when it goes on
		for range 2 {
			group.Go(func() {
				for range 8 {
					h, err := r.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) > 1 {
						t.Error("two holders")
					}
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					kit.Unlock(t, h)
				}
			})
		}
	}
	time.Sleep(200 * time.Millisecond)
	f[1].Stop()
	time.Sleep(time.Second)
	f[1].Cont()
	group.Wait()
	f.awaitHeld(t, "0")
}
