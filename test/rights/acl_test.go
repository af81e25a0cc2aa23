package rights

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestACL has a user with a kind's rights, and no others, do everything that
// there is to do with a lock of it, through each client. Then it takes each right
// away in turn, and something fails.
func TestACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := adminOf(t, s)
	r := &rightsTest{
		admin: admin, a: admin.Client(t), addrs: []string{s.Addr()}, nodes: []*redistest.Server{s},
		all: func(r rights.Rights, _ string) rights.Rights { return r }, grants: !redistest.AtLeast(t, 6, 2),
	}
	t.Run("without +eval", func(t *testing.T) { // first: as long as the server has no script
		r.eachLacking(t, func(rule string) bool { return rule == "+eval" })
	})
	t.Run("all", r.suffice)
	t.Run("without", func(t *testing.T) {
		r.eachLacking(t, func(rule string) bool { return rule != "+eval" })
	})
}

// adminOf is a server as one reaches it who may do anything.
func adminOf(t *testing.T, s *redistest.Server) *kit.Platform {
	t.Helper()
	return kit.GoRedis("admin", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s))
}

// rightsTest tries rights on a server, or a cluster.
type rightsTest struct {
	admin *kit.Platform
	a     *holdfast.Client // may do anything
	addrs []string
	nodes []*redistest.Server
	all   func(r rights.Rights, client string) rights.Rights // what these rights are there
	// grants is true if every user may hear grants: it does not show then that somebody stops listening.
	grants bool
}

// suffice has a user with all rights, for each kind and client.
func (r *rightsTest) suffice(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for client := range kit.ClientRights {
			t.Run(client, func(t *testing.T) {
				t.Parallel()
				kit.OK(t, r.try(t, k, client, ""))
			})
		}
	})
}

// eachLacking takes away each of these rights in turn. The cases run side by side,
// more of them than there are parallel tests: they fail at once, or wait.
func (r *rightsTest) eachLacking(t *testing.T, these func(rule string) bool) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, k := range kit.Kinds {
		for client := range kit.ClientRights {
			for _, rule := range kit.Known(t, k.Rules("NAME")) {
				if !these(rule) || rule == "+unsubscribe" && r.grants || client != "go-redis" && (k != kit.MutexKind || !sent(rule)) {
					continue // the scripts' own rights are the same whoever sends them
				}
				wg.Go(func() {
					t.Run(k.Name+"/"+client+"/"+rule, func(t *testing.T) { r.lacking(t, k, client, rule) })
				})
			}
		}
	}
}

// lacking has something fail without a right.
func (r *rightsTest) lacking(t *testing.T, k *kit.Kind, client, rule string) {
	t.Helper()
	if r.try(t, k, client, rule) == nil {
		t.Error("nothing fails without it")
	}
}

// try has a user with the kind's rights but one live with a lock.
func (r *rightsTest) try(t *testing.T, k *kit.Kind, client, without string) error {
	t.Helper()
	name := r.user(t, k, client, without)
	lease := 6 * time.Second
	if without == "" { // nothing may fail, however busy the machine is
		lease = 15 * time.Second
	}
	return live(&life{t: t, k: k, admin: r.admin, a: r.a, name: name, grants: r.grants}, kit.LimitedTo(r.addrs, client, name), lease)
}

// user makes a user with the kind's rights but one, who has the name of the lock.
func (r *rightsTest) user(t *testing.T, k *kit.Kind, client, without string) (name string) {
	t.Helper()
	name = kit.Fresh()
	all := r.all(k.Rights.And(kit.ClientRights[client]), client).Rules(name)
	for _, node := range r.nodes {
		kit.Allow(t, node, name, lessOne(all, without, name))
	}
	return name
}

// lessOne are rules without one of them, in which NAME stands for the name.
func lessOne(rules []string, without, name string) []string {
	without = strings.ReplaceAll(without, "NAME", name)
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == without })
}

// sent reports whether a right is used by what a client sends.
func sent(rule string) bool {
	return rule[0] == '&' || slices.Contains([]string{"+evalsha", "+eval", "+subscribe", "+unsubscribe"}, rule)
}

// live does everything that there is to do with a lock, in a process with
// limited rights beside one that may do anything, and returns what fails first.
func live(l *life, p *kit.Platform, lease time.Duration) (err error) {
	t := l.t
	t.Helper()
	told := make(chan error, 1)
	hooks := holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) {
		select {
		case told <- fmt.Errorf("in the background: %w", e.Err):
		default:
		}
	}}
	c, err := testclient.New(p.Open(t),
		holdfast.WithLease(lease), holdfast.WithTimeout(lease/2), holdfast.WithHooks(hooks))
	kit.OK(t, err)
	what := ""
	defer func() { // without a right, it may be unable to give back
		closed := c.Close()
		switch failed := recover().(type) {
		case nil:
			err = closed
		case failure:
			err = fmt.Errorf("%s: %w", what, failed.error)
		default:
			panic(failed)
		}
	}()
	l.c = c
	for _, step := range []struct {
		what string
		do   func()
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
		what = step.what
		step.do()
		select {
		case err := <-told:
			l.need(err)
		default:
		}
	}
	return nil
}

// life is a lock of which c, who has limited rights, and a, who may do anything,
// make every use. It ends by a panic with the first failure.
type life struct {
	t     *testing.T
	k     *kit.Kind
	admin *kit.Platform
	a, c  *holdfast.Client
	name  string
	// grants is true if the user may hear grants: it then listens for them as long as its client lives.
	grants bool
}

// failure is what ends a life.
type failure struct{ error }

// need fails if there is an error.
func (l *life) need(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(failure{err})
	}
}

// got is a hold that c has to get.
func (l *life) got(h *holdfast.Hold, err error) *holdfast.Hold {
	l.need(err)
	return h
}

// refused makes a call that must not get a lock.
func (l *life) refused(lock func() (*holdfast.Hold, error), what string) {
	if _, err := lock(); !errors.Is(err, holdfast.ErrLocked) {
		l.need(fmt.Errorf("%s: %w", what, cmp.Or(err, errors.New("granted"))))
	}
}

// taken has a hold a lock until it is given back.
func (l *life) taken(lock kit.AnyLock) (giveBack func()) {
	h := kit.Must(l.t)(lock.Lock(background))
	return sync.OnceFunc(func() { kit.Unlock(l.t, h) })
}

// turn takes a lock and gives it back.
func turn(lock holdfast.Locker) <-chan error {
	done := make(chan error, 1)
	go func() { done <- given(lock.Lock(background)) }()
	return done
}

func (l *life) lock() kit.AnyLock  { return l.k.Lock(l.c, l.name) }
func (l *life) rival() kit.AnyLock { return l.k.Against(l.a, l.name) }

func (l *life) tryLock() (*holdfast.Hold, error) { return l.lock().TryLock(background) }
func (l *life) lockInVain() (*holdfast.Hold, error) {
	return l.lock().Lock(background, holdfast.Wait(time.Second))
}

// listening returns the connection of the user that listens, or nothing.
func (l *life) listening() string {
	for line := range strings.Lines(strings.Join(l.admin.Do(l.t, l.name, "CLIENT", "LIST", "TYPE", "pubsub"), "\n")) {
		if connection := strings.Fields(line); subscribed.MatchString(line) && slices.Contains(connection, "user="+l.name) {
			return connection[0]
		}
	}
	return ""
}

var subscribed = regexp.MustCompile(` s?sub=[1-9]`)

func (l *life) hold() {
	h := l.got(l.lock().Lock(background))
	if l.k.Nests() {
		l.need(l.got(l.lock().Lock(h.Context())).Unlock())
	}
	for before := h.Deadline(); !h.Deadline().After(before); time.Sleep(5 * time.Millisecond) {
		l.need(context.Cause(h.Context())) // it was not renewed
	}
	_, err := l.lock().Inspect(background)
	l.need(err, h.Extend(background, 6*time.Second), h.Unlock())
}

// wakeAnother releases the lock while another waits, who is told: else Unlock says that it was not.
func (l *life) wakeAnother() {
	h := l.got(l.lock().Lock(background))
	got := turn(l.rival())
	l.admin.AwaitWaiter(l.t, l.k, l.name)
	l.need(h.Unlock(), <-got)
}

// await returns when something has happened, for which there is time enough on a machine that stands still for a while.
func (l *life) await(what string, ok func() bool) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	l.need(errors.New("not in time: " + what))
}

// wait waits for the lock, and gets it by message.
func (l *life) wait() {
	giveBack := l.taken(l.rival())
	defer giveBack()
	l.refused(l.tryLock, "a lock that is held")
	got := turn(l.lock())
	l.await("it listens", func() bool { return l.k.Polling || l.listening() != "" })
	giveBack()
	l.need(<-got)
	l.await("it listens no more", func() bool { return l.grants || l.listening() == "" })
}

// giveUp waits in vain.
func (l *life) giveUp() {
	defer l.taken(l.rival())()
	l.refused(l.lockInVain, "a lock that is held")
	if l.k.AlwaysListed {
		l.leaveLine()
	}
}

// leaveLine looks that nobody stands in line any more, and has one of Redisson's
// stand there, before whom nobody gets in.
func (l *life) leaveLine() {
	do := l.admin.Ask(l.t, l.name)
	line := "redisson_lock_queue:" + kit.Tagged(l.name)
	l.await("who gave up leaves the line", func() bool { return do("LLEN", line)[0] == "0" })
	until := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	do("RPUSH", line, "java:1")
	do("ZADD", "redisson_lock_timeout:"+kit.Tagged(l.name), until, "java:1")
	defer do("DEL", line)
	l.refused(l.lockInVain, "behind one of Redisson's")
	l.await("who gave up behind another leaves the line", func() bool { return do("LLEN", line)[0] == "1" })
}

// share is refused by those who read, or holds the lock beside them, and leaves
// before them and after them.
func (l *life) share() {
	if l.k.Readers == nil {
		return
	}
	if !l.k.Shared {
		defer l.taken(l.k.Readers(l.a, l.name))()
		l.refused(l.tryLock, "a lock that is read")
		return
	}
	for _, first := range []bool{true, false} {
		giveBack := l.taken(l.k.Lock(l.a, l.name))
		defer giveBack()
		h := l.got(l.lock().Lock(background))
		if !first {
			giveBack()
		}
		l.need(h.Unlock())
		giveBack()
	}
}

// force takes the lock from its holder, who may also read.
func (l *life) force() {
	other := kit.Must(l.t)(l.k.Lock(l.a, l.name).Lock(background))
	defer func() { _ = other.Unlock() }() // it is lost, if all is well
	if l.k.Readers != nil && !l.k.Shared {
		reading := kit.Must(l.t)(l.k.Readers(l.a, l.name).Lock(holdfast.WithOwner(background, other.Owner())))
		defer func() { _ = reading.Unlock() }()
	}
	if did, err := l.lock().ForceUnlock(background); err != nil || !did {
		l.need(fmt.Errorf("%v, %w", did, err))
	}
}

// adopt takes over what another has taken.
func (l *life) adopt() {
	other := kit.Must(l.t)(l.k.Lock(l.a, l.name).Lock(background))
	defer func() { _ = other.Unlock() }() // it is not its own any more, if all is well
	l.need(l.got(l.lock().Adopt(background, other.Owner())).Unlock())
}

func (l *life) nothing() {
	l.await("nothing is left", func() bool {
		return len(l.k.Left(l.admin.Do(l.t, l.name, "KEYS", "*"+l.name+"*"), l.name)) == 0
	})
}

// A listener keeps its connection with the client's rights, and go-redis loses it
// every few seconds without PING. It makes a new one each time, but does not
// hear what is said in between.
func TestACLPing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := adminOf(t, s)
	for client, more := range kit.ClientRights {
		for _, with := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", client, with), func(t *testing.T) {
				t.Parallel()
				name := kit.Fresh()
				rules := kit.MutexKind.Rights.And(rights.Line()).Rules(name) // or a refused subscription keeps the connection busy
				if with {
					rules = append(rules, more.Rules("")...)
				}
				p := kit.Limited(t, s, client, name, rules)
				l := &life{t: t, k: kit.MutexKind, admin: admin, a: admin.Client(t), c: p.Client(t), name: name}
				giveBack := l.taken(l.rival())
				done := turn(l.lock())
				kit.WaitFor(t, "the waiter", func() bool { return l.listening() != "" })
				first, keeps := l.listening(), true
				for end := time.Now().Add(6 * time.Second); keeps && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					keeps = l.listening() == first
				}
				giveBack()
				kit.OK(t, <-done)
				if want := with || len(more.Commands) == 0; keeps != want {
					t.Errorf("it keeps its connection: %v, want %v", keeps, want)
				}
			})
		}
	}
}

// Who has the rights of the line waits there. Who lacks one of them waits as well, be it outside of the line.
func TestACLLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := adminOf(t, s)
	// These are not missed before somebody leaves the line.
	inLine := []string{"", "+zcard", "+zrange", "+zrem", "+pubsub|numsub"}
	for client, more := range kit.ClientRights {
		for _, lacking := range append(kit.Known(t, rights.Line().Rules("NAME")), "") {
			if client != "go-redis" && lacking != "" && lacking[0] != '&' {
				continue // the scripts' own rights are the same whoever sends them
			}
			if slices.Contains([]string{"+get", "+set", "~holdfast_yield:{NAME}"}, lacking) {
				continue // they are for those who do not stand in line
			}
			if slices.Contains(kit.MutexKind.Rules("NAME"), lacking) {
				continue // without it nothing works
			}
			t.Run(client+"/without "+lacking, func(t *testing.T) {
				t.Parallel()
				name := kit.Fresh()
				rules := lessOne(kit.MutexKind.Rights.And(more).And(rights.Line()).Rules(name), lacking, name)
				p := kit.Limited(t, s, client, name, rules)
				first := kit.Must(t)(admin.Client(t).NewMutex(name).Lock(background))
				locks := make([]holdfast.Locker, 4)
				for i := range locks {
					c := p.Client(t, holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) { t.Error(e.Err) }}))
					locks[i] = c.NewMutex(name)
				}
				var all sync.WaitGroup
				all.Go(func() { kit.TakeTurns(t, 3, 0, locks...) })
				kit.WaitFor(t, "all to wait", func() bool {
					if slices.Contains(inLine, lacking) {
						return admin.Standing(t, name) == len(locks)
					}
					channel := "redisson_lock__channel:" + kit.Tagged(name)
					return kit.Number(admin.Do(t, name, "PUBSUB", "NUMSUB", channel)[1]) >= len(locks)
				})
				kit.Unlock(t, first)
				all.Wait()
			})
		}
	}
}

// onCluster are the rights on a cluster, and which of them differ from those on a single server; the first is what a
// client asks a cluster who owns which slot with.
func onCluster(t *testing.T, r rights.Rights, client string) (all rights.Rights, differ []string) {
	t.Helper()
	s := rights.Server{Version: kit.Version(t), Cluster: true}
	all = rights.Topology(client, s).And(r.On(s))
	for _, command := range all.Commands {
		if !slices.Contains(r.Commands, command) {
			differ = append(differ, strings.ToLower(command))
		}
	}
	return all, differ
}

// The rights on a cluster suffice, and those that differ are needed.
func TestACLCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	admin := kit.GoRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, kit.OnCluster(s))
	admin.Sharded = redistest.AtLeast(t, 7, 0)
	r := &rightsTest{admin: admin, a: admin.Client(t), addrs: s.Addrs(), nodes: s.Nodes, grants: !redistest.AtLeast(t, 6, 2)}
	r.all = func(r rights.Rights, client string) rights.Rights {
		all, _ := onCluster(t, r, client)
		return all
	}
	r.suffice(t)
	for client := range kit.ClientRights {
		_, differ := onCluster(t, kit.MutexKind.Rights, client)
		for i, command := range differ {
			t.Run(client+"/without "+command, func(t *testing.T) {
				t.Parallel()
				if client != "rueidis" || i > 0 {
					r.lacking(t, kit.MutexKind, client, "+"+command)
					return
				}
				name := r.user(t, kit.MutexKind, client, "+"+command)
				c, err := rueidis.NewClient(rueidis.ClientOption{
					InitAddress: s.Addrs(), Username: name, Password: "pw", DisableCache: true,
				})
				if err == nil { // there is no client without it
					c.Close()
					t.Error("nothing fails without it")
				}
			})
		}
	}
}

// Every kind in the list of rights is proven: the locks by TestACL, the others by TestSemaphoreRights.
func TestRightsAreProven(t *testing.T) {
	t.Parallel()
	proven := []string{"permit semaphore", "unleased semaphore", "latch"}
	for _, k := range kit.Kinds {
		proven = append(proven, k.Name)
	}
	for _, k := range rights.Kinds() {
		if !slices.Contains(proven, k.Name) {
			t.Errorf("no test uses the rights of %s", k.Name)
		}
	}
}
