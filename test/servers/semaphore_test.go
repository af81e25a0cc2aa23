package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// object is a semaphore or a latch.
type object struct {
	kind    string // in the list of rights
	channel string // where one listens who does not stand in line
	// use makes every call, checks what has come of it, and returns what fails first.
	use func(c *holdfast.Client, name string, with user) error
}

// user is how an object is used.
type user struct {
	// asks starts a waiter, and returns when it waits, or has failed.
	asks       func(wait func() error) (got <-chan error)
	vain, soon time.Duration // bound waits in vain, and those that a message ends
}

var objects = map[string]object{
	"permits":   {"permit semaphore", "redisson_sc:", usePermits},
	"semaphore": {"unleased semaphore", "redisson_sc:", useSemaphore},
	"latch":     {"latch", "redisson_countdownlatch__channel__", useLatch},
}

// asks has those who ask for the object wait.
func (o object) asks(t *testing.T, p *kit.Platform, name string) func(wait func() error) <-chan error {
	t.Helper()
	waits := func() bool { return p.Standing(t, name) > 0 || listensOn(t, p, name, o.channel+kit.Tagged(name)) }
	return func(wait func() error) <-chan error {
		kit.WaitFor(t, "who has given up to leave", func() bool { return !waits() })
		got := make(chan error, 1)
		go func() { got <- wait() }()
		kit.WaitFor(t, "the waiter", func() bool { return len(got) > 0 || waits() })
		return got
	}
}

// Semaphores and latches through both adapters.
func TestSemaphoreConformance(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, p := range kit.Both("standalone", []string{s.Addr()}, kit.CLI(s)) {
		t.Run(p.Name, func(t *testing.T) { useObjects(t, p) })
	}
}

func TestSemaphoresOnCluster(t *testing.T) {
	onClusters(t, func(t *testing.T, p *kit.Platform) {
		useObjects(t, p)
		tagged := "{tag}:" + kit.Fresh()
		kit.Unlock(t, kit.Must(t)(p.Client(t).NewPermitSemaphore(tagged, holdfast.Permits(2)).Acquire(background, 2)))
		kit.OK(t, p.Client(t).NewUnleasedSemaphore("{tag}:"+kit.Fresh()).Release(1))
		// A10: its channel, which Redisson puts braces around, is in another slot.
		kit.WantError(t, p.Client(t).NewLatch(tagged).Await(background), holdfast.ErrInvalid)
	})
}

func useObjects(t *testing.T, p *kit.Platform) {
	t.Helper()
	for what, o := range objects {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := kit.Fresh()
			kit.OK(t, o.use(p.Client(t), name, user{o.asks(t, p, name), 5 * time.Second, time.Minute}))
		})
	}
	t.Run("PermitsTakenAreTold", func(t *testing.T) { permitsTakenAreTold(t, p) })
}

// Another client takes a long holder's permits by their ids, or all by force: the holder is told, and with a part of
// them left it goes on.
func permitsTakenAreTold(t *testing.T, p *kit.Platform) {
	t.Parallel()
	name := kit.Fresh()
	s, fixed := p.Client(t).NewPermitSemaphore(name, holdfast.Permits(5)), holdfast.FixedLease(time.Hour) // it is not renewed, and hears of nothing but by message
	other := p.Client(t).NewPermitSemaphore(name)
	part := kit.Must(t)(s.Acquire(background, 2, fixed))
	byID, forced := kit.Must(t)(s.Lock(background, fixed)), kit.Must(t)(s.Lock(background, fixed))
	// For a second they do not listen.
	kit.WaitFor(t, "the subscription", func() bool { return listensOn(t, p, name, "holdfast_lost:{"+name+"}") })
	kit.OK(t, other.ReleasePermits(background, append(byID.PermitIDs(), part.PermitIDs()[0])...))
	<-byID.Context().Done()
	kit.WaitFor(t, "the other hold to know", func() bool { return len(part.PermitIDs()) == 1 })
	kit.OK(t, part.Context().Err(), forced.Context().Err())
	kit.WantError(t, byID.Unlock(), holdfast.ErrLost)
	kit.Unlock(t, part)
	kit.WantDid(t, true)(other.ForceUnlock(background))
	<-forced.Context().Done()
	kit.WantError(t, forced.Unlock(), holdfast.ErrLost)
	kit.OK(t, wantFree(s, 5))
}

// L17: more permits expire at once than Lua's stack can bear.
func TestL17_ManyExpireAtOnce(t *testing.T) {
	t.Parallel()
	const holds = 4
	_, p, _ := started(t)
	c := p.Client(t, holdfast.WithTimeout(30*time.Second)) // what takes so many takes its time
	s := c.NewPermitSemaphore("permits", holdfast.Permits(holds*holdfast.MaxPermitsPerHold))
	for range holds {
		_ = kit.Must(t)(s.Acquire(background, holdfast.MaxPermitsPerHold, holdfast.FixedLease(12*time.Second)))
	}
	kit.WaitFor(t, "all permits", func() bool { return wantFree(s, holds*holdfast.MaxPermitsPerHold) == nil })
}

// The smallest rights that each needs: with them all goes well, and without any of them something fails.
func TestSemaphoreRights(t *testing.T) {
	t.Parallel()
	s, admin, _ := started(t)
	use := func(t *testing.T, o object, without string) error {
		t.Helper()
		name := kit.Fresh()
		rules := append(kit.RightsOf(o.kind).And(kit.ClientRights["go-redis"]).Rules(name), "+del") // Delete needs it, of all kinds
		rules = slices.DeleteFunc(rules, func(rule string) bool { return rule == strings.ReplaceAll(without, "NAME", name) })
		with := user{o.asks(t, admin, name), 5 * time.Second, time.Minute}
		if without != "" { // who does not hear of it asks after 3 s
			with.vain, with.soon = 500*time.Millisecond, 2*time.Second
		}
		return o.use(kit.Limited(t, s, "go-redis", name, rules).Client(t), name, with)
	}
	for _, o := range objects { // first: as long as the server has no script
		if use(t, o, "+eval") == nil {
			t.Error("nothing fails without +eval")
		}
	}
	var group sync.WaitGroup // more of them than there are parallel tests: they mostly wait
	defer group.Wait()
	for what, o := range objects {
		kit.OK(t, use(t, o, ""))
		for _, right := range kit.Known(t, kit.RightsOf(o.kind).Rules("NAME")) {
			if right == "+eval" || right == "+unsubscribe" {
				continue // without the latter, a subscription that nobody needs any more stays for longer
			}
			group.Go(func() {
				t.Run(what+"/without "+right, func(t *testing.T) {
					if use(t, o, right) == nil {
						t.Error("nothing fails")
					}
				})
			})
		}
	}
}

// TestSemaphoresOfUser makes every call as a user that the line of holdfast acl has made, through each client.
func TestSemaphoresOfUser(t *testing.T) {
	t.Parallel()
	s, admin, _ := started(t)
	cluster := redistest.StartCluster(t, 3, 0)
	onCluster := kit.GoRedis("admin", redis.UniversalOptions{Addrs: cluster.Addrs()}, kit.OnCluster(cluster))
	onCluster.Sharded = redistest.AtLeast(t, 7, 0)
	for what, o := range objects {
		kind := rights.Kinds()[slices.IndexFunc(rights.Kinds(), func(k rights.Kind) bool { return k.Name == o.kind })]
		for _, client := range []string{rights.GoRedis, rights.Rueidis} {
			for _, on := range []struct {
				nodes []*redistest.Server
				admin *kit.Platform
			}{{[]*redistest.Server{s}, admin}, {cluster.Nodes, onCluster}} {
				t.Run(what+"/"+client+"/"+on.admin.Name, func(t *testing.T) {
					t.Parallel()
					name := kit.Fresh()
					u := rights.User{Names: []string{name}, Kinds: []rights.Kind{kind}, Server: rights.Server{Cluster: len(on.nodes) > 1}}
					p := kit.Pasted(t, on.nodes, u, name, client)
					kit.OK(t, o.use(p.Client(t), name, user{o.asks(t, on.admin, name), 5 * time.Second, time.Minute}))
				})
			}
		}
	}
}

// wantFree checks how many permits are available.
func wantFree(s kit.Inspectable, want int) error {
	got, err := kit.Available(s)
	if err == nil && got != want {
		err = fmt.Errorf("%d permits are available, want %d", got, want)
	}
	return err
}

// expires gives an object an end, and deletes it.
func expires(o interface {
	kit.Inspectable
	Expire(ctx context.Context, d time.Duration) (bool, error)
	Delete(ctx context.Context) (bool, error)
},
) error {
	if _, err := o.Expire(background, 0); !errors.Is(err, holdfast.ErrInvalid) {
		return fmt.Errorf("to live for no time: %w", err)
	}
	found, err := o.Expire(background, time.Minute)
	ttl, err2 := kit.TTLOf(o)
	deleted, err3 := o.Delete(background)
	if err := errors.Join(err, err2, err3); err != nil || !found || ttl > time.Minute || ttl < 50*time.Second || !deleted {
		return fmt.Errorf("found: %v, lives for %v, deleted: %v; %w", found, ttl, deleted, err)
	}
	return nil
}

func usePermits(c *holdfast.Client, name string, with user) error {
	s := c.NewPermitSemaphore(name)
	_, err := s.TrySetPermits(background, 3)
	if err := errors.Join(err, s.AddPermits(background, 2), s.SetPermits(background, 3), wantFree(s, 3)); err != nil {
		return err
	}
	h, err := s.Acquire(background, 3, holdfast.Wait(with.soon))
	if err != nil {
		return err
	}
	found, err := s.Inspect(background)
	if ids := h.PermitIDs(); err != nil || len(ids) != 3 || len(found.Holders) != 3 || !found.HeldBy(ids[0]) || found.Permits != 3 || found.Available != 0 {
		return fmt.Errorf("the permits %v; found %+v, %w", ids, found, err)
	}
	if _, err := s.Acquire(background, 2, holdfast.Wait(with.vain)); !errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("more than there are: %w", err)
	}
	got := with.asks(func() error { // nobody stands back for the one before
		next, err := s.Acquire(background, 2, holdfast.Wait(with.soon), holdfast.FixedLease(300*time.Millisecond))
		if expired := time.Now().Add(320 * time.Millisecond); err == nil {
			<-next.Context().Done()
			time.Sleep(time.Until(expired)) // on the server, too; and not given back
		}
		return err
	})
	if err := errors.Join(h.Extend(background, time.Minute), h.Unlock(), <-got, wantFree(s, 3)); err != nil {
		return err
	}
	if h, err = s.TryLock(background); err != nil {
		return err
	}
	id := h.PermitIDs()[0]
	err = errors.Join(s.ExtendPermit(background, id, time.Minute), s.ReleasePermits(background, id), wantFree(s, 3))
	_, forced := s.ForceUnlock(background)
	return errors.Join(err, forced, expires(s))
}

func useSemaphore(c *holdfast.Client, name string, with user) error {
	s := c.NewUnleasedSemaphore(name)
	_, err := s.TrySetPermits(background, 3)
	if err = errors.Join(err, s.Acquire(background, 3, holdfast.Wait(with.soon)), wantFree(s, 0)); err != nil {
		return err
	}
	if err := s.Acquire(background, 2, holdfast.Wait(with.vain)); !errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("more than there are: %w", err)
	}
	got := with.asks(func() error { return s.Acquire(background, 2, holdfast.Wait(with.soon)) }) // nobody stands back for the one before
	if err := errors.Join(s.Release(2), <-got, wantFree(s, 0)); err != nil {
		return err
	}
	err = errors.Join(s.AddPermits(background, -3), wantFree(s, -3))
	for _, want := range []int{-3, 0} {
		n, drained := s.Drain(background)
		if err = errors.Join(err, drained); err == nil && n != want {
			err = fmt.Errorf("drained %d, want %d", n, want)
		}
	}
	return errors.Join(err, expires(s))
}

func useLatch(c *holdfast.Client, name string, with user) error {
	l := c.NewLatch(name)
	if err := errors.Join(l.Await(background), l.CountDown()); err != nil {
		return err
	}
	if _, err := l.TrySetCount(background, 2); err != nil {
		return err
	}
	if err := l.Await(background, holdfast.Wait(with.vain)); !errors.Is(err, holdfast.ErrNotZero) {
		return fmt.Errorf("not counted down: %w", err)
	}
	got := with.asks(func() error { return l.Await(background, holdfast.Wait(with.soon)) })
	left, err := kit.Remaining(l)
	if err := errors.Join(err, l.CountDown(), l.CountDown(), <-got); err != nil || left != 2 {
		return fmt.Errorf("the count was %d; %w", left, err)
	}
	set, err := l.TrySetCount(background, 1)
	if err == nil && !set {
		err = errors.New("it was not set again")
	}
	return errors.Join(err, expires(l))
}
