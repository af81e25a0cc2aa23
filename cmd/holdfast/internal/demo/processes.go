package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

// What a [Holder] can hold.
const (
	mutexKind     = "mutex"
	semaphoreKind = "semaphore"
)

// Holder is a process that holds a lock.
type Holder struct{ command *exec.Cmd }

// StartHolder starts a command that runs [Hold], and returns when it holds.
func StartHolder(command *exec.Cmd) (*Holder, error) {
	_, inErr := command.StdinPipe() // it ends with this process
	stdout, outErr := command.StdoutPipe()
	if err := errors.Join(inErr, outErr, command.Start()); err != nil {
		return nil, err
	}
	h := &Holder{command}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the process that was to hold the lock does not: %w", err), h.Kill())
	}
	return h, nil
}

// Pid is the process's number.
func (h *Holder) Pid() int { return h.command.Process.Pid }

// Kill ends the process as a crash would, and returns when it is gone.
func (h *Holder) Kill() error {
	err := h.command.Process.Kill()
	_ = h.command.Wait() // it says that the process was killed
	return err
}

// Hold is the process's part: it holds the lock until it is killed, or until in
// ends, because the process that started it has.
func Hold(
	ctx context.Context, rdb redis.UniversalClient, options []holdfast.ClientOption, kind, name string, lease time.Duration, in io.Reader, out io.Writer,
) (err error) {
	client, err := holdfast.New(goredisdriver.New(rdb), append(options, holdfast.WithLease(lease), holdfast.WithoutIdentity())...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	var lock holdfast.Locker = client.NewMutex(name)
	if kind == semaphoreKind {
		lock = client.NewPermitSemaphore(name)
	}
	hold, err := lock.Lock(ctx, holdfast.Wait(limit))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, hold.Owner()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// Server is a Redis server inside this process, on a port of its own.
type Server struct {
	mini *miniredis.Miniredis
}

// StartServer starts one that executes the real scripts in real time.
func StartServer() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("the embedded server did not start: %w", err)
	}
	return &Server{mini}, nil
}

// URL is where it listens.
func (s *Server) URL() string { return "redis://" + s.mini.Addr() }

// Target is how to connect to it.
func (s *Server) Target() (*connect.Target, error) { return connect.Options{URL: s.URL()}.Resolve() }

// Close stops it.
func (s *Server) Close() { s.mini.Close() }
