package goredisdriver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// Driver is a [driver.Driver] on a go-redis client. Make one with [New].
type Driver struct {
	rdb     redis.UniversalClient
	cluster clusterClient // nil unless rdb is, or embeds, a ClusterClient
	publish atomic.Pointer[string]

	single     *sender     // unless it is a cluster
	nodesKnown atomic.Bool // the cluster client has found its nodes once
	mu         sync.Mutex
	search     *search                   // under way; nil if there is none; guarded by mu
	senders    map[*redis.Client]*sender // to the nodes of a cluster; guarded by mu
	closed     driverkit.Closed
	refused    driverkit.Refused
}

var _ driver.Driver = (*Driver)(nil)

// clusterClient is what only a *redis.ClusterClient and its wrappers have.
type clusterClient interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// Publish commands, as scripts are told them.
const (
	publish  = "PUBLISH"
	spublish = "SPUBLISH"
)

// ErrRing is why a driver that was made from a *redis.Ring is refused. When a shard stops answering, each ring sends its keys to other
// shards on its own judgement, so two programs would hold one lock on two
// servers.
var ErrRing = errors.New("goredisdriver: a redis.Ring cannot carry locks: it moves keys to another shard when one fails")

// Option changes how a [Driver] works.
type Option func(*Driver)

// WithShardedPubSub decides whether releases are announced with SPUBLISH (true)
// or PUBLISH (false). Without it the server is asked, as Redisson does in its
// mode AUTO: SPUBLISH on a cluster that knows PUBSUB SHARDNUMSUB, else PUBLISH.
// What a client of redis.NewFailoverClusterClient reaches is no cluster.
// Every program that shares locks must come to the same answer.
func WithShardedPubSub(sharded bool) Option {
	return func(d *Driver) { d.remember(sharded) }
}

// New returns a driver that uses rdb. It does no I/O, and never closes rdb. What [Driver.Check] refuses,
// holdfast.New does.
//
// A wrapper of a *redis.ClusterClient is recognised as a cluster if it has the
// methods MasterForKey and ReloadState, as it does when it embeds the client.
// Without them it would be taken for a single server.
//
// A client of redis.NewFailoverClient asks a Sentinel that has fallen silent for 13 s with its default settings, and a
// hold with a lease below 20 s may be lost meanwhile. Set MaxRetries to -1, ReadTimeout to a second and DialTimeout to two, in
// redis.FailoverOptions.
func New(rdb redis.UniversalClient, options ...Option) *Driver {
	d := &Driver{rdb: rdb}
	if d.Check() != nil {
		return d
	}
	d.cluster, _ = rdb.(clusterClient)
	d.single, d.senders = newSender(d, rdb), map[*redis.Client]*sender{}
	for _, option := range options {
		option(d)
	}
	return d
}

// Check returns an error if the client is nil, and [ErrRing] if it is a *redis.Ring.
func (d *Driver) Check() error {
	if d == nil || driverkit.Missing(d.rdb) {
		return errors.New("goredisdriver: the go-redis client is nil")
	}
	if _, ring := d.rdb.(*redis.Ring); ring {
		return ErrRing
	}
	return nil
}

// Slotted reports whether the client is a cluster client.
func (d *Driver) Slotted() bool { return d.cluster != nil }

// PublishCommand returns "SPUBLISH" or "PUBLISH", see [WithShardedPubSub]. On a
// cluster it asks a node until one has answered, and remembers the answer. An
// error is a [*driver.Error], and the next call asks again.
func (d *Driver) PublishCommand(ctx context.Context) (string, error) {
	if known := d.publish.Load(); known != nil {
		return *known, nil
	}
	if d.cluster == nil {
		return d.remember(false), nil
	}
	switch one, err := d.oneServer(ctx); {
	case err != nil:
		return "", driver.NotTheCallers(ctx, d.explain(classify(err, false)))
	case one:
		return d.remember(false), nil
	}
	err := d.rdb.Do(ctx, "pubsub", "shardnumsub").Err()
	if err == nil {
		return d.remember(true), nil
	}
	// Like Redisson, take a refusal for an old server. A server that is busy or
	// wants a password has not refused.
	if failure := classify(err, true); isReply(err) && failure.MayHaveRun {
		return d.remember(false), nil
	}
	return "", driver.NotTheCallers(ctx, d.explain(classify(err, false)))
}

// oneServer reports whether the cluster client is told that one server has all slots, as one of
// redis.NewFailoverClusterClient is: that is no cluster, and other programs reach it as a single server.
func (d *Driver) oneServer(ctx context.Context) (bool, error) {
	client, ok := d.rdb.(interface{ Options() *redis.ClusterOptions })
	if !ok || client.Options().ClusterSlots == nil {
		return false, nil
	}
	slots, err := client.Options().ClusterSlots(ctx)
	return len(slots) == 1, err
}

func (d *Driver) remember(sharded bool) string {
	command := publish
	if sharded {
		command = spublish
	}
	d.publish.Store(&command)
	return command
}
