package goredisdriver

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// longestSilence is after what time a connection is given up, if the client does not say.
const longestSilence = 10 * time.Second

// longUnused is for how long nobody has asked a node that is forgotten.
const longUnused = time.Minute

// sender sends calls to one node.
type sender struct {
	driver *Driver
	client redis.UniversalClient // of the node, or the only one; it bounds what it waits for
	calls  *driverkit.Group
	hasty  atomic.Pointer[redis.Client] // the node's client, but it waits for replies for driverkit.DirectTimeout only
}

func newSender(d *Driver, client redis.UniversalClient) *sender {
	s := &sender{driver: d, client: withReadTimeout(client)}
	direct := s.direct
	if _, ok := s.client.(*redis.Client); !ok { // nobody knows how long it waits for a reply
		direct = nil
	}
	s.calls = driverkit.NewGroup(s.send, direct, s.closeIdle)
	return s
}

// withReadTimeout bounds a client that has no ReadTimeout: it would lose a connection
// of its pool to each silent server.
func withReadTimeout(client redis.UniversalClient) redis.UniversalClient {
	one, ok := client.(*redis.Client)
	if !ok || one.Options().ReadTimeout > 0 {
		return client
	}
	return one.WithTimeout(longestSilence)
}

// senderTo returns that to the node in charge of a call.
func (d *Driver) senderTo(ctx context.Context, call driver.Call) (*sender, error) {
	if d.cluster == nil {
		return d.single, nil
	}
	client, err := d.masterOf(ctx, call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.senders[client]
	if s == nil {
		s = newSender(d, client)
		maps.DeleteFunc(d.senders, func(_ *redis.Client, old *sender) bool { // nodes come and go
			return old.calls.IdleSince(time.Now().Add(-longUnused))
		})
		d.senders[client] = s
	}
	return s, nil
}

// masterOf returns the client of the node in charge of a call. Before the cluster's client
// knows the nodes it asks for them, and does not heed the context: then one call asks for all.
func (d *Driver) masterOf(ctx context.Context, call driver.Call) (*redis.Client, error) {
	key := ""
	if len(call.Keys) > 0 {
		key = call.Keys[0]
	}
	for !d.nodesKnown.Load() {
		found := d.findNodes(key)
		select {
		case <-found.done:
			if found.err != nil {
				return nil, found.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.cluster.MasterForKey(ctx, key)
}

// search is a question for a cluster's nodes.
type search struct {
	done chan struct{} // closed when there is an answer
	err  error
}

// findNodes has the cluster client find its nodes, or joins those who wait for that.
func (d *Driver) findNodes(key string) *search {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.search != nil {
		return d.search
	}
	s := &search{done: make(chan struct{})}
	d.search = s
	go func() { // ends by the client's timeouts
		defer close(s.done)
		_, s.err = d.cluster.MasterForKey(context.Background(), key)
		d.nodesKnown.Store(s.err == nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.search = nil
	}()
	return s
}

// reloadNodes has the nodes of a cluster looked up again if none has answered, since
// one may have been replaced. go-redis finds out when it repeats a command, and
// otherwise not before ten seconds have passed.
func (d *Driver) reloadNodes(err error) {
	if err != nil && d.cluster != nil && !isReply(err) {
		d.cluster.ReloadState(context.Background()) // returns at once
	}
}

// send sends calls, and those again whose script the server does not have.
func (s *sender) send(calls []*driverkit.Call) {
	sendings := make([]sending, len(calls))
	for i, call := range calls {
		sendings[i] = newSending(call, "evalsha", call.Script.SHA())
	}
	ctx, cancel := whileUnsent(calls)
	defer cancel()
	s.exec(ctx, sendings)
	unknown := sendings[:0]
	for _, one := range sendings {
		switch {
		case one.refusedWith("NOSCRIPT"):
			unknown = append(unknown, newSending(one.Call, "eval", one.Script.Source()))
		default:
			s.end(ctx, one)
		}
	}
	s.exec(ctx, unknown)
	for _, one := range unknown {
		s.end(ctx, one)
	}
}

// direct sends a call on the goroutine of its caller.
func (s *sender) direct(ctx context.Context, timeout time.Duration, call driver.Call) (any, error) {
	one := sending{command: newCommand("evalsha", call.Script.SHA(), call)}
	one.err = s.within(timeout).Process(ctx, one.command)
	if one.refusedWith("NOSCRIPT") || s.driver.isElsewhere(one) {
		return nil, driverkit.ErrNotRun
	}
	s.driver.reloadNodes(one.err)
	return s.result(ctx, one.command, one.err)
}

// within returns the node's client, which waits for replies for timeout at most. One whose own timeout is longer has no hooks.
func (s *sender) within(timeout time.Duration) *redis.Client {
	client := s.client.(*redis.Client) //nolint:forcetypeassert // or nothing is sent directly
	switch {
	case client.Options().ReadTimeout <= timeout:
		return client
	case timeout < driverkit.DirectTimeout:
		return client.WithTimeout(timeout)
	}
	hasty := s.hasty.Load()
	if hasty == nil {
		hasty = client.WithTimeout(driverkit.DirectTimeout)
		s.hasty.Store(hasty)
	}
	return hasty
}

// exec sends each command once.
func (s *sender) exec(ctx context.Context, sendings []sending) {
	switch len(sendings) {
	case 0:
		return
	case 1:
		sendings[0].over(ctx, s.client)
		return
	}
	pipe := s.client.Pipeline()
	for _, one := range sendings {
		_ = pipe.Process(ctx, one.command) // only queues
	}
	_, err := pipe.Exec(ctx)
	for i := range sendings {
		sendings[i].err = sendings[i].command.outcome(err)
	}
}

// end says what came of a call. One that the node is not in charge of is sent again, alone:
// the cluster's client follows.
func (s *sender) end(ctx context.Context, one sending) {
	if s.driver.isElsewhere(one) {
		go s.follow(context.WithoutCancel(ctx), one)
		return
	}
	s.driver.reloadNodes(one.err)
	one.End(s.result(ctx, one.command, one.err))
}

// isElsewhere reports whether a node of a cluster has refused a call that is another's.
func (d *Driver) isElsewhere(one sending) bool {
	return d.cluster != nil && (one.refusedWith("MOVED") || one.refusedWith("ASK"))
}

// follow sends a call that a node has refused to the node in charge. It ends by the client's
// timeouts.
func (s *sender) follow(ctx context.Context, one sending) {
	one = newSending(one.Call, "evalsha", one.Script.SHA())
	one.over(ctx, s.driver.rdb)
	if one.refusedWith("NOSCRIPT") {
		one = newSending(one.Call, "eval", one.Script.Source())
		one.over(ctx, s.driver.rdb)
	}
	s.driver.reloadNodes(one.err)
	one.End(s.result(ctx, one.command, one.err))
}

// sending is a call on its way.
type sending struct {
	*driverkit.Call

	command *command
	err     error // of the command, as go-redis says it
}

func newSending(call *driverkit.Call, name, text string) sending {
	s := sending{Call: call, command: newCommand(name, text, call.Call)}
	s.command.text.call = call
	return s
}

// over sends it once, alone.
func (o *sending) over(ctx context.Context, client redis.UniversalClient) {
	o.err = client.Process(ctx, o.command)
}

// refusedWith reports whether the server has refused it with a word.
func (o *sending) refusedWith(word string) bool {
	return redis.HasErrorPrefix(o.err, word)
}
