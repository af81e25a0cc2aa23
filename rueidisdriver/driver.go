package rueidisdriver

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// Driver is a [driver.Driver] on a rueidis client. Make one with [New].
type Driver struct {
	client  rueidis.Client
	slotted bool
	publish atomic.Pointer[string]
	calls   *driverkit.Group // unless it is a cluster
	// underWay has one for each call on a cluster that rueidis has not answered yet.
	underWay chan struct{}

	only    node         // unless it is a cluster
	inDoubt slotsInDoubt // of a cluster: calls use spare connections of the nodes
	cluster cluster
	closed  driverkit.Closed
	refused driverkit.Refused
}

var _ driver.Driver = (*Driver)(nil)

// Publish commands, as scripts are told them.
const (
	publish  = "PUBLISH"
	spublish = "SPUBLISH"
)

// maxUnderWay is how many calls a cluster's client has at once: fewer than its queue of a
// connection holds, since it does not heed a context where that is full. Those who have
// given up count until rueidis has.
const maxUnderWay = 512

// Option changes how a [Driver] works.
type Option func(*Driver)

// WithShardedPubSub decides whether releases are announced with SPUBLISH (true)
// or PUBLISH (false). Without it the server is asked, as Redisson does in its
// mode AUTO: SPUBLISH on a cluster that knows PUBSUB SHARDNUMSUB, else PUBLISH.
// Every program that shares locks must come to the same answer.
func WithShardedPubSub(sharded bool) Option {
	return func(d *Driver) { d.remember(sharded) }
}

// New returns a driver that uses client. It does no I/O, and never closes
// client. Whether it is a cluster is what [rueidis.Client.Mode] says. What [Driver.Check] refuses,
// holdfast.New does.
func New(client rueidis.Client, options ...Option) *Driver {
	d := &Driver{client: client, underWay: make(chan struct{}, maxUnderWay)}
	if d.Check() != nil {
		return d
	}
	d.slotted = client.Mode() == rueidis.ClientModeCluster
	d.only.driver, d.only.finding, d.only.asking = d, make(chan struct{}, 1), make(chan struct{}, 1)
	d.calls = driverkit.NewGroup(d.send, nil, d.only.renew)
	for _, option := range options {
		option(d)
	}
	return d
}

// Check returns an error if the client is nil.
func (d *Driver) Check() error {
	if d == nil || driverkit.Missing(d.client) {
		return errors.New("rueidisdriver: the rueidis client is nil")
	}
	return nil
}

// Slotted reports whether the client is a cluster client.
func (d *Driver) Slotted() bool { return d.slotted }

// PublishCommand returns "SPUBLISH" or "PUBLISH", see [WithShardedPubSub]. On a
// cluster it asks a node until one has answered, and remembers the answer. An
// error is a [*driver.Error], and the next call asks again.
func (d *Driver) PublishCommand(ctx context.Context) (string, error) {
	if known := d.publish.Load(); known != nil {
		return *known, nil
	}
	if !d.slotted {
		return d.remember(false), nil
	}
	ask := d.client.B().Arbitrary("PUBSUB", "SHARDNUMSUB").Build().Pin()
	err := d.client.Do(ctx, ask).Error()
	if err == nil {
		return d.remember(true), nil
	}
	// Like Redisson, take a refusal for an old server. A server that is busy or
	// wants a password has not refused.
	failure := classify(ctx, err)
	if _, reply := rueidis.IsRedisErr(err); reply && failure.MayHaveRun {
		return d.remember(false), nil
	}
	failure.MayHaveRun = false // no script has
	return "", driver.NotTheCallers(ctx, d.explain(failure))
}

func (d *Driver) remember(sharded bool) string {
	command := publish
	if sharded {
		command = spublish
	}
	d.publish.Store(&command)
	return command
}
