package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
)

// rights are what a user of a kind has to be allowed, and nothing less will do:
// TestACL takes each of them away. The table in docs/acl.md is made of them.
type rights struct {
	commands []string
	keys     []string // patterns; NAME is the lock's name, and so it is in the channels
	channels []string
}

// and returns both.
func (r rights) and(more rights) rights {
	return rights{
		commands: union(r.commands, more.commands),
		keys:     union(r.keys, more.keys),
		channels: union(r.channels, more.channels),
	}
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, item := range b {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}

// What every script needs, and what listening does.
var (
	scriptRights = rights{commands: []string{"evalsha", "eval", "time"}}
	listenRights = rights{commands: []string{"subscribe", "unsubscribe"}}
)

var (
	pollingRights = scriptRights.and(rights{
		commands: []string{"exists", "hget", "hset", "hdel", "hkeys", "hgetall", "hexists", "pttl", "pexpire", "del", "publish"},
		keys:     []string{"NAME"},
		channels: []string{"redisson_lock__channel:{NAME}"},
	})
	plainRights = pollingRights.and(listenRights)
	// lineRights are what standing in line takes besides: see TestACLLine.
	lineRights = rights{
		commands: []string{"zadd", "zrank", "zcard", "zpopmin", "zrange", "zrem", "pubsub|numsub", "get", "set"},
		keys:     []string{"holdfast_line:{NAME}", "holdfast_asks:{NAME}", "holdfast_turn:{NAME}"},
		channels: []string{"holdfast_granted:*"},
	}
	tokenRights = rights{
		commands: []string{"get", "set"},
		keys:     []string{"redisson_lock_token:{NAME}"},
	}
	readerRights = scriptRights.and(listenRights).and(rights{
		commands: []string{
			"exists", "hget", "hset", "hkeys", "hgetall", "hexists", "hdel", "hlen", "type", "get", "set",
			"pttl", "pexpire", "del", "publish",
		},
		keys:     []string{"NAME", "{NAME}:*", "holdfast_next:{NAME}"},
		channels: []string{"redisson_rwlock:{NAME}"},
	})
	writerRights = scriptRights.and(listenRights).and(rights{
		commands: []string{
			"exists", "hget", "hset", "hkeys", "hgetall", "hexists", "hdel", "get", "pttl", "pexpire", "del", "publish",
		},
		keys:     []string{"NAME", "{NAME}:*", "holdfast_next:{NAME}"},
		channels: []string{"redisson_rwlock:{NAME}"},
	})
	writersFirstRights = rights{commands: []string{"set"}}
	fairRights         = scriptRights.and(listenRights).and(rights{
		commands: []string{
			"exists", "hget", "hset", "hdel", "hkeys", "hgetall", "hexists", "pttl", "pexpire", "del", "publish", "persist",
			"lindex", "llen", "lpos", "lrange", "lrem", "ltrim", "rpush", "unlink",
			"zadd", "zcard", "zrangebyscore", "zrem", "zscore",
		},
		keys: []string{
			"NAME", "redisson_lock_queue:{NAME}", "redisson_lock_timeout:{NAME}", "holdfast_lock_waiting:{NAME}",
		},
		channels: []string{"redisson_lock__channel:{NAME}:*"},
	})
)

// clientRights are what a client needs beyond the kind's rights.
var clientRights = map[string]rights{
	"go-redis": {commands: []string{"ping"}}, // see TestACLPing
	"rueidis":  {},
}

// rules are the rights as ACL SETUSER takes them.
func (r rights) rules(name string) (rules []string) {
	for _, command := range r.commands {
		rules = append(rules, "+"+command)
	}
	for _, key := range r.keys {
		rules = append(rules, "~"+strings.ReplaceAll(key, "NAME", name))
	}
	for _, channel := range r.channels {
		rules = append(rules, "&"+strings.ReplaceAll(channel, "NAME", name))
	}
	return rules
}

// TestACL has a user with a kind's rights, and no others, do everything that
// there is to do with a lock of it, through each client. Then it takes each right
// away in turn, and something fails.
func TestACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := &rightsTest{admin: goRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s)), addr: s.Addr()}
	r.a = r.admin.client(t)
	t.Run("without +eval", func(t *testing.T) { // first: as long as the server has no script
		r.lacking(t, func(rule string) bool { return rule == "+eval" })
	})
	t.Run("all", func(t *testing.T) {
		forKinds(t, func(t *testing.T, k *kind) {
			for client := range clientRights {
				t.Run(client, func(t *testing.T) {
					t.Parallel()
					if err := r.try(t, k, client, ""); err != nil {
						t.Error(err)
					}
				})
			}
		})
	})
	t.Run("without", func(t *testing.T) {
		r.lacking(t, func(rule string) bool { return rule != "+eval" })
	})
}

// rightsTest tries rights on a server.
type rightsTest struct {
	admin *platform
	a     *holdfast.Client // may do anything
	addr  string
}

// lacking takes away each of these rights in turn. The cases run side by side,
// more of them than there are parallel tests: they fail at once, or wait.
func (r *rightsTest) lacking(t *testing.T, these func(rule string) bool) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, k := range kinds {
		for client := range clientRights {
			for _, rule := range known(t, k.rights.rules("NAME")) {
				if !these(rule) || client != "go-redis" && (k != mutexKind || !sent(rule)) {
					continue // the scripts' own rights are the same whoever sends them
				}
				wg.Go(func() {
					t.Run(k.name+"/"+client+"/"+rule, func(t *testing.T) {
						if err := r.try(t, k, client, rule); err == nil {
							t.Error("nothing fails without it")
						} else {
							t.Log(err)
						}
					})
				})
			}
		}
	}
}

// try has a user with the kind's rights but one live with a lock.
func (r *rightsTest) try(t *testing.T, k *kind, client, without string) error {
	t.Helper()
	name := r.admin.fresh(t, k)
	rules := slices.DeleteFunc(k.rights.and(clientRights[client]).rules(name), func(rule string) bool {
		return rule == strings.ReplaceAll(without, "NAME", name)
	})
	r.admin.do(t, name, setUser(t, name, rules)...)
	return live(t, k, r.admin, r.a, limitedTo([]string{r.addr}, client, name), name)
}

// sent reports whether a right is used by what a client sends.
func sent(rule string) bool {
	return rule[0] == '&' || slices.Contains([]string{"+evalsha", "+eval", "+subscribe", "+unsubscribe"}, rule)
}

// known returns the rules that the server knows. Rights on channels came with
// Redis 6.2; before it, everybody has them.
func known(t *testing.T, rules []string) []string {
	t.Helper()
	if redistest.AtLeast(t, 6, 2) {
		return rules
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool {
		return rule[0] == '&' || rule == "resetchannels"
	})
}

// allow makes a user, or changes what it may do.
func allow(t *testing.T, s *redistest.Server, user string, rules []string) {
	t.Helper()
	s.Cli(t, setUser(t, user, rules)...)
}

func setUser(t *testing.T, user string, rules []string) (command []string) {
	t.Helper()
	return append([]string{"ACL", "SETUSER", user, "reset", "on", ">pw"}, known(t, rules)...)
}

// limited is the server as a user with these rights reaches it.
func limited(t *testing.T, s *redistest.Server, client, user string, rules []string) *platform {
	t.Helper()
	allow(t, s, user, rules)
	return limitedTo([]string{s.Addr()}, client, user)
}

// limitedTo is a server, or a cluster, as a user reaches it.
func limitedTo(addrs []string, client, user string) *platform {
	if client == "go-redis" {
		return goRedis("limited", redis.UniversalOptions{Addrs: addrs, Username: user, Password: "pw"}, nil)
	}
	return rueidisAt("limited", rueidis.ClientOption{
		InitAddress: addrs, Username: user, Password: "pw",
		DisableCache: true, // or rueidis needs CLIENT TRACKING, for itself
	}, nil)
}

// soon is before a waiter would look by itself.
const soon = 2 * time.Second

// live does everything that there is to do with a lock, in a process with
// limited rights beside one that may do anything, and returns what fails first.
func live(t *testing.T, k *kind, admin *platform, a *holdfast.Client, p *platform, name string) (err error) {
	t.Helper()
	var mu sync.Mutex
	var told error
	c, err := testclient.New(p.open(t), holdfast.WithLease(6*time.Second), holdfast.WithTimeout(3*time.Second),
		holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = e.Err
		}}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // without a right, it may be unable to give back
		if closed := c.Close(); err == nil {
			err = closed
		}
	}()
	l := &life{t: t, k: k, admin: admin, a: a, c: c, name: name}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"take, nest, renew, extend, inspect", l.hold},
		{"wake another", l.wakeAnother},
		{"be refused, wait, be woken", l.wait},
		{"give up", l.giveUp},
		{"meet readers", l.share},
		{"force", l.force},
		{"adopt", l.adopt},
		{"leave nothing", l.nothing},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		mu.Lock()
		err := told
		mu.Unlock()
		if err != nil {
			return fmt.Errorf("%s, in the background: %w", step.what, err)
		}
	}
	return nil
}

// life is a lock of which c, who has limited rights, and a, who may do anything,
// make every use.
type life struct {
	t     *testing.T
	k     *kind
	admin *platform
	a, c  *holdfast.Client
	name  string
}

func (l *life) lock() anyLock  { return l.k.lock(l.c, l.name) }
func (l *life) rival() anyLock { return l.k.against(l.a, l.name) }

// listening returns the connection of the user that listens, or nothing.
func (l *life) listening() string {
	for line := range strings.Lines(strings.Join(l.admin.do(l.t, l.name, "CLIENT", "LIST", "TYPE", "pubsub"), "\n")) {
		connection := strings.Fields(line)
		subscribed := slices.ContainsFunc(connection, func(field string) bool {
			name, count, _ := strings.Cut(field, "=")
			return (name == "sub" || name == "ssub") && count != "0"
		})
		if subscribed && slices.Contains(connection, "user="+l.name) {
			return connection[0]
		}
	}
	return ""
}

// within reports whether something happens soon.
func within(ok func() bool) bool {
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func (l *life) hold() error {
	h, err := l.lock().Lock(background)
	if err != nil {
		return err
	}
	if l.k.nests {
		nested, err := l.lock().Lock(h.Context())
		if err != nil {
			return errors.Join(err, h.Unlock())
		}
		if err := nested.Unlock(); err != nil {
			return errors.Join(err, h.Unlock())
		}
	}
	for before := h.Deadline(); !h.Deadline().After(before); time.Sleep(5 * time.Millisecond) {
		if h.Context().Err() != nil {
			return errors.Join(errors.New("it was not renewed"), h.Unlock())
		}
	}
	_, err = l.lock().Inspect(background)
	return errors.Join(err, h.Extend(background, 6*time.Second), h.Unlock())
}

// wakeAnother releases the lock while another waits, who is told.
func (l *life) wakeAnother() error {
	h, err := l.lock().Lock(background)
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		other, err := l.rival().Lock(background)
		if err == nil {
			err = other.Unlock()
		}
		got <- err
	}()
	l.admin.awaitWaiter(l.t, l.k, l.name)
	released := time.Now()
	err = errors.Join(h.Unlock(), <-got)
	if time.Since(released) > soon {
		err = errors.Join(err, errors.New("another was not told"))
	}
	return err
}

// wait waits for the lock, and gets it by message.
func (l *life) wait() error {
	other := must(l.t)(l.rival().Lock(background))
	if _, err := l.lock().TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
		return errors.Join(err, other.Unlock())
	}
	var h *holdfast.Hold
	got := make(chan error, 1)
	go func() {
		var err error
		h, err = l.lock().Lock(background)
		got <- err
	}()
	listens := l.k.polls || within(func() bool { return l.listening() != "" })
	released := time.Now()
	unlock(l.t, other)
	if err := <-got; err != nil {
		return err
	}
	err := h.Unlock()
	switch {
	case !listens:
		return errors.Join(err, errors.New("it does not listen"))
	case time.Since(released) > soon:
		return errors.Join(err, errors.New("it was not told"))
	case !within(func() bool { return l.listening() == "" }):
		return errors.Join(err, errors.New("it listens for ever"))
	}
	return err
}

// giveUp waits in vain.
func (l *life) giveUp() error {
	other := must(l.t)(l.rival().Lock(background))
	defer unlock(l.t, other)
	if _, err := l.lock().Lock(background, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("a lock that is held: %w", err)
	}
	if l.k.queues {
		return l.leaveLine()
	}
	return nil
}

// leaveLine looks that nobody stands in line any more, and has one of Redisson's
// stand there, before whom nobody gets in.
func (l *life) leaveLine() error {
	do := l.admin.ask(l.t, l.name)
	line := "redisson_lock_queue:" + tagged(l.name)
	if !within(func() bool { return do("LLEN", line)[0] == "0" }) {
		return errors.New("who gave up stands in line")
	}
	until := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	do("RPUSH", line, "java:1")
	do("ZADD", "redisson_lock_timeout:"+tagged(l.name), until, "java:1")
	defer do("DEL", line)
	if _, err := l.lock().Lock(background, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("behind one of Redisson's: %w", err)
	}
	if !within(func() bool { return do("LLEN", line)[0] == "1" }) {
		return errors.New("who gave up behind another stands in line")
	}
	return nil
}

// share is refused by those who read, or holds the lock beside them, and leaves
// before them and after them.
func (l *life) share() error {
	if l.k.readers == nil {
		return nil
	}
	if !l.k.shared() {
		other := must(l.t)(l.k.readers(l.a, l.name).Lock(background))
		defer unlock(l.t, other)
		if _, err := l.lock().TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
			return fmt.Errorf("a lock that is read: %w", err)
		}
		return nil
	}
	for _, first := range []bool{true, false} {
		other := must(l.t)(l.k.lock(l.a, l.name).Lock(background))
		h, err := l.lock().Lock(background)
		if err != nil {
			return errors.Join(err, other.Unlock())
		}
		if first {
			err = errors.Join(h.Unlock(), other.Unlock())
		} else {
			err = errors.Join(other.Unlock(), h.Unlock())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// force takes the lock from its holder, who may also read.
func (l *life) force() error {
	other := must(l.t)(l.k.lock(l.a, l.name).Lock(background))
	defer func() { _ = other.Unlock() }() // it is lost, if all is well
	if l.k.readers != nil && !l.k.shared() {
		reading := must(l.t)(l.k.readers(l.a, l.name).Lock(holdfast.WithOwner(background, other.Owner())))
		defer func() { _ = reading.Unlock() }()
	}
	if did, err := l.lock().ForceUnlock(background); !did || err != nil {
		return fmt.Errorf("%v, %w", did, err)
	}
	return nil
}

// adopt takes over what another has taken.
func (l *life) adopt() error {
	other := must(l.t)(l.k.lock(l.a, l.name).Lock(background))
	defer func() { _ = other.Unlock() }() // it is not its own any more, if all is well
	h, err := l.lock().Adopt(background, other.Owner())
	if err != nil {
		return err
	}
	return h.Unlock()
}

func (l *life) nothing() error {
	var left []string
	if within(func() bool {
		left = l.k.left(l.admin.do(l.t, l.name, "KEYS", "*"+l.name+"*"), l.name)
		return len(left) == 0
	}) {
		return nil
	}
	return fmt.Errorf("left: %q", left)
}

// A listener keeps its connection with the client's rights, and go-redis loses it
// every few seconds without PING. It makes a new one each time, but does not
// hear what is said in between.
func TestACLPing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
	for client, more := range clientRights {
		for _, with := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", client, with), func(t *testing.T) {
				t.Parallel()
				name := fresh()
				rules := plainRights.and(lineRights).rules(name) // or a refused subscription keeps the connection busy
				if with {
					rules = append(rules, more.rules("")...)
				}
				p := limited(t, s, client, name, rules)
				l := &life{t: t, k: mutexKind, admin: admin, a: admin.client(t), c: p.client(t), name: name}
				keeps := l.keepsConnection()
				if want := with || len(more.commands) == 0; keeps != want {
					t.Errorf("it keeps its connection: %v, want %v", keeps, want)
				}
			})
		}
	}
}

// keepsConnection reports whether a waiter listens on one connection for as long
// as it waits.
func (l *life) keepsConnection() bool {
	other := must(l.t)(l.rival().Lock(background))
	done := make(chan struct{})
	go func() {
		defer close(done)
		unlock(l.t, must(l.t)(l.lock().Lock(background)))
	}()
	waitFor(l.t, "the waiter", func() bool { return l.listening() != "" })
	first, lost := l.listening(), false
	for end := time.Now().Add(6 * time.Second); !lost && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		lost = l.listening() != first
	}
	unlock(l.t, other)
	<-done
	return !lost
}

// Who has the rights of the line waits there. Who lacks one of them waits as well, be it outside of the line.
func TestACLLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
	for client, more := range clientRights {
		for _, lacking := range append(known(t, lineRights.rules("NAME")), "") {
			if client != "go-redis" && lacking != "" && lacking[0] != '&' {
				continue // the scripts' own rights are the same whoever sends them
			}
			if slices.Contains([]string{"+get", "+set", "~holdfast_turn:{NAME}"}, lacking) {
				continue // they are for those who do not stand in line
			}
			t.Run(client+"/without "+lacking, func(t *testing.T) {
				t.Parallel()
				name := fresh()
				rules := slices.DeleteFunc(plainRights.and(more).and(lineRights).rules(name), func(rule string) bool {
					return rule == strings.ReplaceAll(lacking, "NAME", name)
				})
				takeTurns(t, admin, limited(t, s, client, name, rules), name, func(processes int) {
					// These are not missed before somebody leaves the line.
					inLine := slices.Contains([]string{"", "+zcard", "+zpopmin", "+zrange", "+zrem", "+pubsub|numsub"}, lacking)
					waitFor(t, "all to wait", func() bool {
						channel := "redisson_lock__channel:" + tagged(name)
						if inLine {
							return admin.standing(t, name) == processes
						}
						return number(admin.do(t, name, "PUBSUB", "NUMSUB", channel)[1]) >= processes
					})
				})
			})
		}
	}
}

// takeTurns has some processes lock a mutex in turns, the first time when all of them wait for it, as await says.
func takeTurns(t *testing.T, admin, p *platform, name string, await func(processes int)) {
	t.Helper()
	const processes, turns = 4, 3
	first := must(t)(admin.client(t).NewMutex(name).Lock(background))
	var inside atomic.Int32
	var all sync.WaitGroup
	for range processes {
		c := p.client(t, holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) { t.Error(e.Err) }}))
		all.Go(func() {
			for range turns {
				h, err := c.NewMutex(name).Lock(background, holdfast.Wait(time.Minute))
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				inside.Add(-1)
				unlock(t, h)
			}
		})
	}
	await(processes)
	unlock(t, first)
	all.Wait()
}

// From Redis 7.0 on, a cluster's messages are sharded.
var shardedCommands = map[string]string{
	"publish": "spublish", "subscribe": "ssubscribe", "unsubscribe": "sunsubscribe",
}

// topology is what a client asks a cluster who owns which slot with.
func topology(t *testing.T, client string) string {
	t.Helper()
	if client == "rueidis" && redistest.AtLeast(t, 8, 0) {
		return "cluster|shards"
	}
	return "cluster|slots"
}

// onCluster are the rights on a cluster, and which of them differ from those on
// a single server.
func (r rights) onCluster(t *testing.T, client string) (all rights, differ []string) {
	t.Helper()
	differ = []string{topology(t, client), "pubsub|shardnumsub"}
	all = r.and(rights{commands: differ})
	for i, command := range all.commands {
		if sharded, ok := shardedCommands[command]; ok && redistest.AtLeast(t, 7, 0) {
			all.commands[i] = sharded
			differ = append(differ, sharded)
		}
	}
	return all, differ
}

// The rights on a cluster suffice, and those that differ are needed.
func TestACLCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	admin := goRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, onCluster(s))
	admin.sharded = redistest.AtLeast(t, 7, 0)
	a := admin.client(t)
	user := func(t *testing.T, k *kind, client, without string) (name string) {
		t.Helper()
		name = admin.fresh(t, k)
		all, _ := k.rights.and(clientRights[client]).onCluster(t, client)
		rules := slices.DeleteFunc(all.rules(name), func(r string) bool { return r == "+"+without })
		for _, node := range s.Nodes {
			allow(t, node, name, rules)
		}
		return name
	}
	try := func(t *testing.T, k *kind, client, without string) error {
		t.Helper()
		name := user(t, k, client, without)
		return live(t, k, admin, a, limitedTo(s.Addrs(), client, name), name)
	}
	forKinds(t, func(t *testing.T, k *kind) {
		for client := range clientRights {
			t.Run(client, func(t *testing.T) {
				t.Parallel()
				if err := try(t, k, client, ""); err != nil {
					t.Error(err)
				}
			})
		}
	})
	for client := range clientRights {
		_, differ := mutexKind.rights.onCluster(t, client)
		for _, command := range differ {
			if client == "rueidis" && command == topology(t, client) {
				continue // below: there is no client without it
			}
			t.Run(client+"/without "+command, func(t *testing.T) {
				t.Parallel()
				if err := try(t, mutexKind, client, command); err == nil {
					t.Error("nothing fails without it")
				} else {
					t.Log(err)
				}
			})
		}
	}
	t.Run("rueidis/without "+topology(t, "rueidis"), func(t *testing.T) {
		t.Parallel()
		name := user(t, mutexKind, "rueidis", topology(t, "rueidis"))
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: s.Addrs(), Username: name, Password: "pw", DisableCache: true,
		})
		if err == nil {
			client.Close()
			t.Error("nothing fails without it")
		}
	})
}

// aclTable is the table in docs/acl.md.
func aclTable() string {
	var table strings.Builder
	table.WriteString("| kind | commands | keys | channels |\n|---|---|---|---|\n")
	code := func(items []string) string { return "`" + strings.Join(items, "` `") + "`" }
	for _, k := range kinds {
		commands := slices.Clone(k.rights.commands)
		slices.Sort(commands)
		for i := range commands {
			commands[i] = strings.ToUpper(commands[i])
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", k.name, code(commands), code(k.rights.keys), code(k.rights.channels))
	}
	return table.String()
}

// The documentation has the rights as they are tested.
func TestACLDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/acl.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := aclTable(); !strings.Contains(string(text), want) {
		t.Errorf("docs/acl.md should have\n%s", want)
	}
}
