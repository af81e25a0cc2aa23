package rueidisdriver

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

const (
	// redirects bounds how often a call follows MOVED and ASK.
	redirects = 3
	// scriptLimit is for the answer to the script where ConnWriteTimeout is
	// longer, or off. With a deadline rueidis uses a dedicated connection
	// from the goroutine that calls, and need not clean it up afterwards.
	scriptLimit = time.Minute
	// waitGrace is what the answer to WAIT may take beyond its timeout.
	waitGrace = time.Second
)

// EvalReplicated runs the script once, as [Driver.Eval] does, and has replicas
// acknowledge it; the package comment says how.
func (d *Driver) EvalReplicated(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	try := replicated{d, d.client, nil, false, replicas, max(timeout, time.Millisecond)}
	if d.slotted {
		if try.node = d.nodeInDoubt(call); try.node != nil {
			if s := try.node.reserve(); s != nil {
				s.release()
			}
		}
		reply, acknowledged, err := d.evalReplicated(ctx, call, try)
		if err != nil && driverkit.IsDoubtful(err) {
			d.doubtSlot(call)
		}
		return reply, acknowledged, d.explain(err)
	}
	try.node = &d.only
	epoch := d.calls.Doubt.Resolve(d.only.renew)
	reply, acknowledged, err := d.evalReplicated(ctx, call, try)
	d.calls.Doubt.Note(epoch, err)
	return reply, acknowledged, d.explain(err)
}

// evalReplicated follows the call's slot.
func (d *Driver) evalReplicated(ctx context.Context, call driver.Call, try replicated) (any, int, error) {
	for redirected := 0; ; redirected++ {
		reply, acknowledged, err := try.eval(ctx, call)
		addr, asking, ok := redirect(err)
		switch {
		case ok && d.slotted && redirected < redirects:
			try.client, try.node, try.asking = d.client.Nodes()[addr], nil, asking
			d.cluster.forgetSlots()
		case err == nil:
			reply, err = driverkit.Reply(reply)
			return reply, acknowledged, err
		case rueidis.IsRedisNil(err):
			return nil, acknowledged, nil
		default:
			return nil, 0, classify(ctx, err)
		}
		if try.client == nil {
			// rueidis can reach it, but does not say on which connection.
			reply, err := d.Eval(ctx, call)
			return reply, 0, err
		}
	}
}

// redirect returns where a server wants the call to be sent instead.
func redirect(err error) (addr string, asking, ok bool) {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return "", false, false
	}
	if addr, ok := reply.IsMoved(); ok {
		return addr, false, true
	}
	addr, ok = reply.IsAsk()
	return addr, true, ok
}

// replicated sends a script to one node, and then WAIT.
type replicated struct {
	driver   *Driver
	client   rueidis.Client
	node     *node // whose connections may be in doubt; nil: there is no doubt
	asking   bool  // the node has yet to get the slot
	replicas int
	timeout  time.Duration
}

// eval returns what rueidis makes of the reply; a nil reply is an error to it.
// A failure of WAIT is not among the errors.
func (r replicated) eval(ctx context.Context, call driver.Call) (any, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, driver.ConnectionError(err, true)
	}
	conn, release := r.dedicate()
	defer release() // closes it if it is broken, or if WAIT was given up
	reply, err := r.script(ctx, conn, "EVALSHA", call.Script.SHA(), call)
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		reply, err = r.script(ctx, conn, "EVAL", call.Script.Source(), call)
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, 0, err
	}
	return reply, r.wait(ctx, conn), err
}

// dedicate returns a connection for one call, a new one if others are in doubt.
func (r replicated) dedicate() (rueidis.DedicatedClient, func()) {
	if r.node == nil {
		return r.client.Dedicate()
	}
	s := r.node.borrow()
	switch {
	case s == nil:
		return r.client.Dedicate()
	case s.fresh != nil:
		conn, release := s.fresh.Dedicate()
		return conn, func() { release(); s.release() }
	}
	s.release()
	if conn, _ := r.node.find(false); conn != nil {
		return conn, func() { go end(conn) }
	}
	return r.client.Dedicate()
}

func (r replicated) script(ctx context.Context, conn rueidis.DedicatedClient, name, text string, call driver.Call) (any, error) {
	// Getting the connection has taken time, and so has what came before.
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	bounded, cancel := context.WithTimeout(ctx, scriptLimit)
	defer cancel()
	if r.asking {
		if err := conn.Do(bounded, conn.B().Arbitrary("ASKING").Build().Pin()).Error(); err != nil {
			failure := classify(ctx, err)
			failure.MayHaveRun = false // the script was not sent
			return nil, failure
		}
	}
	return conn.Do(bounded, command(conn.B(), name, text, call)).ToAny()
}

// wait returns how many replicas have acknowledged, or 0 if that is not known.
func (r replicated) wait(ctx context.Context, conn rueidis.DedicatedClient) int {
	bounded, cancel := context.WithTimeout(ctx, r.timeout+waitGrace)
	defer cancel()
	wait := conn.B().Wait().Numreplicas(int64(r.replicas)).Timeout(r.timeout.Milliseconds()).Build().Pin()
	acknowledged, err := conn.Do(bounded, wait).AsInt64()
	if err != nil {
		return 0
	}
	return int(acknowledged)
}
