package servers

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/rueidisdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// started starts a server, and returns it as go-redis reaches it, and a connection beside.
func started(t *testing.T, options ...redistest.Option) (*redistest.Server, *kit.Platform, *redis.Client) {
	t.Helper()
	s := redistest.Start(t, options...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return s, kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s)), rdb
}

// onClusters runs a test on a cluster, with each adapter.
func onClusters(t *testing.T, test func(t *testing.T, p *kit.Platform)) {
	t.Helper()
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	for _, p := range kit.Both("cluster", s.Addrs(), kit.OnCluster(s)) {
		p.Sharded = redistest.AtLeast(t, 7, 0)
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

func wantReply(t *testing.T, p *kit.Platform, name, want string, args ...string) {
	t.Helper()
	if got := strings.Join(p.Do(t, name, args...), " "); got != want {
		t.Errorf("%v = %q, want %q", args, got, want)
	}
}

// nothingLeft waits until no key of the lock is left: one who has given up may be granted it before it has left.
func nothingLeft(t *testing.T, p *kit.Platform, k *kit.Kind, name string) {
	t.Helper()
	kit.WaitFor(t, "nothing to be left behind", func() bool {
		return len(k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name)) == 0
	})
}

// turn has a lock waited for, and given back. What is returned says how that went.
func turn(l holdfast.Locker, options ...holdfast.LockOption) <-chan error {
	done := make(chan error, 1)
	go func() {
		h, err := l.Lock(background, options...)
		if err == nil {
			err = h.Unlock()
		}
		done <- err
	}()
	return done
}

// listensOn reports whether one connection listens on a channel of the lock's.
func listensOn(t *testing.T, p *kit.Platform, name, channel string) bool {
	t.Helper()
	return slices.Contains(p.Do(t, name, "PUBSUB", "NUMSUB", channel), "1") ||
		p.Sharded && slices.Contains(p.Do(t, name, "PUBSUB", "SHARDNUMSUB", channel), "1")
}

// process is this binary once more, which runs what its name says in [processes] on a server.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

// What a process is told by its environment.
const (
	processVariable = "HOLDFAST_TEST_PROCESS" // which one it is
	serverVariable  = "HOLDFAST_TEST_SERVER"
	nameVariable    = "HOLDFAST_TEST_NAME" // of a lock, or the number of the process
)

// startProcess starts a process, which ends at the latest with the test.
func startProcess(t *testing.T, which string, s *redistest.Server, name string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), processVariable+"="+which, serverVariable+"="+s.Addr(), nameVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	kit.OK(t, inErr, outErr, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if it has not ended
		_ = cmd.Wait()
	})
	return &process{cmd, in, bufio.NewScanner(out)}
}

// says waits for the process to say something, and returns the rest of it.
func (p *process) says(t *testing.T, what string) string {
	t.Helper()
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), what); ok {
			return rest
		}
	}
	t.Fatalf("the process did not say %q: %v", what, p.out.Err())
	return ""
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	kit.OK(t, p.cmd.Process.Signal(s))
}

// clientOf returns a client of this process, through either adapter, and what closes it.
func clientOf(addr string, throughRueidis bool, lease time.Duration) (*holdfast.Client, func(), error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	d, closeClient := driver.Driver(goredisdriver.New(rdb)), func() { _ = rdb.Close() }
	if throughRueidis {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			return nil, nil, err
		}
		d, closeClient = rueidisdriver.New(client), client.Close
	}
	c, err := testclient.New(d, holdfast.WithLease(lease))
	return c, func() {
		_ = c.Close()
		closeClient()
	}, err
}
