package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// Eval runs the script once; the package comment says what may be repeated.
// All errors are [*driver.Error]. A context that has ended already is one with
// MayHaveRun false.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if d.slotted {
		return d.evalOnCluster(ctx, call)
	}
	return d.calls.Eval(ctx, call)
}

// send sends calls together, and those again whose script the server does not have.
func (d *Driver) send(calls []*driverkit.Call) {
	if s := d.only.borrow(); s != nil { // a search takes time: calls that are given up during it are not sent
		s.release()
	}
	calls = slices.DeleteFunc(calls, func(call *driverkit.Call) bool {
		if call.Sending() {
			return false
		}
		call.End(nil, driver.ConnectionError(context.Canceled, true))
		return true
	})
	if len(calls) == 0 {
		return
	}
	commands := make(rueidis.Commands, 0, len(calls))
	for _, call := range calls {
		commands = append(commands, command(d.client.B(), "EVALSHA", call.Script.SHA(), call.Call))
	}
	ctx := onlyDeadline{context.Background(), latest(calls)}
	unknown := calls[:0]
	results, spared := d.exec(ctx, commands)
	for i, result := range results {
		if e, ok := rueidis.IsRedisErr(result.Error()); ok && e.IsNoScript() {
			unknown = append(unknown, calls[i])
			continue
		}
		calls[i].End(d.outcome(ctx, result, spared))
	}
	if len(unknown) == 0 {
		return
	}
	commands = commands[:0]
	for _, call := range unknown {
		commands = append(commands, command(d.client.B(), "EVAL", call.Script.Source(), call.Call))
	}
	results, spared = d.exec(ctx, commands)
	for i, result := range results {
		unknown[i].End(d.outcome(ctx, result, spared))
	}
}

// latest is the latest of the calls' deadlines; zero: one has none.
func latest(calls []*driverkit.Call) (end time.Time) {
	for _, call := range calls {
		if call.Deadline.IsZero() {
			return time.Time{}
		}
		if call.Deadline.After(end) {
			end = call.Deadline
		}
	}
	return end
}

// exec sends commands once, and reports whether it has done so on a spare connection.
func (d *Driver) exec(ctx context.Context, commands rueidis.Commands) (results []rueidis.RedisResult, spared bool) {
	for s := d.only.borrow(); s != nil; s = d.only.borrow() {
		results = s.conn.DoMulti(ctx, commands...)
		s.release()
		if !errors.Is(results[0].NonRedisError(), rueidis.ErrDedicatedClientRecycled) { // it has not just been replaced
			return results, true
		}
	}
	for attempt := 1; ; attempt++ {
		results = d.client.DoMulti(ctx, commands...)
		if !dialCancelled(ctx, results[0].NonRedisError()) || attempt == dialAttempts {
			return results, false
		}
	}
}

// outcome returns the reply, or the error, in the port's types. spared says that it came by a spare connection.
func (d *Driver) outcome(ctx context.Context, result rueidis.RedisResult, spared bool) (any, error) {
	reply, err := result.ToAny()
	switch {
	case err == nil:
		reply, err = driverkit.Reply(reply)
	case rueidis.IsRedisNil(err):
		reply, err = nil, nil // nil is what the script replied
	case spared && errors.Is(err, rueidis.ErrClosing): // not the client's end, but the connection's
		return nil, driver.ConnectionError(errGivenUp, false)
	default:
		reply, err = nil, classify(ctx, err)
	}
	return reply, d.explain(err)
}

// evalOnCluster is Eval on a cluster, whose nodes' slots the client does not show.
func (d *Driver) evalOnCluster(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	select {
	case d.underWay <- struct{}{}:
	default:
		select {
		case d.underWay <- struct{}{}:
		case <-ctx.Done():
			return nil, driver.ConnectionError(ctx.Err(), true)
		}
	}
	end, _ := ctx.Deadline()
	sent := time.Now()
	reply, err := driver.Run(ctx, call, func() (any, error) {
		defer func() { <-d.underWay }()
		return d.eval(ctx, onlyDeadline{context.WithoutCancel(ctx), end}, call)
	})
	if err != nil && driverkit.IsDoubtful(err) && (ctx.Err() == nil || time.Since(sent) >= unanswered) {
		d.doubtSlot(call)
	}
	return reply, driver.NotTheCallers(ctx, err)
}

// unanswered is the time after which a caller that leaves has had no answer. If one leaves earlier, that
// says nothing of the connection.
const unanswered = 200 * time.Millisecond

// slotOfCall returns the slot of a call's keys; 0 without keys.
func (d *Driver) slotOfCall(call driver.Call) int64 {
	if len(call.Keys) == 0 {
		return 0
	}
	return d.slotOf(call.Keys[0])
}

// isDial reports whether there was no connection, since dialling has failed.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// doubtSlot marks the slot of a call as in doubt: from now on calls for it use spare connections.
func (d *Driver) doubtSlot(call driver.Call) {
	key := ""
	if len(call.Keys) > 0 {
		key = call.Keys[0]
	}
	d.inDoubt.add(d.slotOfCall(call), key)
}

// onlyDeadline is a context with another deadline. rueidis closes the connection then, if
// nothing else was under way on it when the call was sent: it has been silent for long.
// Otherwise the call ends with the connection.
type onlyDeadline struct {
	context.Context

	end time.Time // zero: none
}

// Deadline returns the deadline.
func (c onlyDeadline) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }

// eval is Eval on a goroutine of its own. The caller's context says whether the call is still to be sent.
func (d *Driver) eval(caller, ctx context.Context, call driver.Call) (any, error) {
	n := d.nodeInDoubt(call)
	for redirected := 0; n != nil && redirected <= redirects; redirected++ {
		s := n.reserve()
		if err := caller.Err(); err != nil { // it has taken time
			if s != nil {
				s.release()
			}
			return nil, driver.ConnectionError(err, true)
		}
		if s == nil {
			d.cluster.forgetSlots()
			break
		}
		result := d.evalWith(ctx, s.conn, call)
		s.release()
		addr, asking, elsewhere := redirect(result.Error())
		switch {
		case elsewhere && asking: // rueidis can follow
			n = nil
		case elsewhere:
			d.cluster.forgetSlots()
			n = d.knownNode(addr)
		case errors.Is(result.NonRedisError(), rueidis.ErrDedicatedClientRecycled): // it has just been replaced
		default:
			reply, err := d.outcome(ctx, result, true)
			if err != nil && driverkit.IsDoubtful(err) {
				n.giveUp(s)
			}
			return reply, err
		}
	}
	return d.outcome(ctx, d.evalWith(ctx, d.client, call), false)
}

// evalWith sends a call on a cluster, and again if the server does not have the script.
func (d *Driver) evalWith(ctx context.Context, client rueidis.CoreClient, call driver.Call) rueidis.RedisResult {
	result := d.do(ctx, client, command(client.B(), "EVALSHA", call.Script.SHA(), call))
	if e, ok := rueidis.IsRedisErr(result.Error()); ok && e.IsNoScript() {
		result = d.do(ctx, client, command(client.B(), "EVAL", call.Script.Source(), call))
	}
	return result
}

// do sends a command once.
func (d *Driver) do(ctx context.Context, client rueidis.CoreClient, command rueidis.Completed) rueidis.RedisResult {
	for attempt := 1; ; attempt++ {
		result := client.Do(ctx, command)
		if !dialCancelled(ctx, result.NonRedisError()) || attempt == dialAttempts {
			return result
		}
	}
}

// command returns the command that runs a script. It is pinned, as every command
// here is. Otherwise rueidis reuses its memory as soon as the caller has an answer or
// an error. When a connection breaks, its writer may still be reading the command
// then, though a repetition on another connection has been answered.
func command(b rueidis.Builder, name, text string, call driver.Call) rueidis.Completed {
	return b.Arbitrary(name).Args(text, strconv.Itoa(len(call.Keys))).Keys(call.Keys...).Args(call.Args...).Build().Pin()
}

// dialAttempts bounds how often a call waits for a connection that another call
// has begun to make.
const dialAttempts = 10

// dialCancelled reports whether there was no connection to send on, because the
// call that was making one was cancelled. rueidis then fails all that wait for
// the same connection. A connection that stands is not harmed by cancelling.
func dialCancelled(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() == nil
}

// foreignDeadline reports whether another call's deadline has passed, not that of
// ctx.
func foreignDeadline(ctx context.Context, err error) bool {
	own, ok := ctx.Deadline()
	return errors.Is(err, context.DeadlineExceeded) && (!ok || time.Now().Before(own))
}

// classify turns an error of rueidis into one of the port.
func classify(ctx context.Context, err error) *driver.Error {
	var done *driver.Error
	if errors.As(err, &done) {
		return done
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		// rueidis has cut off the word ERR, if that was the first.
		failure := driver.ServerError(reply.Error(), err)
		if driverkit.IsRefusal(reply.Error()) {
			failure.Transient, failure.MayHaveRun = true, false
		}
		return failure
	}
	dialling := isDial(err)
	// The error must not look as if the caller had given up.
	if dialCancelled(ctx, err) {
		return driver.ConnectionError(fmt.Errorf("rueidisdriver: another call gave up dialling: %s", err), true) //nolint:errorlint // see above
	}
	if foreignDeadline(ctx, err) && !dialling {
		return driver.ConnectionError(fmt.Errorf("rueidisdriver: connection ended by another call: %w", os.ErrDeadlineExceeded), false)
	}
	return driver.ConnectionError(err, dialling || errors.Is(err, rueidis.ErrNoSlot))
}
