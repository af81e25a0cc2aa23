package test

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
)

// notPublishing are rules of a user who may do all but publish: it lacks the
// command, or the channel.
func notPublishing(t *testing.T, s *redistest.Server) map[string][]string {
	t.Helper()
	without := map[string][]string{"the command": {"+@all", "-publish", "-spublish", "~*", "&*"}, "the channel": {"+@all", "~*"}}
	if version60(t, s) { // it knows no rights to channels, and no sharded ones
		without = map[string][]string{"the command": {"+@all", "-publish", "~*"}}
	}
	return without
}

func version60(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	return strings.Contains(s.Cli(t, "INFO", "server"), "redis_version:6.0")
}

// wantUntold checks that something was done, of which nobody was told.
func wantUntold(t *testing.T, what string, err error, channel string) {
	t.Helper()
	wantError(t, err, holdfast.ErrUntold)
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
	s := redistest.Start(t)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
	for lacking, rules := range notPublishing(t, s) {
		for client := range clientRights {
			p := limited(t, s, client, fresh(), rules)
			forKinds(t, func(t *testing.T, k *kind) {
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

func untoldLocks(t *testing.T, admin, p *platform, k *kind) {
	t.Helper()
	if k.polls {
		return // nobody is told of it
	}
	name := admin.fresh(t, k)
	var o told
	c := p.client(t, o.hooks())
	other := k.against(admin.client(t), name)
	free := func(what string) {
		t.Helper()
		h, err := other.TryLock(background)
		if err != nil {
			t.Fatalf("%s: %v: it was not given back", what, err)
		}
		unlock(t, h)
	}
	channel := strings.TrimSuffix(strings.ReplaceAll(k.rights.channels[0], "NAME", name), ":*")

	h := must(t)(k.lock(c, name).Lock(background))
	got := make(chan error, 1)
	go func() { // a fair lock tells only those who wait
		h, err := other.Lock(background)
		if err == nil {
			err = h.Unlock()
		}
		got <- err
	}()
	admin.awaitWaiter(t, k, name)
	if k.queues {
		waitFor(t, "the waiter in line", func() bool { return admin.do(t, name, "LLEN", "redisson_lock_queue:"+tagged(name))[0] == "1" })
	}
	wantUntold(t, "Unlock", h.Unlock(), channel)
	wantError(t, h.Unlock(), holdfast.ErrNotHeld)
	if err := <-got; err != nil {
		t.Error(err)
	}
	free("Unlock")
	if errs, released := o.all(); released != 1 || len(errs) > 0 {
		t.Errorf("told of %d releases, and of %v", released, errs)
	}
	if k.queues {
		return // now nobody waits who could be told
	}
	victim := must(t)(k.lock(admin.client(t), name).Lock(background))
	did, err := k.lock(c, name).ForceUnlock(background)
	wantUntold(t, "ForceUnlock", err, channel)
	if !did {
		t.Error("ForceUnlock took nothing")
	}
	free("ForceUnlock")
	wantError(t, victim.Unlock(), holdfast.ErrLost)

	_ = must(t)(k.lock(c, name).Lock(background))
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	free("Close")
	waitFor(t, "what Close tells", func() bool { // it does not wait for hooks
		errs, _ := o.all()
		return len(errs) > 0
	})
	if errs, _ := o.all(); len(errs) != 1 {
		t.Errorf("Close told of %v", errs)
	} else {
		wantUntold(t, "Close", errs[0], channel)
	}
}

func untoldOthers(t *testing.T, admin, p *platform) {
	t.Helper()
	var o told
	c, name := p.client(t, o.hooks()), fresh()
	permits, semaphore, latch := c.NewPermitSemaphore(name+"p"), c.NewUnleasedSemaphore(name+"s"), c.NewLatch(name+"l")
	wantUntold(t, "SetPermits", permits.SetPermits(background, 2), "redisson_sc")
	h := must(t)(permits.TryLock(background))
	wantUntold(t, "Unlock", h.Unlock(), "redisson_sc")
	admin.want(t, name, "2", "GET", name+"p")
	h = must(t)(permits.TryLock(background))
	wantUntold(t, "permits.Release", permits.ReleasePermits(background, h.PermitIDs()...), "redisson_sc")
	admin.want(t, name, "2", "GET", name+"p")
	wantError(t, h.Unlock(), holdfast.ErrLost)
	wantUntold(t, "AddPermits", permits.AddPermits(background, 1), "redisson_sc")
	admin.want(t, name, "3", "GET", name+"p")

	set, err := semaphore.TrySetPermits(background, 1)
	wantUntold(t, "TrySetPermits", err, "redisson_sc")
	if !set {
		t.Error("TrySetPermits set nothing")
	}
	ok(t, semaphore.TryAcquire(background, 1))
	wantUntold(t, "semaphore.Release", semaphore.Release(1), "redisson_sc")
	admin.want(t, name, "1", "GET", name+"s")

	set, err = latch.TrySetCount(background, 2)
	wantUntold(t, "TrySetCount", err, "redisson_countdownlatch")
	if !set {
		t.Error("TrySetCount set nothing")
	}
	ok(t, latch.CountDown())
	wantUntold(t, "CountDown", latch.CountDown(), "redisson_countdownlatch")
	admin.want(t, name, "0", "EXISTS", name+"l")
	if errs, _ := o.all(); len(errs) > 0 {
		t.Errorf("told in the background: %v", errs)
	}

	m := holdfast.NewMultiLock(c.NewMutex("{"+name+"}1"), c.NewMutex("{"+name+"}2"))
	wantUntold(t, "multi", must(t)(m.TryLock(background)).Unlock(), "redisson_lock__channel")
	admin.want(t, name, "0", "EXISTS", "{"+name+"}1", "{"+name+"}2")
	// Do has nothing to say but that; a sync.Locker goes on, and tells the hooks.
	wantUntold(t, "Do", holdfast.Do(background, c.NewMutex(name), func(context.Context, *holdfast.Hold) error { return nil }), name)
	locker := holdfast.SyncLocker(background, c.NewMutex(name))
	locker.Lock()
	locker.Unlock() //nolint:staticcheck // what it is about is Unlock
	if !within(func() bool { errs, _ := o.all(); return len(errs) == 1 }) {
		errs, _ := o.all()
		t.Errorf("SyncLocker told of %v", errs)
	}
}

// The same with SPUBLISH.
func TestUntoldOnCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, func(t *testing.T, key string, args ...string) []string {
		t.Helper()
		return lines(s.NodeFor(t, key).Cli(t, args...))
	})
	admin.sharded = !version60(t, s.Nodes[0])
	for client := range clientRights {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			user := fresh()
			for _, node := range s.Nodes {
				allow(t, node, user, notPublishing(t, node)["the command"])
			}
			untoldLocks(t, admin, limitedTo(s.Addrs(), client, user), mutexKind)
		})
	}
}

// A fair acquire that cannot tell another waiter works all the same.
func TestUntoldAcquire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
	name := fresh()
	c := quiet(t, limited(t, s, "go-redis", name, []string{"+@all", "-publish", "~*"}))
	// One of Redisson's is next, and the lock is free: whoever asks tells it.
	admin.do(t, name, "RPUSH", "redisson_lock_queue:"+tagged(name), "java:1")
	until := strconv.FormatInt(time.Now().Add(2*time.Second).UnixMilli(), 10)
	admin.do(t, name, "ZADD", "redisson_lock_timeout:"+tagged(name), until, "java:1")
	_, err := c.NewFairMutex(name).TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	h := must(t)(c.NewFairMutex(name).Lock(background))
	unlock(t, h) // nobody waits
}
