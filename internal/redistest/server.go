package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit   = 20 * time.Second
	pingLimit    = time.Second // for one attempt
	portAttempts = 10
	logTail      = 40 // lines of log shown when a test fails
)

var errPortTaken = errors.New("port taken by another program")

// A Server is a redis-server process that a test owns. It keeps its address
// and its directory when it is restarted.
type Server struct {
	t         testing.TB
	cfg       config
	dir       string
	port      int         // does not change once Start has returned
	clientTLS *tls.Config // nil without TLS

	mu      sync.Mutex
	proc    *process // the latest process; it may have ended
	stopped bool     // suspended by Stop
}

// Start starts a standalone server and returns when it answers. By default it
// keeps nothing on disk and has neither a password nor TLS.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, newConfig(opts))
}

func start(t testing.TB, cfg config) *Server {
	t.Helper()
	requireRedis(t)
	s := &Server{t: t, cfg: cfg, dir: t.TempDir()}
	// Registered after TempDir, so that it runs before the directory goes.
	t.Cleanup(s.cleanup)
	if cfg.tls {
		var err error
		if s.clientTLS, err = writeCertificates(s.dir); err != nil {
			t.Fatalf("redistest: making certificates: %v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.launch(); err != nil {
		t.Fatalf("redistest: starting redis-server: %v", err)
	}
	return s
}

func requireRedis(t testing.TB) {
	t.Helper()
	for _, name := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("redistest: this test needs %s (%v); install it with "+
				"\"apt-get install redis-server\" or \"brew install redis\"", name, err)
		}
	}
}

// launch starts the first process. A port that was free when it was picked may
// be taken when the server binds it; then another one is tried.
func (s *Server) launch() error {
	for range portAttempts {
		port, err := s.cfg.port()
		if err != nil {
			return err
		}
		s.port = port
		if err := os.WriteFile(confFile(s.dir), []byte(s.cfg.file(s.dir, port)), 0o600); err != nil {
			return err
		}
		if err := s.run(); !errors.Is(err, errPortTaken) {
			return err
		}
		releasePort(port)
		if err := os.Remove(logFile(s.dir)); err != nil {
			return err
		}
	}
	return errPortTaken
}

// run starts a process on the present configuration file and waits until it
// answers. The caller holds mu.
func (s *Server) run() error {
	args := []string{confFile(s.dir)}
	if s.cfg.sentinel {
		args = append(args, "--sentinel")
	}
	proc, err := startProcess(logFile(s.dir), s.cfg.variables, "redis-server", args...)
	if err != nil {
		return err
	}
	s.proc, s.stopped = proc, false
	deadline := time.Now().Add(startLimit)
	for {
		if proc.exited() {
			return s.exitError()
		}
		err := s.ready(proc)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w", startLimit, err)
		}
		time.Sleep(pollEvery)
	}
}

// ready returns nil if it is this very process that answers on the port, and
// not some other Redis that was there first.
func (s *Server) ready(proc *process) error {
	// While it loads its data the answer is an error.
	if _, err := s.cli(pingLimit, "PING"); err != nil {
		return err
	}
	info, err := s.cli(pingLimit, "INFO", "server")
	if err != nil {
		return err
	}
	if got, want := fields(info)["process_id"], strconv.Itoa(proc.pid()); got != want {
		return fmt.Errorf("process %s answers, not %s", got, want)
	}
	return nil
}

func (s *Server) exitError() error {
	tail := tailOf(logFile(s.dir))
	if strings.Contains(tail, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("the process ended at once; its log:\n%s", tail)
}

// Addr returns the address that clients connect to, as 127.0.0.1:port.
func (s *Server) Addr() string { return loopback(s.port) }

// TLSConfig returns a client configuration that trusts this server, which the
// caller may change, or nil if the server does not use TLS.
func (s *Server) TLSConfig() *tls.Config { return s.clientTLS.Clone() }

// Kill ends the server as a crash would, with SIGKILL, and returns when the
// process is gone. It does nothing if the server has ended already.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
}

// Shutdown ends the server in an orderly way, with SIGTERM, and returns when
// the process is gone. A suspended server is let go on first.
func (s *Server) Shutdown() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		s.signal(sigCont)
		s.stopped = false
	}
	s.signal(syscall.SIGTERM)
	select {
	case <-s.proc.done:
	case <-time.After(startLimit):
		s.t.Fatalf("redistest: %s has not ended %v after SIGTERM", s.Addr(), startLimit)
	}
}

// Stop suspends the server with SIGSTOP and returns when it no longer runs.
// Its connections stay open, and the kernel accepts new ones, but nothing is
// answered until [Server.Cont].
func (s *Server) Stop() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(sigStop)
	poll(s.t, s.Addr()+" is suspended", func() error {
		is, err := suspended(s.proc.pid())
		if err == nil && !is {
			err = errors.New("still running")
		}
		return err
	})
	s.stopped = true
}

// Cont lets a server suspended by [Server.Stop] go on. It then handles the
// requests that it was sent meanwhile.
func (s *Server) Cont() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(sigCont)
	s.stopped = false
}

// Restart starts the server again, with the same port, directory and
// configuration file, and returns when it answers. If it is still running it
// is killed first. Without [WithAppendOnly] all keys are gone.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	if err := s.run(); err != nil {
		s.t.Fatalf("redistest: restarting %s: %v", s.Addr(), err)
	}
}

// signal fails the test if the process has ended: the test has then not got
// the fault that it asked for. The caller holds mu.
func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v to %s: %v", sig, s.Addr(), err)
	}
}

// Running reports whether the server can be expected to answer.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stopped && !s.proc.exited()
}

func (s *Server) cleanup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
	}
	releasePort(s.port)
	if s.t.Failed() {
		s.t.Logf("last lines of the log of %s:\n%s", s.Addr(), tailOf(logFile(s.dir)))
	}
}

func confFile(dir string) string { return filepath.Join(dir, "redis.conf") }
func logFile(dir string) string  { return filepath.Join(dir, "redis.log") }

func tailOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], "\n")
}
