package servers

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
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
			kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
				t.Run(lacking+"/"+client, func(t *testing.T) {
					t.Parallel()
					untoldLocks(t, admin, p, k)
				})
			})
			t.Run("others/"+lacking+"/"+client, func(t *testing.T) {
				t.Parallel()
				untoldOthers(t, admin, p)
			})
		}
	}
}

func untoldLocks(t *testing.T, admin, p *kit.Platform, k *kit.Kind) {
	t.Helper()
	if k.Polls {
		return // nobody is told of it
	}
	name := admin.Fresh(t, k)
	var o told
	c := p.Client(t, o.hooks())
	other := k.Against(admin.Client(t), name)
	free := func() {
		t.Helper()
		kit.Unlock(t, kit.Must(t)(other.TryLock(background)))
	}
	channel := strings.TrimSuffix(strings.ReplaceAll(k.Rights.Channels[0], "NAME", name), ":*")

	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	got := make(chan error, 1)
	go func() { // a fair lock tells only those who wait
		h, err := other.Lock(background)
		if err == nil {
			err = h.Unlock()
		}
		got <- err
	}()
	admin.AwaitWaiter(t, k, name)
	wantUntold(t, "Unlock", h.Unlock(), channel)
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	kit.OK(t, <-got)
	free()
	if errs, released := o.all(); released != 1 || len(errs) > 0 {
		t.Errorf("told of %d releases, and of %v", released, errs)
	}
	if k.Queues {
		return // now nobody waits who could be told
	}
	victim := kit.Must(t)(k.Lock(admin.Client(t), name).Lock(background))
	did, err := k.Lock(c, name).ForceUnlock(background)
	wantUntold(t, "ForceUnlock", err, channel)
	if !did {
		t.Error("ForceUnlock took nothing")
	}
	free()
	kit.WantError(t, victim.Unlock(), holdfast.ErrLost)

	_ = kit.Must(t)(k.Lock(c, name).Lock(background))
	kit.OK(t, c.Close())
	free()
	kit.WaitFor(t, "what Close tells", func() bool { // it does not wait for hooks
		errs, _ := o.all()
		return len(errs) == 1
	})
	errs, _ := o.all()
	wantUntold(t, "Close", errs[0], channel)
}

func untoldOthers(t *testing.T, admin, p *kit.Platform) {
	t.Helper()
	var o told
	c, name := p.Client(t, o.hooks()), kit.Fresh()
	permits, semaphore, latch := c.NewPermitSemaphore(name+"p"), c.NewUnleasedSemaphore(name+"s"), c.NewLatch(name+"l")
	wantUntold(t, "SetPermits", permits.SetPermits(background, 2), "redisson_sc")
	h := kit.Must(t)(permits.TryLock(background))
	wantUntold(t, "Unlock", h.Unlock(), "redisson_sc")
	wantReply(t, admin, name, "2", "GET", name+"p")
	h = kit.Must(t)(permits.TryLock(background))
	wantUntold(t, "permits.Release", permits.ReleasePermits(background, h.PermitIDs()...), "redisson_sc")
	wantReply(t, admin, name, "2", "GET", name+"p")
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	wantUntold(t, "AddPermits", permits.AddPermits(background, 1), "redisson_sc")
	wantReply(t, admin, name, "3", "GET", name+"p")

	set, err := semaphore.TrySetPermits(background, 1)
	wantUntold(t, "TrySetPermits", err, "redisson_sc")
	if !set {
		t.Error("TrySetPermits set nothing")
	}
	kit.OK(t, semaphore.TryAcquire(background, 1))
	wantUntold(t, "semaphore.Release", semaphore.Release(1), "redisson_sc")
	wantReply(t, admin, name, "1", "GET", name+"s")

	set, err = latch.TrySetCount(background, 2)
	wantUntold(t, "TrySetCount", err, "redisson_countdownlatch")
	if !set {
		t.Error("TrySetCount set nothing")
	}
	kit.OK(t, latch.CountDown())
	wantUntold(t, "CountDown", latch.CountDown(), "redisson_countdownlatch")
	wantReply(t, admin, name, "0", "EXISTS", name+"l")
	if errs, _ := o.all(); len(errs) > 0 {
		t.Errorf("told in the background: %v", errs)
	}

	m := holdfast.NewMultiLock(c.NewMutex("{"+name+"}1"), c.NewMutex("{"+name+"}2"))
	wantUntold(t, "multi", kit.Must(t)(m.TryLock(background)).Unlock(), "redisson_lock__channel")
	wantReply(t, admin, name, "0", "EXISTS", "{"+name+"}1", "{"+name+"}2")
	// Do has nothing to say but that; a sync.Locker goes on, and tells the hooks.
	wantUntold(t, "Do", holdfast.Do(background, c.NewMutex(name), func(context.Context, *holdfast.Hold) error { return nil }), name)
	locker := holdfast.SyncLocker(background, c.NewMutex(name))
	locker.Lock()
	locker.Unlock() //nolint:staticcheck // what it is about is Unlock
	kit.WaitFor(t, "what SyncLocker tells", func() bool {
		errs, _ := o.all()
		return len(errs) == 1
	})
	defer func() {
		err, _ := recover().(error)
		kit.WantError(t, err, holdfast.ErrNotHeld)
	}()
	locker.Unlock()
}

// The same with SPUBLISH.
func TestUntoldOnCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	admin := kit.GoRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, kit.OnCluster(s))
	admin.Sharded = !kit.Version60(t, s.Nodes[0])
	for client := range kit.ClientRights {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			user := kit.Fresh()
			for _, node := range s.Nodes {
				kit.Allow(t, node, user, kit.NotPublishing(t, node)["the command"])
			}
			untoldLocks(t, admin, kit.LimitedTo(s.Addrs(), client, user), kit.MutexKind)
		})
	}
}

// A fair acquire that cannot tell another waiter works all the same.
func TestUntoldAcquire(t *testing.T) {
	t.Parallel()
	s, admin, _ := started(t)
	name := kit.Fresh()
	c := quiet(t, kit.Limited(t, s, "go-redis", name, []string{"+@all", "-publish", "~*"}))
	// One of Redisson's is next, and the lock is free: whoever asks tells it.
	admin.Do(t, name, "RPUSH", "redisson_lock_queue:"+kit.Tagged(name), "java:1")
	until := strconv.FormatInt(time.Now().Add(2*time.Second).UnixMilli(), 10)
	admin.Do(t, name, "ZADD", "redisson_lock_timeout:"+kit.Tagged(name), until, "java:1")
	_, err := c.NewFairMutex(name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	kit.Unlock(t, h) // nobody waits
}
