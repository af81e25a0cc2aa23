package driver

import (
	"context"
	"sync"
)

// Run has f make a call, on a goroutine of its own, and returns what f returns. If ctx
// ends first, it returns an [Error] at once, which says that the call may have run; the
// goroutine goes on, and tells Call.Late, if there is one, what f returned. It is for
// adapters of clients that do not always heed a context; f has to end by itself.
func Run(ctx context.Context, call Call, f func() (any, error)) (any, error) {
	r := &running{done: make(chan struct{})}
	go func() { r.end(f()) }()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.leave(call.Late) {
			err := ConnectionError(ctx.Err(), false)
			err.Pending = call.Late != nil
			return nil, err
		}
	}
	return r.reply, r.err
}

// running is a call that somebody waits for.
type running struct {
	done chan struct{} // closed when the reply is there

	mu    sync.Mutex
	left  bool // nobody waits any more
	late  Late
	reply any
	err   error
}

// end notes what came of the call.
func (r *running) end(reply any, err error) {
	r.mu.Lock()
	r.reply, r.err = reply, err
	close(r.done)
	left, late := r.left, r.late
	r.mu.Unlock()
	if left && late != nil {
		late.Tell(reply, err)
	}
}

// leave has late told what comes of the call. It reports false if that is known.
func (r *running) leave(late Late) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
		return false
	default:
		r.left, r.late = true, late
		return true
	}
}
