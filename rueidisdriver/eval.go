package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// Eval runs the script once; the package comment says what may be repeated.
// All errors are [*driver.Error]. A context that has ended already is one with
// MayHaveRun false.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	select {
	case d.flying <- struct{}{}:
	default:
		select {
		case d.flying <- struct{}{}:
		case <-ctx.Done():
			return nil, driver.ConnectionError(ctx.Err(), true)
		}
	}
	end, _ := ctx.Deadline()
	return driver.Run(ctx, call, func() (any, error) {
		defer func() { <-d.flying }()
		return d.eval(onlyDeadline{context.WithoutCancel(ctx), end}, call)
	})
}

// onlyDeadline is a context that ends at no time, but has a deadline. If the call was
// alone on its connection when it was sent, rueidis gives the connection up then, with
// those who have come since: it has been silent for long. Otherwise the call ends with the
// connection.
type onlyDeadline struct {
	context.Context

	end time.Time // zero: none
}

// Deadline returns the deadline.
func (c onlyDeadline) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }

// eval is Eval on a goroutine of its own.
func (d *Driver) eval(ctx context.Context, call driver.Call) (any, error) {
	reply, err := d.send(ctx, "EVALSHA", call.Script.SHA(), call)
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		reply, err = d.send(ctx, "EVAL", call.Script.Source(), call)
	}
	if err == nil {
		return normalise(reply)
	}
	if rueidis.IsRedisNil(err) {
		return nil, nil //nolint:nilnil // nil is what the script replied
	}
	return nil, classify(ctx, err)
}

// send returns what rueidis makes of the reply.
func (d *Driver) send(ctx context.Context, name, text string, call driver.Call) (any, error) {
	for attempt := 1; ; attempt++ {
		reply, err := d.client.Do(ctx, command(d.client.B(), name, text, call)).ToAny()
		if !dialCancelled(ctx, err) || attempt == dialAttempts {
			return reply, err
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
		if strings.HasPrefix(reply.Error(), "max number of clients") {
			failure.Transient, failure.MayHaveRun = true, false
		}
		return failure
	}
	// The error must not look as if the caller had given up.
	if dialCancelled(ctx, err) {
		return driver.ConnectionError(fmt.Errorf("rueidisdriver: another call gave up dialling: %s", err), true) //nolint:errorlint // see above
	}
	if foreignDeadline(ctx, err) {
		return driver.ConnectionError(fmt.Errorf("rueidisdriver: connection ended by another call: %s", err), false) //nolint:errorlint // see above
	}
	var op *net.OpError
	dialling := errors.As(err, &op) && op.Op == "dial"
	return driver.ConnectionError(err, dialling || errors.Is(err, rueidis.ErrNoSlot))
}

// normalise turns what rueidis makes of a reply into what the port promises.
func normalise(reply any) (any, error) {
	switch reply := reply.(type) {
	case nil, int64, string:
		return reply, nil
	case []any:
		list := make([]any, len(reply))
		for i, element := range reply {
			var err error
			if list[i], err = normalise(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	case error:
		// An error inside an array. The script has made it itself.
		return nil, &driver.Error{MayHaveRun: true, Err: reply}
	default:
		// Only a script that asks for RESP3 replies can come here.
		return nil, &driver.Error{MayHaveRun: true, Err: fmt.Errorf("rueidisdriver: reply of type %T", reply)}
	}
}
