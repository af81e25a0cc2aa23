package servers

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// wantUntold checks that something was done, of which nobody was told.
func wantUntold(t *testing.T, what string, err error, channel string) {
	t.Helper()
	kit.WantError(t, err, holdfast.ErrUntold)
	var backend *holdfast.BackendError
	if err == nil || errors.As(err, &backend) || errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("%s: %v: should say that it was done", what, err)
		return
	}
	for _, text := range []string{"those who wait were not told", "publish on", channel} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", what, err, text)
		}
	}
}

// Who may not publish gives locks back all the same, and is told that nobody else
// was.
func TestUntold(t *testing.T) {
	t.Parallel()
	s, admin, _ := started(t)
	for lacking, rules := range kit.NotPublishing(t, s) {
		for client := range kit.ClientRights {
			p := kit.Limited(t, s, client, kit.Fresh(), rules)
			t.Run(lacking+"/"+client, func(t *testing.T) {
				t.Parallel()
				kit.ForKinds(t, func(t *testing.T, k *kit.Kind) { untoldLocks(t, admin, p, k) })
				t.Run("others", func(t *testing.T) { untoldOthers(t, admin, p) })
			})
		}
	}
}

func untoldLocks(t *testing.T, admin, p *kit.Platform, k *kit.Kind) {
	t.Helper()
	if k.Polling {
		return // nobody is told of it
	}
	name := kit.Fresh()
	o := told{errors: make(chan error, 100)}
	c := p.Client(t, o.hooks())
	other := k.Against(admin.Client(t), name)
	isFree := func() {
		t.Helper()
		kit.Unlock(t, kit.Must(t)(other.TryLock(background)))
	}
	channel := strings.TrimSuffix(strings.ReplaceAll(k.Channels[0], "NAME", name), ":*")

	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	got := turn(other) // a fair lock tells only those who wait
	admin.AwaitWaiter(t, k, name)
	wantUntold(t, "Unlock", h.Unlock(), channel)
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	kit.OK(t, <-got)
	isFree()
	if n := o.released.Load(); n != 1 {
		t.Errorf("told of %d releases", n)
	}
	o.nothing(t)
	if k.AlwaysListed {
		return // now nobody waits who could be told
	}
	victim := kit.Must(t)(k.Lock(admin.Client(t), name).Lock(background))
	did, err := k.Lock(c, name).ForceUnlock(background)
	wantUntold(t, "ForceUnlock", err, channel)
	if !did {
		t.Error("ForceUnlock took nothing")
	}
	isFree()
	kit.WantError(t, victim.Unlock(), holdfast.ErrLost)

	_ = kit.Must(t)(k.Lock(c, name).Lock(background))
	kit.OK(t, c.Close())
	isFree()
	wantUntold(t, "Close", <-o.errors, channel)
}

func untoldOthers(t *testing.T, admin, p *kit.Platform) {
	t.Helper()
	o := told{errors: make(chan error, 100)}
	c, name := p.Client(t, o.hooks()), kit.Fresh()
	permits, semaphore, latch := c.NewPermitSemaphore(name+"p"), c.NewUnleasedSemaphore(name+"s"), c.NewLatch(name+"l")
	multi := holdfast.NewMultiLock(kit.Mutexes(c, "{"+name+"}1", "{"+name+"}2")...)
	for _, step := range []struct {
		what    string
		call    func() error
		channel string
		key     string
		then    string // what stands there
	}{
		{"SetPermits", func() error { return permits.SetPermits(background, 2) }, "redisson_sc", name + "p", "2"},
		{"Unlock", func() error { return kit.Must(t)(permits.TryLock(background)).Unlock() }, "redisson_sc", name + "p", "2"},
		{"ReleasePermits", func() error {
			return permits.ReleasePermits(background, kit.Must(t)(permits.TryLock(background)).PermitIDs()...)
		}, "redisson_sc", name + "p", "2"},
		{"AddPermits", func() error { return permits.AddPermits(background, 1) }, "redisson_sc", name + "p", "3"},
		{"TrySetPermits", func() error { return kit.ErrOf(semaphore.TrySetPermits(background, 1)) }, "redisson_sc", name + "s", "1"},
		{"Release", func() error { return errors.Join(semaphore.TryAcquire(background, 1), semaphore.Release(1)) }, "redisson_sc", name + "s", "1"},
		{"TrySetCount", func() error { return kit.ErrOf(latch.TrySetCount(background, 1)) }, "redisson_countdownlatch", name + "l", "1"},
		{"CountDown", latch.CountDown, "redisson_countdownlatch", name + "l", ""},
		{"multi", func() error { return kit.Must(t)(multi.TryLock(background)).Unlock() }, "redisson_lock__channel", "{" + name + "}2", ""},
		{"Do", func() error { // it has nothing to say but that
			return holdfast.Do(background, c.NewMutex(name), func(context.Context, *holdfast.Hold) error { return nil })
		}, name, name, ""},
	} {
		wantUntold(t, step.what, step.call(), step.channel)
		wantReply(t, admin, name, step.then, "GET", step.key)
	}
	o.nothing(t)
	locker := holdfast.SyncLocker(background, c.NewMutex(name)) // it goes on, and tells the hooks
	locker.Lock()
	locker.Unlock() //nolint:staticcheck // what it is about is Unlock
	wantUntold(t, "SyncLocker", <-o.errors, name)
	defer func() {
		err, _ := recover().(error)
		kit.WantError(t, err, holdfast.ErrNotHeld)
	}()
	locker.Unlock()
}

// A fair acquire that cannot tell another waiter works all the same.
func TestUntoldAcquire(t *testing.T) {
	t.Parallel()
	s, admin, _ := started(t)
	name := kit.Fresh()
	l := quiet(t, kit.Limited(t, s, "go-redis", name, []string{"+@all", "-publish", "~*"})).NewFairMutex(name)
	// One of Redisson's is next, and the lock is free: whoever asks tells it.
	admin.Do(t, name, "RPUSH", "redisson_lock_queue:"+kit.Tagged(name), "java:1")
	until := strconv.FormatInt(time.Now().Add(6*time.Second).UnixMilli(), 10)
	admin.Do(t, name, "ZADD", "redisson_lock_timeout:"+kit.Tagged(name), until, "java:1")
	kit.WantError(t, kit.ErrOf(l.TryLock(background)), holdfast.ErrLocked)
	kit.Unlock(t, kit.Must(t)(l.Lock(background))) // nobody waits
}
