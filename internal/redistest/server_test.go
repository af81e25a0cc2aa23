package redistest_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestStart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithConfig("maxmemory 10mb"))
	if got := s.Cli(t, "PING"); got != "PONG" {
		t.Errorf("PING: %q", got)
	}
	if got := s.Cli(t, "CONFIG", "GET", "maxmemory"); got != "maxmemory\n10485760" {
		t.Errorf("CONFIG GET maxmemory: %q", got)
	}
	if s.TLSConfig() != nil {
		t.Error("there is a TLS configuration without TLS")
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithPassword("open sesame"))
	if got := s.Cli(t, "PING"); got != "PONG" {
		t.Errorf("PING: %q", got)
	}
	if got := ping(t, dial(t, s.Addr())); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("PING without a password: %q, want -NOAUTH", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("pw"), redistest.WithAppendOnly())
	s.Cli(t, "SET", "k", "v")
	conn := tlsClient(t, s.Addr(), s)
	if got := ping(t, conn); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("PING: %q, want -NOAUTH", got)
	}
	stranger := tls.Client(dial(t, s.Addr()), &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	var unknown *tls.CertificateVerificationError
	if err := stranger.Handshake(); !errors.As(err, &unknown) {
		t.Errorf("handshake without the authority: %v", err)
	}
	s.Kill()
	s.Restart()
	if got := s.Cli(t, "GET", "k"); got != "v" {
		t.Errorf("after a restart: %q, want v", got)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	t.Run("append only", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, redistest.WithAppendOnly())
		addr := s.Addr()
		s.Cli(t, "SET", "k", "v")
		s.Kill()
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Error("a killed server accepts connections")
		}
		s.Restart()
		if got := s.Cli(t, "GET", "k"); got != "v" || s.Addr() != addr {
			t.Errorf("after Kill: %q at %s, want v at %s", got, s.Addr(), addr)
		}
		s.Shutdown()
		s.Restart()
		if got := s.Cli(t, "GET", "k"); got != "v" {
			t.Errorf("after Shutdown: %q, want v", got)
		}
	})
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Cli(t, "SET", "k", "v")
		s.Restart()
		if got := s.Cli(t, "GET", "k"); got != "" {
			t.Errorf("after Restart: %q, want nothing", got)
		}
	})
}

func TestStopAndCont(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	conn := dial(t, s.Addr())
	s.Stop()
	send(t, conn, "PING")
	if got, err := receive(conn, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a suspended server sent %q, %v", got, err)
	}
	s.Cont()
	if got, err := receive(conn, replyLimit); got != "+PONG\r\n" {
		t.Fatalf("after Cont: %q, %v", got, err)
	}
	s.Stop()
	s.Shutdown()
}

func TestCleanupEndsSuspendedServer(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("leaves a suspended server", func(t *testing.T) {
		s := redistest.Start(t)
		addr = s.Addr()
		s.Stop()
	})
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the server is still there")
	}
}
