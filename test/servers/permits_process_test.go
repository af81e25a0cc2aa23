package servers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Several processes want the permits of one semaphore, some of them two at once,
// and one is killed while it holds some. Never are more held than there are, and
// all of them at times.
func TestPermitsOfProcesses(t *testing.T) {
	t.Parallel()
	const permits = 3
	s := redistest.Start(t)
	p := kit.GoRedis("processes", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s))
	sem := p.Client(t).NewPermitSemaphore("permits")
	if err := sem.SetPermits(background, permits); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	changes := map[int64]int{} // when so many permits more were held, or fewer
	var holders [3]*exec.Cmd
	var inputs [3]io.WriteCloser
	var readers sync.WaitGroup
	heard := make(chan struct{}, 1)
	for i := range holders {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperPermits$")
		cmd.Env = append(os.Environ(), "PERMITS_REDIS="+s.Addr())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if inputs[i], err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		holders[i] = cmd
		readers.Go(func() {
			open := map[string]int{} // what it has taken and not given back
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var what, id string
				var at int64
				var n int
				if _, err := fmt.Sscan(strings.TrimPrefix(lines.Text(), "holder: "), &what, &id, &at, &n); err != nil {
					continue // the test binary's own words
				}
				mu.Lock()
				changes[at] += n
				open[id] += n
				mu.Unlock()
				select {
				case heard <- struct{}{}:
				default:
				}
			}
			// Killed, it holds them until their leases end, and surely until now.
			mu.Lock()
			defer mu.Unlock()
			for _, n := range open {
				changes[kit.Now()] -= n
			}
		})
	}
	<-heard
	time.Sleep(700 * time.Millisecond) // they work
	if err := holders[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(7 * time.Second) // they work on, and what the dead one had comes back
	for i, cmd := range holders {
		_ = inputs[i].Close()
		if err := cmd.Wait(); err != nil && i > 0 {
			t.Errorf("process %d: %v", i, err)
		}
	}
	readers.Wait()
	held, most := 0, 0
	var times []int64
	for at := range changes {
		times = append(times, at)
	}
	slices.Sort(times)
	for _, at := range times {
		held += changes[at]
		most = max(most, held)
	}
	if most > permits || most < 2 {
		t.Errorf("%d permits were held at once, of %d", most, permits)
	}
	if held != 0 {
		t.Errorf("%d are still held", held)
	}
	kit.WaitFor(t, "all permits to be back", func() bool {
		n, err := kit.Available(sem)
		return err == nil && n == permits
	})
	t.Logf("%d changes", len(times))
}

// TestHelperPermits is one of those processes. It ends with its standard input.
func TestHelperPermits(t *testing.T) {
	addr := os.Getenv("PERMITS_REDIS")
	if addr == "" {
		return // not a test of its own
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	c, err := testclient.New(goredisdriver.New(rdb), holdfast.WithLease(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
		close(stop)
	}()
	var said sync.Mutex
	tell := func(what string, id, n int) {
		said.Lock()
		defer said.Unlock()
		say(fmt.Sprintf("%s %d %d %d", what, id, kit.Now(), n))
	}
	sem := c.NewPermitSemaphore("permits")
	var workers sync.WaitGroup
	for id := range 4 {
		workers.Go(func() {
			n := 1 + id%2
			for {
				select {
				case <-stop:
					return
				default:
				}
				h := kit.Must(t)(sem.Acquire(background, n))
				tell("took", id, n)
				time.Sleep(3 * time.Millisecond) // the work
				tell("gave", id, -n)
				kit.Unlock(t, h)
			}
		})
	}
	workers.Wait()
}
