package memdriver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/holdfast-go/holdfast/driver"
)

// Server is a Redis inside the process. Use [NewServer].
type Server struct {
	mini *miniredis.Miniredis

	// executing is held while a command or a script is, and while the clock is set: a script is not interrupted. It is
	// taken before mu. Publishing waits for whoever listens with it held: see listener.
	executing sync.Mutex
	scripts   *interpreter

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup // calls that faults have delayed beyond their contexts

	mu       sync.Mutex
	ahead    time.Duration // by how much its clock differs from the program's
	replicas int
	changed  chan struct{} // closed when replicas changes
}

// NewServer returns an empty server. Close it when done.
func NewServer() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	conn, err := mini.Dial() // starts it without a listener
	if err != nil {
		return nil, fmt.Errorf("memdriver: %w", err)
	}
	if err := conn.Close(); err != nil {
		return nil, fmt.Errorf("memdriver: %w", err)
	}
	s := &Server{mini: mini, scripts: newInterpreter(mini.Server()), changed: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close stops the server and waits for everything that is under way in it.
func (s *Server) Close() {
	s.stop()
	s.wg.Wait()
	s.mini.Close()
}

// SetClock sets the server's clock so far ahead of the program's, or behind it if
// negative; at first they agree. A clock that is set forward takes that off every
// key's time to live, as in Redis; one that is set back leaves it as it is.
func (s *Server) SetClock(ahead time.Duration) {
	s.executing.Lock()
	defer s.executing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range []time.Duration{s.ahead, ahead} { // what has passed until now counts, too
		s.ahead = is
		s.readClock()
		s.mini.Exists("") // it looks at the time when it is asked something
	}
}

// tick has the server read its clock.
func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readClock()
}

// readClock is tick. s.mu is held.
func (s *Server) readClock() { s.mini.SetTime(time.Now().Add(s.ahead).UTC()) }

// SetReplicas says how many replicas acknowledge from now on whatever is written,
// and at once. At first there are none.
func (s *Server) SetReplicas(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = n
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait does what WAIT does. If the context ends first, nobody knows the number.
func (s *Server) wait(ctx context.Context, replicas int, timeout time.Duration) int {
	timer := time.NewTimer(max(timeout, time.Millisecond))
	defer timer.Stop()
	for {
		s.mu.Lock()
		acknowledged, changed := s.replicas, s.changed
		s.mu.Unlock()
		if acknowledged >= replicas {
			return acknowledged
		}
		select {
		case <-changed:
		case <-timer.C:
			return acknowledged
		case <-ctx.Done():
			return 0
		}
	}
}

// Do executes one command as another client would, and returns its reply as
// nil, int64, string or []any. An error reply becomes an error.
func (s *Server) Do(args ...string) (any, error) {
	s.executing.Lock()
	defer s.executing.Unlock()
	s.tick()
	reply, err := dispatch(s.mini.Server(), args)
	if err != nil {
		return nil, err
	}
	return plain(reply)
}

// run executes a script.
func (s *Server) run(call driver.Call) (any, error) {
	s.executing.Lock()
	defer s.executing.Unlock()
	s.tick()
	return s.scripts.run(call)
}

// replySize has room for nearly every reply: as large as buffers usually are, they would cost more than
// the command.
const replySize = 512

// dispatch executes a command, and returns its reply in miniredis's types.
func dispatch(commands *server.Server, args []string) (any, error) {
	var buffer bytes.Buffer
	peer := server.NewPeer(bufio.NewWriterSize(&buffer, replySize))
	commands.Dispatch(peer, args)
	peer.Flush()
	return server.ParseReply(bufio.NewReaderSize(&buffer, replySize))
}

// plain turns miniredis's reply types into the port's.
func plain(reply any) (any, error) {
	switch r := reply.(type) {
	case nil, int64, string:
		return r, nil
	case int:
		return int64(r), nil
	case []byte:
		return string(r), nil
	case server.Simple:
		return string(r), nil
	case error:
		return nil, r
	case []any:
		items := make([]any, len(r))
		for i, item := range r {
			var err error
			if items[i], err = plain(item); err != nil {
				return nil, err
			}
		}
		return items, nil
	default:
		return nil, fmt.Errorf("memdriver: reply of type %T", reply)
	}
}

// Driver is one client of a server.
type Driver struct {
	server *Server

	mu         sync.Mutex
	faults     func(driver.Call) Fault // nil: none
	listeners  map[*listener]struct{}
	noMessages bool // they are lost
}

var _ driver.Driver = (*Driver)(nil)

// Driver returns a new client of the server.
func (s *Server) Driver() *Driver {
	return &Driver{server: s, listeners: map[*listener]struct{}{}}
}

// Check returns an error if the driver is nil, or was not made by [Server.Driver].
func (d *Driver) Check() error {
	if d == nil || d.server == nil {
		return errors.New("memdriver: there is no server")
	}
	return nil
}

// Slotted reports false: there is one node.
func (d *Driver) Slotted() bool { return false }

// PublishCommand returns PUBLISH.
func (d *Driver) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }

// Eval runs a script, subject to the faults.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	d.mu.Lock()
	faults := d.faults
	d.mu.Unlock()
	if faults == nil {
		return d.execute(call)
	}
	return d.suffer(ctx, call, faults(call))
}

// EvalReplicated runs a script, subject to the faults, and then waits until as
// many replicas acknowledge as [Server.SetReplicas] has to say.
func (d *Driver) EvalReplicated(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	reply, err := d.Eval(ctx, call)
	if err != nil {
		return nil, 0, err
	}
	return reply, d.server.wait(ctx, replicas, timeout), nil
}

// execute runs a script without faults.
func (d *Driver) execute(call driver.Call) (any, error) {
	reply, err := d.server.run(call)
	if err != nil {
		return nil, driver.ServerError(err.Error(), err)
	}
	return reply, nil
}

var errLost = errors.New("memdriver: the answer was lost")

// lost waits like a client to which nothing comes.
func lost(ctx context.Context) error {
	<-ctx.Done()
	return driver.ConnectionError(errors.Join(errLost, ctx.Err()), false)
}

// pause waits for d, or reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
