package contenders

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// A Pair acquires a lock, calls critical while it has it, and gives it back. It
// ends when ctx does. One goroutine calls it.
type Pair func(ctx context.Context, critical func()) error

// pairOf is a pair of these two.
func pairOf[H any](lock func(context.Context) (H, error), unlock func(context.Context, H) error) Pair {
	return func(ctx context.Context, critical func()) error {
		held, err := lock(ctx)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := unlock(ctx, held); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

// A Session is a contender that is connected to the server. What it cannot do is nil.
type Session struct {
	// Pair returns what one goroutine needs to use the lock of that name, and Fair the same for a fair lock.
	Pair, Fair func(name string) Pair
	// ReadWrite returns two pairs, for the two sides of one lock.
	ReadWrite func(name string) (read, write Pair)
	// Lock waits for a lock of somebody else's library, to keep it.
	Lock func(ctx context.Context, name string) (Grant, error)
	// Holds returns room for n holds, which are renewed. What is in it is the user's own.
	Holds func(n int) Holds
	// RunCell runs what is ordered elsewhere, and returns its figures. It returns some time after the limit at most.
	RunCell func(ctx context.Context, limit time.Duration, order, figures any) error
	Close   func() error
}

// A Grant is a lock that somebody has.
type Grant struct {
	Lost   <-chan struct{} // closed when the holder is told that it has lost it; nil: nobody is ever told
	Unlock func() error
}

// Holds are locks that are held, by their numbers. Different numbers may be used by
// different goroutines.
type Holds struct {
	Take func(ctx context.Context, i int, name string) error
	// Lost counts those that have ended before they were given back.
	Lost func() int
	// GiveBack gives back a hold, unless it has not been taken.
	GiveBack func(i int) error
}

// RedissonName is the full name of Redisson itself.
const RedissonName = "Redisson on " + InJVM

// The clients.
const (
	GoRedis    = "go-redis"
	RueidisLib = "rueidis"
	InJVM      = "JVM" // its own
)

// A Contender is a library on a client.
type Contender struct {
	Name   string
	Client string
	// Notes say how it is set up, for the reader of the table.
	Notes string
	// Bare marks what is no lock: it excludes nobody, so it runs only where
	// nobody meets anybody.
	Bare bool
	// Ours marks what may not overlap, or the run fails.
	Ours bool
	// Kinds: it has fair and read-write locks.
	Kinds bool
	Open  func(context.Context, Setup) (*Session, error)
}

// Setup is what all sessions have in common.
type Setup struct {
	Addrs   []string      `json:"addrs"`  // of one server, of sentinels, or of the nodes of a cluster
	Master  string        `json:"master"` // of sentinels
	Cluster bool          `json:"cluster"`
	Plain   bool          `json:"plain"`    // messages in a cluster are not sharded
	Pool    int           `json:"pool"`     // connections of each go-redis client
	Lease   time.Duration `json:"lease_ns"` // of every lock
	// Small: there are many clients, so their buffers are as small as can be.
	Small bool `json:"small"`
	// Dialer makes the connections; nil: the client does.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

// All are all that take part, in the order of their turns, but for Redisson. One
// that is added here takes part in every workload that suits it.
func All() []Contender {
	return append(Ours(), redislockOnGoRedis(), redsyncOnGoRedis(), rueidislockOnRueidis(), bareOnGoRedis(), bareOnRueidis())
}

// Ours are those of holdfast's.
func Ours() []Contender { return []Contender{holdfastOnGoRedis(), holdfastOnRueidis()} }

// Renewing are the contenders that renew what they hold, with no more than a call
// that acquires.
func Renewing() []Contender { return append(Ours(), rueidislockOnRueidis()) }

// Named returns the one of this full name.
func Named(full string) (Contender, error) {
	for _, c := range All() {
		if c.Full() == full {
			return c, nil
		}
	}
	return Contender{}, fmt.Errorf("there is no contender %q", full)
}

// Full returns the name with the client.
func (c Contender) Full() string { return c.Name + " on " + c.Client }

// Short is the name with the client as it stands in tables.
func (c Contender) Short() string { return c.Name + "/" + c.Client }

// Peer reports whether it is a lock of somebody else's.
func (c Contender) Peer() bool { return !c.Ours && !c.Bare }

// CloseWithin closes a session of the contender. One that does not end in time is left behind.
func (c Contender) CloseWithin(limit time.Duration, s *Session) error {
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("%s: close has not returned for %v", c.Full(), limit)
	}
}

// SmallBuffer has room for what a lock sends, apart from the scripts' texts.
const SmallBuffer = 4096

// NewGoRedis returns a client with the settings that all contenders on go-redis
// share: its defaults, except for the size of the pool.
func NewGoRedis(s Setup) redis.UniversalClient {
	options := &redis.UniversalOptions{Addrs: s.Addrs, MasterName: s.Master, IsClusterMode: s.Cluster, PoolSize: s.Pool, Dialer: s.Dialer}
	if s.Small {
		options.ReadBufferSize, options.WriteBufferSize = SmallBuffer, SmallBuffer
	}
	return redis.NewUniversalClient(options)
}

// RueidisOptions are the settings that all contenders on rueidis share: its
// defaults. It pipelines all goroutines on a few connections and has no pool for
// such commands.
func RueidisOptions(s Setup) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: s.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: s.Master}}
	if s.Dialer != nil {
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.Dialer(ctx, "tcp", addr)
		}
	}
	if s.Small {
		o.ReadBufferEachConn, o.WriteBufferEachConn = SmallBuffer, SmallBuffer
		o.RingScaleEachConn = 6
		o.PipelineMultiplex = -1 // one connection for calls
	}
	return o
}
