package goredisdriver

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// Eval runs the script once; the package comment says what may be repeated.
// All errors are [*driver.Error]. A context that has ended already is one with
// MayHaveRun false.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	s, err := d.senderTo(ctx, call)
	if err != nil {
		d.reloadNodes(err)
		return nil, driver.NotTheCallers(ctx, d.explain(classify(err, false)))
	}
	return s.calls.Eval(ctx, call)
}

// command is a command that runs a script. go-redis does not repeat it, and it keeps its
// reply: when a pipeline fails, go-redis sets the error of every command that has none, also
// if it had its reply.
type command struct {
	*redis.Cmd

	text     scriptText
	answered bool
}

func newCommand(name, text string, call driver.Call) *command {
	c := &command{text: scriptText{text: text}}
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, name, &c.text, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	c.Cmd = redis.NewCmd(context.Background(), args...)
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry keeps go-redis from repeating a call whose reply was lost.
func (*command) NoRetry() bool { return true }

// Clone keeps the copies that a cluster client may make unrepeatable as well.
func (c *command) Clone() redis.Cmder {
	clone, ok := c.Cmd.Clone().(*redis.Cmd)
	if !ok {
		return c.Cmd.Clone()
	}
	return &command{Cmd: clone}
}

// SetErr does not overwrite a reply. go-redis sets nil when it has read the reply,
// and at no other time.
func (c *command) SetErr(err error) {
	if c.answered {
		return
	}
	c.answered = err == nil
	c.Cmd.SetErr(err)
}

// outcome is the error of a command whose pipeline failed, or not, with err.
func (c *command) outcome(err error) error {
	if c.answered || c.Err() != nil {
		return c.Err()
	}
	return err
}

// result returns the reply, or the error, in the port's types.
func (c *command) result(err error) (any, error) {
	if err == redis.Nil { //nolint:errorlint // go-redis returns it unwrapped, and so do its hooks
		return nil, nil //nolint:nilnil // nil is what the script replied
	}
	if err != nil {
		return nil, classify(err, c.text.written.Load())
	}
	return driverkit.Reply(c.Val())
}

// scriptText is the script argument of a call. go-redis encodes it with
// MarshalBinary when it writes the command, and in no other place, so it knows
// whether the call can have reached a server at all.
type scriptText struct {
	text    string
	call    *driverkit.Call // nil: nobody can withdraw it
	written atomic.Bool
}

// MarshalBinary returns the argument as it is sent. No server has a script by the empty name, and an empty script does
// nothing: so a call that was withdrawn does not spoil the others of its pipeline.
func (s *scriptText) MarshalBinary() ([]byte, error) {
	if s.call != nil && !s.call.Sending() {
		return nil, nil
	}
	s.written.Store(true)
	return []byte(s.text), nil
}

// String returns the argument for hooks that print commands.
func (s *scriptText) String() string { return s.text }
