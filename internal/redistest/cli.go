package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const cliLimit = 10 * time.Second

// Cli runs one command on the server through redis-cli, with the server's TLS
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
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// -e makes an error reply an exit status.
	all := []string{"-e", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port)}
	if s.cfg.tls {
		all = append(all, "--tls", "--cacert", caFile(s.dir))
	}
	cmd := exec.CommandContext(ctx, "redis-cli", append(all, args...)...)
	if s.cfg.password != "" {
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+s.cfg.password)
	}
	raw, err := cmd.CombinedOutput()
	out := strings.TrimSpace(string(raw))
	if ctx.Err() != nil {
		err = fmt.Errorf("no reply after %v", limit)
	}
	if err != nil {
		return "", fmt.Errorf("redis-cli %s on %s: %w: %s", strings.Join(args, " "), s.Addr(), err, out)
	}
	return out, nil
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
