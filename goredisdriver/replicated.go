package goredisdriver

import (
	"context"
	"errors"
	"net"
	"strings"
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
	s, err := d.senderTo(ctx, call)
	if err != nil {
		d.reloadNodes(err)
		return nil, 0, driver.NotTheCallers(ctx, d.explain(classify(err, false)))
	}
	epoch := s.calls.Doubt.Resolve(s.closeIdle)
	var reply any
	var acknowledged int
	if d.cluster == nil {
		reply, acknowledged, err = replicated{d.rdb, false, replicas, timeout}.eval(ctx, call)
	} else {
		reply, acknowledged, err = d.onCluster(ctx, call, replicas, timeout)
	}
	s.calls.Doubt.Note(epoch, err)
	if failed := (*driver.Error)(nil); errors.As(err, &failed) && !failed.MayHaveRun {
		s.noteUnsent(err)
	}
	d.reloadNodes(err)
	return reply, acknowledged, driver.NotTheCallers(ctx, d.explain(err))
}

// onCluster follows the call's slot.
func (d *Driver) onCluster(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	master, err := d.masterOf(ctx, call)
	if err != nil {
		return nil, 0, classify(err, false)
	}
	try := replicated{master, false, replicas, timeout}
	for redirected := 0; ; redirected++ {
		reply, acknowledged, err := try.eval(ctx, call)
		addr, moved := redis.IsMovedError(err)
		if moved {
			d.cluster.ReloadState(ctx) // returns at once
		} else {
			addr, try.asking = redis.IsAskError(err)
		}
		if !moved && !try.asking || redirected == redirects {
			return reply, acknowledged, err
		}
		try.asking = !moved
		client := clientOf(addr, master)
		defer client.Close() //nolint:errcheck // fails only if it is closed
		try.node = client
	}
}

// clientOf returns a client of the node at addr, which the caller closes. The cluster
// client has one already, but shows it only after it has asked for all nodes, which
// takes long while one of them is away.
func clientOf(addr string, like *redis.Client) *redis.Client {
	options := *like.Options()
	options.Addr, options.NodeAddress, options.MinIdleConns = addr, "", 0
	if colon := strings.LastIndexByte(addr, ':'); colon >= 0 { // IPv6 comes without brackets
		options.Addr = net.JoinHostPort(strings.Trim(addr[:colon], "[]"), addr[colon+1:])
	}
	return redis.NewClient(&options)
}

// replicated sends a script to one node, with WAIT behind it.
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
	timeout := r.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	timeout = max(timeout, time.Millisecond) // 0 is forever
	script := newCommand(name, text, call)
	wait := redis.NewCmd(ctx, "wait", r.replicas, timeout.Milliseconds())
	pipe := withLongerTimeout(r.node, timeout).Pipeline()
	if r.asking {
		_ = pipe.Do(ctx, "asking") // only queues, as does what follows
	}
	_ = pipe.BatchProcess(ctx, script, wait)
	_, err := pipe.Exec(ctx)
	reply, err := script.result(script.outcome(err))
	if err != nil {
		return nil, 0, err
	}
	acknowledged, err := wait.Int()
	if err != nil {
		acknowledged = 0 // not known
	}
	return reply, acknowledged, nil
}

// withLongerTimeout returns a client with the same connections that waits for
// replies so much longer.
func withLongerTimeout(n node, longer time.Duration) node {
	client, ok := n.(interface {
		Options() *redis.Options
		WithTimeout(timeout time.Duration) *redis.Client
	})
	if !ok || client.Options().ReadTimeout <= 0 { // waits forever
		return n
	}
	return client.WithTimeout(client.Options().ReadTimeout + longer)
}
