package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

var background = context.Background()

// goSide is the Go side's process: it obeys the commands that java's Peer does.
// Its threads are owners.
type goSide struct {
	clients  []*holdfast.Client // several for a RedLock, otherwise one
	client   *holdfast.Client
	threads  map[string]*goThread
	settings map[string]string

	mu sync.Mutex // guards standard output
}

// goThread is an owner and the goroutine that obeys for it, one command after
// another, until the process ends.
type goThread struct {
	side  *goSide
	ctx   context.Context // with the owner
	owner holdfast.Owner
	work  chan []string
	holds map[string][]*holdfast.Hold // by kind and name, and by permit
	alone *goSide                     // with a client of the thread's own, if it needs one
}

// obey is the main function of a Go peer. It ends when its input does, and then
// leaves its locks as they are.
func obey(arguments []string) error {
	settings := map[string]string{}
	for _, a := range arguments {
		name, value, _ := strings.Cut(a, "=")
		settings[name] = value
	}
	s := &goSide{threads: map[string]*goThread{}, settings: settings}
	var err error
	if s.clients, err = clients(settings); err != nil {
		return err
	}
	s.client = s.clients[0]
	fmt.Println("0 ok", s.client.ID())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		s.thread(words[1]).work <- words
	}
	return nil
}

// clients opens one for each server if they are independent, and one otherwise.
func clients(settings map[string]string) (opened []*holdfast.Client, err error) {
	drivers, err := drivers(settings)
	if err != nil {
		return nil, err
	}
	watchdog, err := milliseconds(settings["watchdog"])
	if err != nil {
		return nil, err
	}
	for _, d := range drivers {
		c, err := testclient.New(d, holdfast.WithLease(watchdog))
		if err != nil {
			return nil, err
		}
		// By its first answer it knows the server's time, as it mostly does.
		if _, err := c.NewMutex("clock").Inspect(context.Background()); err != nil {
			return nil, err
		}
		opened = append(opened, c)
	}
	return opened, nil
}

// drivers returns one for each server if they are independent, and one otherwise.
func drivers(settings map[string]string) ([]driver.Driver, error) {
	addresses := strings.Split(settings["addresses"], ",")
	groups := [][]string{addresses}
	if Mode(settings["mode"]) == Independent {
		groups = nil
		for _, a := range addresses {
			groups = append(groups, []string{a})
		}
	}
	opened := make([]driver.Driver, len(groups))
	for i, group := range groups {
		open := goRedis
		if settings["rueidis"] == "true" {
			open = rueidisOpen
		}
		var err error
		if opened[i], err = open(Mode(settings["mode"]), group, settings["master"]); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

func goRedis(mode Mode, addresses []string, master string) (driver.Driver, error) {
	var options []goredisdriver.Option
	if mode == Classic {
		options = append(options, goredisdriver.WithShardedPubSub(false))
	}
	return goredisdriver.New(redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addresses, MasterName: master, IsClusterMode: mode == Cluster || mode == Classic,
	}), options...), nil
}

func rueidisOpen(mode Mode, addresses []string, master string) (driver.Driver, error) {
	var options []rueidisdriver.Option
	if mode == Classic {
		options = append(options, rueidisdriver.WithShardedPubSub(false))
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addresses, Sentinel: rueidis.SentinelOption{MasterSet: master},
		ForceSingleClient: mode == Single || mode == Independent,
	})
	if err != nil {
		return nil, err
	}
	return rueidisdriver.New(client, options...), nil
}

func (s *goSide) thread(name string) *goThread {
	t := s.threads[name]
	if t == nil {
		owner := s.client.NewOwner()
		t = &goThread{
			side: s, owner: owner, ctx: holdfast.WithOwner(background, owner),
			work: make(chan []string, 16), holds: map[string][]*holdfast.Hold{},
		}
		s.threads[name] = t
		go t.obey()
	}
	return t
}

func (t *goThread) obey() {
	for words := range t.work {
		value, err := t.does(words)
		t.side.mu.Lock()
		if err != nil {
			fmt.Println(words[0], "error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println(words[0], "ok", value)
		}
		t.side.mu.Unlock()
	}
}

// does what words from the third on say: a verb, a kind, a name, and more.
func (t *goThread) does(words []string) (any, error) {
	verb, kind, name, rest := words[2], words[3], words[4], words[5:]
	switch verb {
	case "owner":
		return t.owner, nil
	case "contend":
		return contend(background, t.side, kind, name, rest[0]) // each hold has an owner of its own
	case "turns":
		return t.turns(kind, name, rest)
	case "rounds":
		return rounds(t.ctx, t.side.client.NewLatch(name), rest)
	}
	switch kind {
	case "permits":
		return t.permits(verb, t.side.client.NewPermitSemaphore(name), rest)
	case "semaphore":
		return t.semaphore(verb, t.side.client.NewUnleasedSemaphore(name), rest)
	case "latch":
		return t.latch(verb, t.side.client.NewLatch(name), rest)
	}
	l, err := t.side.lock(kind, name)
	if err != nil {
		return nil, err
	}
	switch verb {
	case "lock", "trylock", "token", "unlock", "lost":
		return t.locking(verb, kind, name, l, rest)
	}
	whole, ok := l.(holdfast.Inspector)
	if !ok {
		return nil, fmt.Errorf("%s: %w", kind, errors.ErrUnsupported)
	}
	return t.asking(verb, whole, rest)
}

// lock makes the counterpart of Redisson's lock of that kind.
func (s *goSide) lock(kind, name string) (holdfast.Locker, error) {
	switch kind {
	case "mutex":
		return s.client.NewMutex(name), nil
	case "nonreentrant":
		return s.client.NewMutex(name, holdfast.NonReentrant()), nil
	case "spin":
		return s.client.NewMutex(name, holdfast.Polling(time.Millisecond, 128*time.Millisecond)), nil
	case "fenced":
		return s.client.NewMutex(name, holdfast.Fenced()), nil
	case "fair":
		return s.client.NewFairMutex(name), nil
	case "nonreentrantfair":
		return s.client.NewFairMutex(name, holdfast.NonReentrant()), nil
	case "read":
		return s.client.NewRWMutex(name).RLocker(), nil
	case "write":
		return s.client.NewRWMutex(name), nil
	case "writersfirst":
		return s.client.NewRWMutex(name, holdfast.WritersFirst()), nil
	case "multi":
		var all []holdfast.Locker
		for one := range strings.SplitSeq(name, "+") {
			all = append(all, s.client.NewMutex(one))
		}
		return holdfast.NewMultiLock(all...), nil
	case "red":
		var all []holdfast.Locker
		for _, c := range s.clients {
			all = append(all, c.NewMutex(name))
		}
		return holdfast.NewRedLock(all...), nil
	default:
		return nil, fmt.Errorf("no such kind: %s", kind)
	}
}

// under returns the context to lock under: that of the thread's owner. An owner
// belongs to one client; a RedLock has several, and nests under its hold's context.
func (t *goThread) under(kind string, held []*holdfast.Hold) context.Context {
	switch {
	case kind != "red":
		return t.ctx
	case len(held) == 0:
		return background
	}
	return held[len(held)-1].Context()
}

func (t *goThread) locking(verb, kind, name string, l holdfast.Locker, rest []string) (any, error) {
	key := kind + " " + name
	held := t.holds[key]
	ctx := t.under(kind, held)
	switch verb {
	case "lock", "token":
		h, err := l.Lock(ctx, leased(rest, 0)...)
		if err != nil {
			return nil, err
		}
		t.holds[key] = append(held, h)
		if verb == "token" {
			return h.Token(), nil
		}
		return "locked", nil
	case "trylock":
		h, err := try(ctx, l, rest)
		if errors.Is(err, holdfast.ErrLocked) {
			return false, nil
		}
		if err == nil {
			t.holds[key] = append(held, h)
		}
		return err == nil, err
	}
	if len(held) == 0 {
		return nil, errors.New("this thread has not locked it")
	}
	h := held[len(held)-1]
	if verb == "lost" {
		return errors.Is(context.Cause(h.Context()), holdfast.ErrLost), nil
	}
	t.holds[key] = held[:len(held)-1]
	return "unlocked", h.Unlock()
}

// try waits as long as the first number says, for a hold of the second's lease.
func try(ctx context.Context, l holdfast.Locker, rest []string) (*holdfast.Hold, error) {
	if wait := number(rest, 0); wait > 0 {
		return l.Lock(ctx, append(leased(rest, 1), holdfast.Wait(wait))...)
	}
	if d := number(rest, 1); d > 0 {
		return l.TryLock(ctx, holdfast.FixedLease(d))
	}
	return l.TryLock(ctx)
}

// leased says how long a hold lives, if there is a number for it.
func leased(rest []string, i int) []holdfast.LockOption {
	if d := number(rest, i); d > 0 {
		return []holdfast.LockOption{holdfast.FixedLease(d)}
	}
	return nil
}

// look inspects a lock. Of a read-write lock, it is the side that was meant, as in
// Java.
func look(ctx context.Context, l holdfast.Inspector) (found holdfast.State, mode string, err error) {
	found, err = l.Inspect(ctx)
	for _, h := range found.Holders {
		mode = max(mode, h.Mode) // one who writes may read, too
	}
	if _, ok := l.(*holdfast.RWMutex); ok {
		found.Holders = slices.DeleteFunc(found.Holders, func(h holdfast.Holder) bool { return h.Mode != holdfast.ModeWrite })
		if len(found.Holders) == 0 {
			found.TTL = 0
		}
	}
	return found, mode, err
}

// javaTTL is a time to live as Java says it.
func javaTTL(ttl time.Duration) int64 {
	if ttl == holdfast.NoExpiry {
		return -1
	}
	return ttl.Milliseconds()
}

// number reads milliseconds; none are 0.
func number(rest []string, i int) time.Duration {
	if i >= len(rest) {
		return 0
	}
	d, err := milliseconds(rest[i])
	if err != nil {
		panic(err) // the tests do not write such things
	}
	return d
}

func milliseconds(s string) (time.Duration, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	return time.Duration(ms) * time.Millisecond, err
}

func (t *goThread) asking(verb string, l holdfast.Inspector, rest []string) (any, error) {
	found, mode, err := holdfast.State{}, "", error(nil)
	if verb != "force" && verb != "holders" {
		found, mode, err = look(t.ctx, l)
	}
	switch verb {
	case "count":
		return found.Count(t.owner), err
	case "field": // how often somebody holds it
		owner, err2 := holdfast.ParseOwner(strings.TrimSuffix(rest[0], ":write"))
		return found.Count(owner), errors.Join(err, err2)
	case "held":
		return found.HeldBy(t.owner), err
	case "locked":
		return found.Locked(), err
	case "ttl":
		return javaTTL(found.TTL), err
	case "force":
		return l.ForceUnlock(t.ctx)
	case "holders": // who it says holds it, to whom it is refused
		_, err := l.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) {
			return nil, fmt.Errorf("not refused: %w", err)
		}
		return locked.Holder.String(), nil
	case "inspect": // mode, owners with their counts, and who stands in line
		text := "mode=" + mode
		for _, h := range found.Holders {
			text += fmt.Sprintf(" %s=%d", h.Owner, h.Count)
		}
		for _, w := range found.Waiters {
			text += " waits=" + w.String()
		}
		return text, err
	default:
		return nil, fmt.Errorf("no such verb: %s", verb)
	}
}

func count(rest []string, i int) int { return int(number(rest, i).Milliseconds()) }

func (t *goThread) semaphore(verb string, s *holdfast.UnleasedSemaphore, rest []string) (any, error) {
	n := count(rest, 0)
	switch verb {
	case "set":
		return s.TrySetPermits(t.ctx, n)
	case "acquire":
		return "acquired", s.Acquire(t.ctx, n)
	case "tryacquire":
		var err error
		if wait := number(rest, 1); wait > 0 {
			err = s.Acquire(t.ctx, n, holdfast.Wait(wait))
		} else {
			err = s.TryAcquire(t.ctx, n)
		}
		if errors.Is(err, holdfast.ErrLocked) {
			return false, nil
		}
		return err == nil, err
	case "release":
		return "released", s.Release(n)
	case "add":
		return "added", s.AddPermits(t.ctx, n)
	case "drain":
		return s.Drain(t.ctx)
	case "available":
		found, err := s.Inspect(t.ctx)
		return found.Available, err
	default:
		return nil, fmt.Errorf("no such verb: %s", verb)
	}
}

func (t *goThread) permits(verb string, s *holdfast.PermitSemaphore, rest []string) (any, error) {
	switch verb {
	case "set":
		return s.TrySetPermits(t.ctx, count(rest, 0))
	case "acquire", "tryacquire": // the lease; the wait and the lease
		if verb == "acquire" {
			rest = append([]string{"60000"}, rest...)
		}
		h, err := try(t.ctx, s, rest)
		if errors.Is(err, holdfast.ErrLocked) {
			return "null", nil
		}
		if err != nil {
			return nil, err
		}
		id := h.PermitIDs()[0].String()
		t.holds[id] = []*holdfast.Hold{h}
		return id, nil
	case "release":
		if held := t.holds[rest[0]]; held != nil {
			return "released", held[0].Unlock()
		}
		id, err := holdfast.ParseOwner(rest[0])
		return "released", errors.Join(err, s.ReleasePermits(t.ctx, id))
	case "tryrelease":
		id, err := holdfast.ParseOwner(rest[0])
		err = errors.Join(err, s.ReleasePermits(t.ctx, id))
		if errors.Is(err, holdfast.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	case "lease":
		found, err := s.Inspect(t.ctx)
		i := slices.IndexFunc(found.Holders, func(h holdfast.Holder) bool { return h.Owner.String() == rest[0] })
		if err != nil || i < 0 {
			return nil, errors.Join(err, holdfast.ErrNotHeld)
		}
		return javaTTL(found.Holders[i].TTL), nil
	case "update":
		id, err := holdfast.ParseOwner(rest[0])
		err = errors.Join(err, s.ExtendPermit(t.ctx, id, number(rest, 1)))
		return err == nil, err
	case "available", "total", "acquired":
		found, err := s.Inspect(t.ctx)
		return map[string]int{"available": found.Available, "total": found.Permits, "acquired": len(found.Holders)}[verb], err
	default:
		return nil, fmt.Errorf("no such verb: %s", verb)
	}
}

func (t *goThread) latch(verb string, l *holdfast.Latch, rest []string) (any, error) {
	switch verb {
	case "set":
		return l.TrySetCount(t.ctx, count(rest, 0))
	case "down":
		return "down", l.CountDown()
	case "count":
		found, err := l.Inspect(t.ctx)
		return found.Remaining, err
	case "await":
		err := l.Await(t.ctx, holdfast.Wait(number(rest, 0)))
		if errors.Is(err, holdfast.ErrNotZero) {
			return false, nil
		}
		return err == nil, err
	case "delete":
		return l.Delete(t.ctx)
	default:
		return nil, fmt.Errorf("no such verb: %s", verb)
	}
}
