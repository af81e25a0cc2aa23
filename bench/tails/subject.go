package tails

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// target is where the locks are, and what of them is holdfast's alone.
type target struct {
	contenders.Setup

	Margin time.Duration `json:"margin"`
}

// at is a target. Its pool is large: peers that poll take a connection each.
func at(lease time.Duration, addrs ...string) target {
	return target{Setup: contenders.Setup{Addrs: addrs, Lease: lease, Pool: 200}}
}

// role is what somebody wants with a lock: in some kinds it matters.
type role string

const (
	holds role = "holds" // has it, and dies or gives it back
	dies  role = "dies"  // waits, and is killed
	waits role = "waits" // waits, and lives
)

// session is a client of a library.
type session interface {
	// lock waits until it has the lock.
	lock(ctx context.Context, name string, r role) (contenders.Grant, error)
	close()
}

// subject is a kind of lock, or another library.
type subject struct {
	name string
	open func(t target) (session, error)
	// key is where the lock's time to live is: the key's, or the greatest score of a set.
	key    func(name string) string
	scores bool
	renews bool // its leases are renewed while it is held
	tells  bool // its holders are told of a loss
	// line is the key that is there when somebody waits; nil: there is none.
	line  func(name string) string
	peer  bool
	quick bool // it takes part in make test
}

func tagged(prefix, name string) string { return prefix + ":{" + name + "}" }

func plainKey(name string) string { return name }

// one is what somebody does with a lock of holdfast's.
type one func(ctx context.Context, c *holdfast.Client, name string, r role) (*holdfast.Hold, error)

type holdfastSession struct {
	client *holdfast.Client
	one    one
	stop   func()
}

func (s *holdfastSession) lock(ctx context.Context, name string, r role) (contenders.Grant, error) {
	h, err := s.one(ctx, s.client, name, r)
	if err != nil {
		return contenders.Grant{}, err
	}
	return contenders.Grant{Lost: h.Context().Done(), Unlock: h.Unlock}, nil
}

func (s *holdfastSession) close() {
	_ = s.client.Close() // after a fault it may not reach anybody
	s.stop()
}

func onGoRedis(one one) func(target) (session, error) {
	return func(t target) (session, error) {
		rdb := contenders.NewGoRedis(t.Setup)
		c, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithLease(t.Lease), holdfast.WithMargin(t.Margin))
		return &holdfastSession{c, one, func() { _ = rdb.Close() }}, err
	}
}

func onRueidis(one one) func(target) (session, error) {
	return func(t target) (session, error) {
		rc, err := rueidis.NewClient(contenders.RueidisOptions(t.Setup))
		if err != nil {
			return nil, err
		}
		c, err := holdfast.New(rueidisdriver.New(rc), holdfast.WithLease(t.Lease), holdfast.WithMargin(t.Margin))
		return &holdfastSession{c, one, rc.Close}, err
	}
}

func mutex(options ...holdfast.MutexOption) one {
	return func(ctx context.Context, c *holdfast.Client, name string, _ role) (*holdfast.Hold, error) {
		return c.NewMutex(name, options...).Lock(ctx)
	}
}

// sides is a read-write lock, of which each role wants the side that is named.
func sides(writes map[role]bool, options ...holdfast.RWOption) one {
	return func(ctx context.Context, c *holdfast.Client, name string, r role) (*holdfast.Hold, error) {
		if l := c.NewRWMutex(name, options...); writes[r] {
			return l.Lock(ctx)
		} else {
			return l.RLock(ctx)
		}
	}
}

// permits is a semaphore of two, of which each role wants so many.
func permits(want map[role]int) one {
	return func(ctx context.Context, c *holdfast.Client, name string, r role) (*holdfast.Hold, error) {
		return c.NewPermitSemaphore(name, holdfast.Permits(2)).Acquire(ctx, want[r])
	}
}

func fair(ctx context.Context, c *holdfast.Client, name string, _ role) (*holdfast.Hold, error) {
	return c.NewFairMutex(name).Lock(ctx)
}

func queueOf(name string) string { return tagged("redisson_lock_queue", name) }

func waitlistOf(name string) string { return tagged("holdfast_waitlist", name) }

// subjects are all, in the order of the tables.
var subjects = []subject{
	{name: "mutex", quick: true, open: onGoRedis(mutex()), key: plainKey, renews: true, tells: true},
	{name: "mutex, rueidis", open: onRueidis(mutex()), key: plainKey, renews: true, tells: true},
	{name: "fenced", open: onGoRedis(mutex(holdfast.Fenced())), key: plainKey, renews: true, tells: true},
	{name: "fair", open: onGoRedis(fair), key: plainKey, renews: true, tells: true, line: queueOf},
	{name: "fair, rueidis", open: onRueidis(fair), key: plainKey, renews: true, tells: true, line: queueOf},
	{name: "reader after writer", open: onGoRedis(sides(map[role]bool{holds: true})), key: plainKey, renews: true, tells: true},
	{name: "writer after reader", open: onGoRedis(sides(map[role]bool{waits: true})), key: plainKey, renews: true, tells: true},
	{
		name: "writers first: a reader waits", key: plainKey, renews: true, tells: true, line: waitlistOf,
		open: onGoRedis(sides(map[role]bool{holds: true, dies: true}, holdfast.WritersFirst())),
	},
	{
		name: "writers first: a writer waits", key: plainKey, renews: true, tells: true, line: waitlistOf,
		open: onGoRedis(sides(map[role]bool{dies: true, waits: true}, holdfast.WritersFirst())),
	},
	{
		name: "permits", key: func(name string) string { return "{" + name + "}:timeout" }, scores: true, renews: true, tells: true, line: waitlistOf,
		open: onGoRedis(permits(map[role]int{holds: 2, dies: 2, waits: 1})),
	},
	{name: "redislock", open: peer("redislock on go-redis"), key: plainKey, peer: true},
	{name: "redsync", open: peer("redsync on go-redis"), key: plainKey, peer: true},
	{
		name: "rueidislock", open: peer("rueidislock on rueidis"), renews: true, tells: true, peer: true,
		key: func(name string) string { return "rueidislock:0:" + name },
	},
}

func subjectNamed(name string) (subject, error) {
	for _, s := range subjects {
		if s.name == name {
			return s, nil
		}
	}
	return subject{}, fmt.Errorf("there is no subject %q", name)
}

// afterError is how long a caller of a peer pauses whose call has failed, since that peer leaves
// it to its caller to go on.
const afterError = 50 * time.Millisecond

// peer is another library.
func peer(name string) func(target) (session, error) {
	return func(t target) (session, error) {
		c, err := contenders.Named(name)
		if err != nil {
			return nil, err
		}
		s, err := c.Open(background, t.Setup)
		return peerSession{s}, err
	}
}

type peerSession struct{ *contenders.Session }

// lock calls until it has the lock, or ctx ends.
func (s peerSession) lock(ctx context.Context, name string, _ role) (contenders.Grant, error) {
	for {
		g, err := s.Lock(ctx, name)
		if err == nil || ctx.Err() != nil {
			return g, err
		}
		call.Sleep(ctx, afterError)
	}
}

func (s peerSession) close() { _ = s.Close() }
