package goredisdriver

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Eval runs the script once; the package comment says what may be repeated.
// All errors are [*driver.Error]. A context that has ended already is one with
// MayHaveRun false.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := d.checkClient(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	g, err := d.gathererOf(ctx, call)
	if err != nil {
		d.reloadNodes(ctx, err)
		return nil, classify(err, false)
	}
	s := &sending{call: call, done: make(chan struct{})}
	g.add(s)
	return s.await(ctx)
}

// reloadNodes has the nodes of a cluster looked up again if none has answered, since
// one may have been replaced. go-redis finds out when it repeats a command, and
// otherwise not before ten seconds have passed.
func (d *Driver) reloadNodes(ctx context.Context, err error) {
	if err != nil && d.cluster != nil && !isReply(err) {
		d.cluster.ReloadState(ctx) // returns at once
	}
}

// command returns the command that runs a script, and the argument of it that
// records whether it was written.
func command(ctx context.Context, name, text string, call driver.Call) (onceCmd, *scriptText) {
	body := &scriptText{text: text}
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, name, body, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	cmd := onceCmd{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	return cmd, body
}

// result returns a command's reply, or its error, in the port's types.
func result(cmd onceCmd, err error, body *scriptText) (any, error) {
	if err == redis.Nil { //nolint:errorlint // go-redis returns it unwrapped, and so do its hooks
		return nil, nil //nolint:nilnil // nil is what the script replied
	}
	if err != nil {
		return nil, classify(err, body.written.Load())
	}
	return normalise(cmd.Val())
}

// onceCmd is a command that go-redis does not repeat.
type onceCmd struct{ *redis.Cmd }

// NoRetry keeps go-redis from repeating a call whose reply was lost.
func (onceCmd) NoRetry() bool { return true }

// Clone keeps the copies that a cluster client may make unrepeatable as well.
func (c onceCmd) Clone() redis.Cmder {
	clone, ok := c.Cmd.Clone().(*redis.Cmd)
	if !ok {
		return c.Cmd.Clone()
	}
	return onceCmd{clone}
}

// scriptText is the script argument of a call. go-redis encodes it with
// MarshalBinary when it writes the command, and in no other place, so it knows
// whether the call can have reached a server at all.
type scriptText struct {
	text    string
	written atomic.Bool
}

// MarshalBinary returns the argument as it is sent.
func (s *scriptText) MarshalBinary() ([]byte, error) {
	s.written.Store(true)
	return []byte(s.text), nil
}

// String returns the argument for hooks that print commands.
func (s *scriptText) String() string { return s.text }

// normalise turns what go-redis makes of a reply into what the port promises.
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
		return nil, &driver.Error{MayHaveRun: true, Err: fmt.Errorf("goredisdriver: reply of type %T", reply)}
	}
}
