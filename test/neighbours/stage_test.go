package neighbours

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Two tenants share a server. Each has a user with exactly the rights of docs/acl.md to its own locks, as holdfast acl prints them: ours are named ours:*,
// theirs theirs:*. The tests have the neighbour attack our locks, and assert the effect: none, or the one that docs/security.md
// documents.

// patience bounds a call on a very busy machine. Only a call that hangs takes longer.
const patience = 20 * time.Second

// town is a server, or a cluster, that both tenants share.
type town struct {
	nodes   []*redistest.Server
	sharded bool // pub/sub
	tenants bool // clients have WithTenant, and users only the rights to their own grants and identities
	loaded  bool // are the scripts, and no user has EVAL
	admin   *kit.Platform
	ours    map[string]*kit.Platform // our user, by the name of its Redis client
	theirs  *redis.Client            // the neighbour's connection to the first node
}

const defaultPassword = "admin"

// newTown returns a server for both tenants.
func newTown(t *testing.T, directives ...string) *town {
	t.Helper()
	if redistest.AtLeast(t, 7, 0) { // else it refuses these to everybody
		directives = append(directives, "enable-debug-command yes", "enable-module-command yes")
	}
	s := redistest.Start(t, redistest.WithConfig(directives...))
	return settle(t, &town{
		nodes: []*redistest.Server{s},
		admin: kit.GoRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s)),
	})
}

// newTenants returns a server for clients that have WithTenant, and for users that have no EVAL if the scripts are loaded.
func newTenants(t *testing.T, loaded bool) *town {
	t.Helper()
	w := newTown(t)
	w.tenants, w.loaded = true, loaded
	w.allow(t)
	for _, s := range protocol.Every() {
		if loaded {
			w.admin.Do(t, "", "SCRIPT", "LOAD", s.Source())
		}
	}
	return w
}

// newCluster returns a cluster for both tenants.
func newCluster(t *testing.T) *town {
	t.Helper()
	s := redistest.StartCluster(t, 3, 0)
	w := &town{
		nodes: s.Nodes, sharded: redistest.AtLeast(t, 7, 0),
		admin: kit.GoRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, kit.OnCluster(s)),
	}
	w.admin.Sharded = w.sharded
	return settle(t, w)
}

// settle creates the users, and connects them.
func settle(t *testing.T, w *town) *town {
	t.Helper()
	var addrs []string
	for _, node := range w.nodes {
		addrs = append(addrs, node.Addr())
	}
	w.allow(t)
	w.ours = map[string]*kit.Platform{}
	for client := range kit.ClientRights {
		w.ours[client] = kit.LimitedTo(addrs, client, "ours")
	}
	w.theirs = w.neighbour(t)
	return w
}

// allow creates both users.
func (w *town) allow(t *testing.T) {
	t.Helper()
	for _, node := range w.nodes {
		for _, user := range []string{"ours", "theirs"} {
			kit.Allow(t, node, user, w.rules(t, user))
		}
	}
}

// rules are the rights of a user of ours or of theirs to all kinds of locks, through either client, as holdfast acl prints them.
func (w *town) rules(t *testing.T, user string) []string {
	t.Helper()
	u := rights.User{
		Names: []string{rights.Matching(user + ":*")}, Kinds: rights.Kinds(), NoEval: w.loaded, Clients: []string{rights.GoRedis, rights.Rueidis},
		Server: rights.Server{Version: kit.Version(t), Cluster: len(w.nodes) > 1},
	}
	if w.tenants {
		u.Tenant = user
	}
	return u.Rules()
}

// neighbour returns one more client of the neighbour, with connections of its own.
func (w *town) neighbour(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: w.nodes[0].Addr(), Username: "theirs", Password: "pw", Protocol: 2, MaxRetries: -1,
		ReadTimeout: time.Minute, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// do executes a command of the neighbour.
func (w *town) do(args ...any) error { return w.theirs.Do(background, args...).Err() }

// succeed executes a command that the neighbour may execute.
func (w *town) succeed(t *testing.T, args ...any) {
	t.Helper()
	if err := w.do(args...); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%.100q: %v", args, err)
	}
}

// refused checks that the server refuses a command of the neighbour for lack of a right.
func (w *town) refused(t *testing.T, args ...any) {
	t.Helper()
	if err := w.do(args...); !lacksRight(err) {
		t.Errorf("%.100q: %v", args, err)
	}
}

// lacksRight reports whether an error says that the user lacks a right, or that no script may execute the command.
func lacksRight(err error) bool {
	if err == nil {
		return false
	}
	for _, says := range []string{
		"NOPERM", "no permission", "The user executing the script can't", "ACL failure in script", "not allowed from script",
		"Unknown Redis command called from script",
	} {
		if strings.Contains(err.Error(), says) {
			return true
		}
	}
	return false
}

// A resource is something of ours that a neighbour may want.
type resource struct {
	what string
	kind *kit.Kind // nil: a semaphore, or a latch
	// take takes it, and returns a function that gives it back, and the context of the hold, which a latch and an unleased
	// semaphore do not have.
	take func(c *holdfast.Client, name string, options ...holdfast.LockOption) (giveBack func() error, held context.Context, err error)
	// pass waits until it is free, takes it, and gives it back.
	pass func(c *holdfast.Client, name string) error
	// waits reports whether a call of pass waits.
	waits func(t *testing.T, w *town, name string)
}

// resources has one of each kind.
func resources() (all []resource) {
	for _, k := range kit.Kinds {
		all = append(all, resource{
			what: k.Name, kind: k,
			take: func(c *holdfast.Client, name string, options ...holdfast.LockOption) (func() error, context.Context, error) {
				return held(k.Lock(c, name).Lock(background, options...))
			},
			pass:  func(c *holdfast.Client, name string) error { return given(k.Against(c, name).Lock(background)) },
			waits: func(t *testing.T, w *town, name string) { t.Helper(); w.admin.AwaitWaiter(t, k, name) },
		})
	}
	listens := func(t *testing.T, w *town, name string) {
		t.Helper()
		kit.WaitFor(t, "the waiter", func() bool { return w.admin.Standing(t, name) > 0 || w.admin.Listens(t, name) })
	}
	return append(all, resource{
		what: "permits", waits: listens,
		take: func(c *holdfast.Client, name string, options ...holdfast.LockOption) (func() error, context.Context, error) {
			return held(c.NewPermitSemaphore(name, holdfast.Permits(1)).Lock(background, options...))
		},
		pass: func(c *holdfast.Client, name string) error {
			return given(c.NewPermitSemaphore(name).Lock(background))
		},
	}, resource{
		what: "semaphore", waits: listens,
		take: func(c *holdfast.Client, name string, _ ...holdfast.LockOption) (func() error, context.Context, error) {
			s := c.NewUnleasedSemaphore(name, holdfast.Permits(1))
			return func() error { return s.Release(1) }, nil, s.Acquire(background, 1)
		},
		pass: func(c *holdfast.Client, name string) error {
			s := c.NewUnleasedSemaphore(name)
			if err := s.Acquire(background, 1); err != nil {
				return err
			}
			return s.Release(1)
		},
	}, resource{
		what: "latch", waits: listens,
		take: func(c *holdfast.Client, name string, _ ...holdfast.LockOption) (func() error, context.Context, error) {
			l := c.NewLatch(name)
			_, err := l.TrySetCount(background, 1)
			return l.CountDown, nil, err
		},
		pass: func(c *holdfast.Client, name string) error { return c.NewLatch(name).Await(background) },
	})
}

func held(h *holdfast.Hold, err error) (func() error, context.Context, error) {
	if err != nil {
		return nil, nil, err
	}
	return h.Unlock, h.Context(), nil
}

// given gives back a hold.
func given(h *holdfast.Hold, err error) error {
	if err != nil {
		return err
	}
	return h.Unlock()
}

// A victim is a resource that one of our clients has, and for which another one waits.
type victim struct {
	resource

	client, name string
	holder       *holdfast.Client
	giveBack     func() error
	held         context.Context
	passed       chan error
}

// victims returns one of each resource through each client of Redis, or through the named ones.
func (w *town) victims(t *testing.T, options []holdfast.ClientOption, clients ...string) (all []*victim) {
	t.Helper()
	if len(clients) == 0 {
		clients = slices.Sorted(maps.Keys(w.ours))
	}
	if w.tenants {
		options = append(options, holdfast.WithTenant("ours"))
	}
	for _, client := range clients {
		holder, waiter := w.ours[client].Client(t, options...), w.ours[client].Client(t, options...)
		for _, r := range resources() {
			v := &victim{resource: r, client: client, name: "ours:" + kit.Fresh(), holder: holder, passed: make(chan error, 1)}
			var err error
			v.giveBack, v.held, err = v.take(holder, v.name)
			kit.OK(t, err)
			go func() { v.passed <- v.pass(waiter, v.name) }()
			all = append(all, v)
		}
	}
	for _, v := range all {
		v.waits(t, w, v.name)
	}
	return all
}

// besieged has the neighbour attack while one of our clients holds each resource and another waits for it, and checks that the attack
// has changed nothing of ours, ended no hold, and granted nothing; and that each waiter gets the resource once it is given back.
func (w *town) besieged(t *testing.T, attack func(t *testing.T, all []*victim)) {
	t.Helper()
	all := w.victims(t, nil)
	before := w.contents(t)
	attack(t, all)
	after := w.contents(t)
	for key := range maps.All(before) {
		if after[key] != before[key] {
			t.Errorf("%s was %q, and is %q", key, before[key], after[key])
		}
		delete(after, key)
	}
	if len(after) > 0 {
		t.Errorf("new keys of ours: %q", after)
	}
	w.relieve(t, all)
}

// relieve checks that no hold has ended and no waiter was granted anything, gives everything back, and checks that each waiter gets it.
func (w *town) relieve(t *testing.T, all []*victim) {
	t.Helper()
	for _, v := range all {
		if v.held != nil && v.held.Err() != nil {
			t.Errorf("%s through %s: %v", v.what, v.client, context.Cause(v.held))
		}
		select {
		case err := <-v.passed:
			t.Errorf("%s through %s: the waiter got what is held: %v", v.what, v.client, err)
		default:
		}
	}
	for _, v := range all {
		if err := within(v.giveBack); err != nil {
			t.Errorf("%s through %s: giving it back: %v", v.what, v.client, err)
		}
		select {
		case err := <-v.passed:
			if err != nil {
				t.Errorf("%s through %s: the waiter: %v", v.what, v.client, err)
			}
		case <-time.After(patience):
			t.Errorf("%s through %s: the waiter waits on", v.what, v.client)
		}
	}
}

// within makes a call, and returns an error if it does not end in time.
func within(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("it has not returned after %v", patience)
	}
}

// refreshed matches the keys of ours that waiters and renewals write.
var refreshed = regexp.MustCompile(`^(holdfast_requests|holdfast_yield|holdfast_waitlist|holdfast_next|holdfast_calls|holdfast_lock_waiting|redisson_lock_timeout|holdfast_client):|:timeout$`)

// contents are our keys and their values, except those that waiters and renewals write.
func (w *town) contents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, node := range w.nodes {
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
		keys, err := rdb.Keys(background, "*ours:*").Result()
		kit.OK(t, err)
		for _, key := range keys {
			if refreshed.MatchString(key) {
				continue
			}
			value, err := rdb.Dump(background, key).Result()
			kit.OK(t, err)
			all[key] = value
		}
		kit.OK(t, rdb.Close())
	}
	return all
}

// keysOf returns each key that a lock of a name may have.
func keysOf(name string) (keys []string) {
	for _, k := range rights.Kinds() {
		for _, key := range k.Rights.And(k.Waiting).For(name, "").Keys {
			keys = append(keys, strings.ReplaceAll(key, "*", "1"))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// channelsOf returns each channel of a lock of a name.
func channelsOf(name string) (channels []string) {
	for _, k := range rights.Kinds() {
		for _, channel := range k.Rights.For(name, "").Channels {
			channels = append(channels, strings.ReplaceAll(channel, "*", "1"))
		}
	}
	channels = append(channels, protocol.GrantChannel("99f17b91-c6cc-889e-88f6-8265bee545cf", name, true))
	slices.Sort(channels)
	return slices.Compact(channels)
}

// grantChannel is where a client listens for grants on a single server.
func grantChannel(c *holdfast.Client) string { return protocol.GrantChannel(c.ID(), "", false) }
