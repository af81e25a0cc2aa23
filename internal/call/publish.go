package call

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// publishing knows the command that announces releases, once a server has said which.
type publishing struct {
	known atomic.Pointer[string]

	mu    sync.Mutex
	asked *question // under way; nil if there is none; guarded by mu
}

// question is one to the driver. Many may wait for the answer.
type question struct {
	done    chan struct{} // closed when the rest is set
	command string
	err     error
}

// sharded is the command whose messages do.
const sharded = "SPUBLISH"

// command returns the command. The driver is asked on a goroutine of its own, since it may
// be asking a server, and not heed the context.
func (p *publishing) command(ctx context.Context, c *Caller) (string, error) {
	if known := p.known.Load(); known != nil {
		return *known, nil
	}
	q := p.ask(c)
	select {
	case <-q.done:
		return q.command, q.err
	case <-ctx.Done():
		return "", driver.ConnectionError(ctx.Err(), true)
	}
}

// ask asks the driver, or joins those who wait for its answer.
func (p *publishing) ask(c *Caller) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != nil {
		return p.asked
	}
	q := &question{done: make(chan struct{})}
	p.asked = q
	if !c.config.Tasks.Go(func() {
		defer close(q.done)
		ctx, cancel := context.WithTimeout(c.config.Life, c.config.Timeout)
		defer cancel()
		if q.command, q.err = c.config.Driver.PublishCommand(ctx); q.err == nil {
			p.known.Store(&q.command)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = nil
	}) {
		q.err, p.asked = errNotSent, nil
		close(q.done)
	}
	return q
}
