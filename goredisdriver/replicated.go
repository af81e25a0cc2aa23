package goredisdriver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// redirects bounds how often a call follows MOVED and ASK, as go-redis does by
// default.
const redirects = 3

// node is a server on which a pipeline is one connection.
type node interface{ Pipeline() redis.Pipeliner }

// EvalReplicated runs the script once, as [Driver.Eval] does, and has replicas
// acknowledge it; the package comment says how.
func (d *Driver) EvalReplicated(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	if err := d.usable(); err != nil {
		return nil, 0, err
	}
	if d.cluster == nil {
		return replicated{d.rdb, false, replicas, timeout}.eval(ctx, call)
	}
	reply, acknowledged, err := d.onCluster(ctx, call, replicas, timeout)
	d.suspect(ctx, err)
	return reply, acknowledged, err
}

// onCluster follows the call's slot.
func (d *Driver) onCluster(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	key := ""
	if len(call.Keys) > 0 {
		key = call.Keys[0]
	}
	master, err := d.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, 0, classify(err, false)
	}
	try := replicated{master, false, replicas, timeout}
	for redirected := 0; ; redirected++ {
		reply, acknowledged, err := try.eval(ctx, call)
		addr, moved := redis.IsMovedError(err)
		if !moved {
			addr, try.asking = redis.IsAskError(err)
		}
		if !moved && !try.asking || redirected == redirects {
			return reply, acknowledged, err
		}
		try.asking = !moved
		named := d.primaryAt(ctx, addr)
		if named == nil {
			// go-redis can reach it, but does not say on which connection.
			reply, err := d.Eval(ctx, call)
			return reply, 0, err
		}
		try.node = named
	}
}

// primaryAt returns the client of a primary, or nil if there is none at that
// address. It looks the nodes up anew, so later calls go the right way at once.
func (d *Driver) primaryAt(ctx context.Context, addr string) *redis.Client {
	cluster, ok := d.cluster.(interface {
		ForEachMaster(ctx context.Context, visit func(context.Context, *redis.Client) error) error
	})
	if !ok {
		return nil
	}
	var found atomic.Pointer[redis.Client]
	// Fails if the nodes cannot be looked up; then nothing is found.
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		if client.Options().Addr == addr {
			found.Store(client)
		}
		return nil
	})
	return found.Load()
}

// replicated is a way to have a script acknowledged.
type replicated struct {
	node     node
	asking   bool // the node has yet to get the slot
	replicas int
	timeout  time.Duration
}

func (r replicated) eval(ctx context.Context, call driver.Call) (any, int, error) {
	reply, acknowledged, err := r.send(ctx, "evalsha", call.Script.SHA(), call)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, acknowledged, err = r.send(ctx, "eval", call.Script.Source(), call)
	}
	return reply, acknowledged, err
}

func (r replicated) send(ctx context.Context, name, text string, call driver.Call) (any, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, driver.ConnectionError(err, true)
	}
	timeout := max(r.timeout, time.Millisecond) // 0 is forever
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
	}
	cmd, body := command(ctx, name, text, call)
	script := &answeredCmd{onceCmd: cmd}
	wait := redis.NewCmd(ctx, "wait", r.replicas, timeout.Milliseconds())
	pipe := patient(r.node, timeout).Pipeline()
	if r.asking {
		_ = pipe.Do(ctx, "asking") // each command keeps its error, none is sent yet
	}
	_ = pipe.BatchProcess(ctx, script, wait) // only queues
	_, err := pipe.Exec(ctx)
	if script.answered || script.Err() != nil {
		err = script.Err()
	}
	reply, err := result(cmd, err, body)
	if err != nil {
		return nil, 0, err
	}
	acknowledged, err := wait.Int()
	if err != nil {
		acknowledged = 0 // not known
	}
	return reply, acknowledged, nil
}

// patient returns a client with the same connections that waits for answers so
// much longer.
func patient(n node, longer time.Duration) node {
	client, ok := n.(interface {
		Options() *redis.Options
		WithTimeout(timeout time.Duration) *redis.Client
	})
	if !ok || client.Options().ReadTimeout <= 0 { // waits forever
		return n
	}
	return client.WithTimeout(client.Options().ReadTimeout + longer)
}

// answeredCmd keeps what was answered to it. When a pipeline fails, go-redis sets
// the error of every command that has none, also if it had its reply.
type answeredCmd struct {
	onceCmd

	answered bool
}

// SetErr keeps the first word about an answered command. go-redis says nil when
// it has read the reply, and at no other time.
func (c *answeredCmd) SetErr(err error) {
	if c.answered {
		return
	}
	c.answered = err == nil
	c.onceCmd.SetErr(err)
}
