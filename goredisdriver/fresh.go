package goredisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// closeIdleLimit bounds the time that closing the idle connections takes.
const closeIdleLimit = 100 * time.Millisecond

// closeIdle closes the pool's idle connections, so that the next call makes a new one. go-redis has
// no method for that. But it closes a connection on which a command cannot be encoded, and has
// written nothing then. All are taken at once: one that the pool has made ahead of time (MinIdleConns) says HELLO
// first, and waits in vain for the answer if it is dead; and the pool makes others in place of those that go.
func (s *sender) closeIdle() {
	client := s.client
	if one, ok := client.(*redis.Client); ok {
		client = one.WithTimeout(closeIdleLimit) // it has no hooks, which would take this for failures
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeIdleLimit)
	var closing sync.WaitGroup
	for range client.PoolStats().IdleConns {
		closing.Go(func() { _ = client.Process(ctx, unsendable{redis.NewCmd(ctx, "ping", unencodable{})}) })
	}
	go func() { // ends by the client's timeouts
		defer cancel()
		closing.Wait()
	}()
	<-ctx.Done()
}

// unsendable is a command that closes its connection.
type unsendable struct{ *redis.Cmd }

// NoRetry keeps go-redis from trying it on another connection.
func (unsendable) NoRetry() bool { return true }

var errUnencodable = errors.New("goredisdriver: this closes an idle connection")

type unencodable struct{}

// MarshalBinary returns an error.
func (unencodable) MarshalBinary() ([]byte, error) { return nil, errUnencodable }

// waitMargin is how long before their callers leave calls are given up that have no connection. So
// callers learn why, and that nothing was sent.
const waitMargin = 100 * time.Millisecond

var errNoConnection = errors.New("goredisdriver: no connection in time")

// whileUnsent is the context of calls for as long as they have no connection. go-redis does not
// look at it after that, since it has no deadline.
func whileUnsent(calls []*driverkit.Call) (context.Context, func()) {
	end := latest(calls)
	if end.IsZero() {
		return context.Background(), func() {}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	left := time.Until(end)
	timer := time.AfterFunc(left-min(waitMargin, left/10), func() { cancel(errNoConnection) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
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

// result returns the reply of a command, or its error with what there is to do about it, in the
// port's types.
func (s *sender) result(ctx context.Context, c *command, err error) (any, error) {
	if err != nil && !c.text.written.Load() {
		s.noteUnsent(err)
		err = s.whyUnsent(ctx, err)
	}
	reply, err := c.result(err)
	return reply, s.driver.explain(err)
}

// noteUnsent notes the error of a command that was not sent. A connection that the pool has made ahead of time may be found dead
// when it is to say HELLO.
func (s *sender) noteUnsent(err error) {
	if !isReply(err) && !neverConnected(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		s.calls.Doubt.Raise()
	}
}

// whyUnsent explains the error of a command that had no connection.
func (s *sender) whyUnsent(ctx context.Context, err error) error {
	late := context.Cause(ctx) == errNoConnection //nolint:errorlint // nobody wraps it
	if late && !isReply(err) {
		err = errNoConnection
	}
	if errors.Is(err, redis.ErrPoolTimeout) || late && s.isPoolTaken() {
		// Whose commands have them nobody knows: they may be our own, to a server that is silent.
		return fmt.Errorf("%w: all connections of the Redis client's pool are in use: "+
			"if the server answers, raise PoolSize, or give holdfast a Redis client of its own", err)
	}
	if late && s.isFailover() {
		return fmt.Errorf("%w: a Sentinel may be silent: set MaxRetries to -1, ReadTimeout to a second and DialTimeout to two, "+
			"in redis.FailoverOptions; docs/tuning.md says why", err)
	}
	if late {
		if why := s.dialError(); why != nil {
			return why
		}
		addrs, dial := s.driver.servers()
		if says := s.driver.refused.Ask(waitMargin/2, addrs, dial); says != "" {
			return fmt.Errorf("%w: %s", err, says)
		}
		return fmt.Errorf("%w: check the address of the Redis client, and whether the server wants TLS", err)
	}
	return err
}

// dialError dials once more, and returns what is wrong with it, if that is known soon: go-redis says so only after it has
// dialled several times.
func (s *sender) dialError() error {
	one, ok := s.client.(interface{ Options() *redis.Options })
	if !ok {
		return nil
	}
	options, failed := one.Options(), make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), waitMargin/2)
	defer cancel()
	go func() { // ends by the client's DialTimeout
		conn, err := options.Dialer(ctx, options.Network, options.Addr)
		if err == nil {
			_ = conn.Close()
		}
		failed <- err
	}()
	select {
	case err := <-failed:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return nil
}

// isPoolTaken reports whether all connections that the pool may have are in use.
func (s *sender) isPoolTaken() bool {
	one, ok := s.client.(interface{ Options() *redis.Options })
	stats := s.client.PoolStats()
	return ok && int(stats.TotalConns)-int(stats.IdleConns) >= one.Options().PoolSize
}

// isFailover reports whether the client asks Sentinels where the primary is.
func (s *sender) isFailover() bool {
	one, ok := s.client.(interface{ Options() *redis.Options })
	return ok && one.Options().Addr == "FailoverClient" // go-redis has no other sign
}

// servers returns the addresses to which the client connects, as far as they are known, and its dialer.
func (d *Driver) servers() (addrs []string, dial driverkit.Dial) {
	network, dialer := "tcp", (func(ctx context.Context, network, addr string) (net.Conn, error))(nil)
	switch client := d.rdb.(type) {
	case interface{ Options() *redis.Options }:
		options := client.Options()
		addrs, network, dialer = []string{options.Addr}, options.Network, options.Dialer
	case interface{ Options() *redis.ClusterOptions }:
		options := client.Options()
		if addrs, dialer = d.addrs(options.Addrs), options.Dialer; dialer == nil {
			dialer = redis.NewDialer(&redis.Options{DialTimeout: options.DialTimeout, TLSConfig: options.TLSConfig})
		}
	}
	return addrs, func(ctx context.Context, addr string) (net.Conn, error) { return dialer(ctx, network, addr) }
}

// addrs returns the addresses of the cluster's nodes that calls were sent to, and others, each once.
func (d *Driver) addrs(others []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(others)
	for node := range d.senders {
		all = append(all, node.Options().Addr)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// explain says of an error whether it can pass, as far as the whole client knows, and why the server has closed a connection, as
// far as it says.
func (d *Driver) explain(err error) error {
	closed := err != nil && errors.Is(err, redis.ErrClosed)
	if !d.closed.Note(closed, d.cluster == nil) {
		return d.refused.Explain(err, d.servers)
	}
	var failed *driver.Error
	errors.As(err, &failed)
	return &driver.Error{
		MayHaveRun: failed.MayHaveRun,
		Err:        fmt.Errorf("the program has closed the Redis client that holdfast uses; close holdfast's client first: %w", failed.Err),
	}
}
