package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// A pair acquires a lock, calls critical while it has it, and gives it back. It
// ends when ctx does. One goroutine calls it.
type pair func(ctx context.Context, critical func()) error

// A session is a contender that is connected to the server: a pairer, or a cell runner.
type session interface {
	close() error
}

// A pairer is a session whose locks the goroutines of this process use.
type pairer interface {
	session
	// pair returns what one goroutine needs to use the lock of that name.
	pair(name string) pair
}

// A kindPairer has other kinds of locks as well.
type kindPairer interface {
	pairer
	fair(name string) pair
	// readWrite returns two pairs, for the two sides of one lock.
	readWrite(name string) (read, write pair)
}

// A cellRunner is a session that runs whole cells elsewhere.
type cellRunner interface {
	session
	// runCell runs what is ordered, and returns its figures. It returns some time after the limit at most.
	runCell(ctx context.Context, limit time.Duration, order, figures any) error
}

// redissonName is the full name of Redisson itself.
const redissonName = "Redisson on " + inJVM

// The clients.
const (
	goRedis    = "go-redis"
	rueidisLib = "rueidis"
	inJVM      = "JVM" // its own
)

// A contender is a library on a client.
type contender struct {
	name   string
	client string
	// notes say how it is set up, for the reader of the table.
	notes string
	// bare marks what is no lock: it excludes nobody, so it runs only where
	// nobody meets anybody.
	bare bool
	// ours marks what may not overlap, or the run fails.
	ours bool
	// kinds: it has fair and read-write locks.
	kinds bool
	open  func(context.Context, setup) (session, error)
}

// setup is what all sessions have in common.
type setup struct {
	Addrs   []string      `json:"addrs"` // of one server, or of the nodes of a cluster
	Cluster bool          `json:"cluster"`
	Plain   bool          `json:"plain"`    // messages in a cluster are not sharded
	Pool    int           `json:"pool"`     // connections of each go-redis client
	Lease   time.Duration `json:"lease_ns"` // of every lock
	// Small: there are many clients, so their buffers are as small as can be.
	Small bool `json:"small"`
}

// contenders are all that take part, in the order of their turns, but for Redisson. One
// that is added here takes part in every workload that suits it.
func contenders() []contender {
	return append(ours(), redislockOnGoRedis(), redsyncOnGoRedis(), rueidislockOnRueidis(), bareOnGoRedis(), bareOnRueidis())
}

// ours are those of holdfast's.
func ours() []contender { return []contender{holdfastOnGoRedis(), holdfastOnRueidis()} }

// renewing are the contenders that renew what they hold, with no more than a call
// that acquires.
func renewing() []contender { return append(ours(), rueidislockOnRueidis()) }

// contenderOf returns the one of this full name.
func contenderOf(full string) (contender, error) {
	for _, c := range contenders() {
		if c.full() == full {
			return c, nil
		}
	}
	return contender{}, fmt.Errorf("there is no contender %q", full)
}

// full returns the name with the client.
func (c contender) full() string { return c.name + " on " + c.client }

// short is the name with the client as it stands in tables.
func (c contender) short() string { return c.name + "/" + c.client }

// peer reports whether it is a lock of somebody else's.
func (c contender) peer() bool { return !c.ours && !c.bare }

// closeWithin closes a session of the contender. One that does not end in time is left behind.
func closeWithin(limit time.Duration, c contender, s session) error {
	done := make(chan error, 1)
	go func() { done <- s.close() }()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		return fmt.Errorf("%s: close has not returned for %v", c.full(), limit)
	}
}

// smallBuffer has room for what a lock sends, apart from the scripts' texts.
const smallBuffer = 4096

// newGoRedis returns a client with the settings that all contenders on go-redis
// share: its defaults, except for the size of the pool.
func newGoRedis(s setup) redis.UniversalClient {
	options := &redis.UniversalOptions{Addrs: s.Addrs, IsClusterMode: s.Cluster, PoolSize: s.Pool}
	if s.Small {
		options.ReadBufferSize, options.WriteBufferSize = smallBuffer, smallBuffer
	}
	return redis.NewUniversalClient(options)
}

// rueidisOptions are the settings that all contenders on rueidis share: its
// defaults. It pipelines all goroutines on a few connections and has no pool for
// such commands.
func rueidisOptions(s setup) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: s.Addrs}
	if s.Small {
		o.ReadBufferEachConn, o.WriteBufferEachConn = smallBuffer, smallBuffer
		o.RingScaleEachConn = 6
		o.PipelineMultiplex = -1 // one connection for calls
	}
	return o
}
