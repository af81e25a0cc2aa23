package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverStart = 10 * time.Second // for it to answer
	serverStop  = 5 * time.Second  // after SIGTERM, before SIGKILL
	portTries   = 5
)

var errEnded = errors.New("before it answered")

// A server is a redis-server process of our own.
type server struct {
	addr string
	bus  string // the port for the other nodes of a cluster; empty if it is in none
	dir  string
	pid  int
	stop context.CancelFunc // asks it to end
	done chan error         // delivers what came of it
}

// withServer calls f with the address of a server: the one named, or one of our own
// that ends after f.
func withServer(ctx context.Context, named string, f func(addr string) error) (err error) {
	if named != "" {
		return f(named)
	}
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return f(s.addr)
}

// startServer starts a redis-server that keeps nothing on disk, on a free port
// of the loopback interface, and returns when it answers. More arguments may follow its own.
func startServer(ctx context.Context, more ...string) (*server, error) {
	var failed error
	for range portTries { // between our choice of a port and its bind another may take it
		s, err := tryServer(ctx, more)
		if err == nil {
			return s, nil
		}
		failed = err
		if ctx.Err() != nil || errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	return nil, failed
}

func tryServer(ctx context.Context, more []string) (_ *server, err error) {
	addr, port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, dir: dir, done: make(chan error, 1)}
	if err := s.launch(port, more); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.answers(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// freePort returns an address that nobody listens on.
func freePort(ctx context.Context) (addr, port string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = l.Addr().String()
	_, port, err = net.SplitHostPort(addr)
	return addr, port, errors.Join(err, l.Close())
}

// launch starts the process and the goroutine that waits for it.
func (s *server) launch(port string, more []string) error {
	// Not the context of the run: the server outlives it, until close.
	ctx, cancel := context.WithCancel(context.Background())
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log"),
	}, more...)
	cmd := exec.CommandContext(ctx, "redis-server", args...) //nolint:gosec // numbers, and our own directory
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = serverStop
	if err := cmd.Start(); err != nil {
		cancel()
		return fmt.Errorf("starting redis-server (or name one with --redis): %w", err)
	}
	s.stop, s.pid = cancel, cmd.Process.Pid
	go func() { s.done <- cmd.Wait() }()
	return nil
}

// answers returns nil once this very process answers at the address.
func (s *server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer rdb.Close() //nolint:errcheck // it has nothing to lose
	for {
		info, err := rdb.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] == strconv.Itoa(s.pid) {
			return nil
		}
		select {
		case ended := <-s.done:
			s.done <- ended // for close
			return fmt.Errorf("redis-server has ended (%w); its log:\n%s", errors.Join(errEnded, ended), s.log())
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond): // between two questions
		}
	}
}

func (s *server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// close ends the process, waits for it, and removes its directory.
func (s *server) close() error {
	s.stop()
	err := <-s.done
	if errors.Is(err, context.Canceled) { // it ended as it was asked to
		err = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
