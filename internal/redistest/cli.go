package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const cliLimit = 10 * time.Second

// Cli runs one command on the server, as redis-cli does, with the server's TLS
// and password, and returns the reply as redis-cli prints it raw, without
// white space around it: an array is one element a line, nil is empty. An
// error reply, or no reply within ten seconds, fails the test. Each call is a
// connection of its own, so WAIT, for one, knows of no earlier write.
func (s *Server) Cli(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.cli(cliLimit, args...)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return out
}

// Ask is Cli for those who expect that it may fail, or take longer than the limit. It may be called
// from any goroutine.
func (s *Server) Ask(limit time.Duration, args ...string) (string, error) {
	return s.cli(limit, args...)
}

// Calls returns how often the server has carried out a command, by its name in
// lower case.
func (s *Server) Calls(t testing.TB, command string) int {
	t.Helper()
	stats := fields(s.Cli(t, "INFO", "commandstats"))["cmdstat_"+command]
	count := 0
	if stats != "" {
		if _, err := fmt.Sscanf(stats, "calls=%d,", &count); err != nil {
			t.Fatalf("redistest: commandstats of %s: %q: %v", command, stats, err)
		}
	}
	return count
}

func (s *Server) cli(limit time.Duration, args ...string) (string, error) {
	out, err := s.call(limit, args)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no reply after %v", limit)
	}
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w", strings.Join(args, " "), s.Addr(), err)
	}
	return strings.TrimSpace(out), nil
}

// call does without a process of redis-cli: tests that poll would start hundreds.
func (s *Server) call(limit time.Duration, args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), limit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if s.clientTLS != nil {
		conn = tls.Client(conn, s.clientTLS)
	}
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	if s.cfg.password != "" {
		if _, err := ask(conn, in, []string{"AUTH", s.cfg.password}); err != nil {
			return "", err
		}
	}
	return ask(conn, in, args)
}

func ask(conn net.Conn, in *bufio.Reader, args []string) (string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Write(request); err != nil {
		return "", err
	}
	return printed(in)
}

// printed reads a RESP2 reply as redis-cli prints it raw.
func printed(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(line[1:])
	switch line[0] {
	case '-':
		return "", errors.New(text)
	case '$', '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", err
		}
		if line[0] == '*' {
			return items(in, n)
		}
		bulk := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(in, bulk)
		return string(bulk[:n]), err
	default:
		return text, nil
	}
}

func items(in *bufio.Reader, n int) (string, error) {
	all := make([]string, n)
	for i := range all {
		var err error
		if all[i], err = printed(in); err != nil {
			return "", err
		}
	}
	return strings.Join(all, "\n"), nil
}

// fields reads lines of "name:value", as INFO and CLUSTER INFO print them.
func fields(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// CallsOf returns how often servers have carried out a command.
func CallsOf(t testing.TB, servers []*Server, command string) (count int) {
	t.Helper()
	for _, s := range servers {
		count += s.Calls(t, command)
	}
	return count
}
