package neighbours

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Redis has no quotas for users: a neighbour can use up memory, connections and time. docs/security.md has the effects on others.

const lease = 6 * time.Second

// briefly bounds calls that the server refuses until the end of the test.
var briefly = holdfast.WithTimeout(2 * time.Second)

// outlived checks that each hold outlives its lease.
func outlived(t *testing.T, all []*victim) {
	t.Helper()
	end := time.After(lease + time.Second)
	for _, v := range all {
		if v.held == nil {
			continue
		}
		select {
		case <-v.held.Done():
			t.Errorf("%s through %s: %v", v.what, v.client, context.Cause(v.held))
		case <-end:
			return
		}
	}
}

// fill makes the neighbour write keys of its own until stop is called. It returns when the server refuses even small ones.
func (w *town) fill(t *testing.T) (stop func()) {
	t.Helper()
	rdb, ctx := w.neighbour(t), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	full, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for size := 64 << 10; ctx.Err() == nil; {
			err := rdb.Do(ctx, "SET", "theirs:"+kit.Fresh(), strings.Repeat("x", size)).Err()
			switch {
			case err == nil:
			case size > 1:
				size = max(size/8, 1)
			case full != nil && strings.Contains(err.Error(), "OOM"):
				close(full)
				full = nil
			default:
				time.Sleep(10 * time.Millisecond) // what others free is soon taken
			}
		}
	}()
	select {
	case <-full:
	case <-time.After(time.Minute):
		t.Error("the memory is not full")
	}
	return func() { cancel(); <-ended }
}

// wantFull checks that nothing of ours that needs memory is granted.
func (w *town) wantFull(t *testing.T) {
	t.Helper()
	for client, p := range w.ours {
		mu := p.Client(t, briefly).NewMutex("ours:" + kit.Fresh())
		kit.WaitFor(t, client+" to be refused", func() bool { // connections that end give memory back
			var refused *holdfast.BackendError
			err := given(mu.TryLock(background))
			return errors.As(err, &refused) && strings.Contains(err.Error(), "OOM")
		})
	}
}

// TestNeighbourFillsMemory: the neighbour fills the memory of a server that evicts nothing. Holds are renewed and released; new ones are refused,
// with an error that says why, until there is memory again.
func TestNeighbourFillsMemory(t *testing.T) {
	t.Parallel()
	w := newTown(t, "maxmemory 24mb", "maxmemory-policy noeviction")
	all := w.victims(t, []holdfast.ClientOption{holdfast.WithLease(lease)})
	stop := w.fill(t)
	w.wantFull(t)
	outlived(t, all)
	// Some waiters need memory: for a token, or since they are not listed.
	for _, v := range all {
		kit.OK(t, within(v.giveBack))
	}
	stop()
	w.admin.Do(t, "", "CONFIG", "SET", "maxmemory", "0")
	for _, v := range all {
		if err := within(func() error { return <-v.passed }); err != nil {
			t.Errorf("%s through %s: the waiter: %v", v.what, v.client, err)
		}
	}
}

// TestNeighbourEvicts: the neighbour fills the memory of a server that evicts. Locks vanish, and their holders notice at the next renewal.
func TestNeighbourEvicts(t *testing.T) {
	t.Parallel()
	w := newTown(t, "maxmemory 24mb", "maxmemory-policy allkeys-lru")
	c := w.ours["go-redis"].Client(t, holdfast.WithLease(lease))
	h := kit.Must(t)(c.NewMutex("ours:" + kit.Fresh()).Lock(background))
	name := h.Name()
	kit.WaitFor(t, "the eviction", func() bool {
		for i := range 400 {
			w.succeed(t, "SET", fmt.Sprint("theirs:", time.Now().UnixNano(), i), strings.Repeat("x", 64<<10))
		}
		return len(w.admin.Do(t, name, "KEYS", name)) == 0
	})
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Error("the holder of an evicted lock is not told")
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
}

// hoards are ways to fill buffers of the server with 64 MB: replies that nothing reads, and a request that does not end.
var hoards = map[string]string{
	"replies": strings.Repeat("GET theirs:big\r\n", 64),
	"request": "*3\r\n$3\r\nSET\r\n$8\r\ntheirs:x\r\n$100000000\r\n" + strings.Repeat("x", 64<<20),
}

// TestNeighbourHoards: buffers of the neighbour's connections fill the memory. With a bound on them the server closes such a connection instead.
func TestNeighbourHoards(t *testing.T) {
	t.Parallel()
	for what, requests := range hoards {
		for _, bounded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, bounded %v", what, bounded), func(t *testing.T) {
				t.Parallel()
				directives := []string{"maxmemory 48mb"}
				if bounded && !redistest.AtLeast(t, 7, 0) { // for each connection
					directives = append(directives, "client-output-buffer-limit normal 16mb 16mb 1", "client-query-buffer-limit 16mb")
				} else if bounded {
					directives = append(directives, "maxmemory-clients 16mb")
				}
				w := newTown(t, directives...)
				all := w.victims(t, []holdfast.ClientOption{holdfast.WithLease(lease)}, "go-redis")
				w.succeed(t, "SET", "theirs:big", strings.Repeat("x", 1<<20))
				conn, err := net.Dial("tcp", w.nodes[0].Addr())
				kit.OK(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, "AUTH theirs pw\r\n"+requests)
				if bounded {
					kit.WaitFor(t, "the end of the neighbour's connection", func() bool {
						_, err := io.WriteString(conn, "PING\r\n")
						return err != nil
					})
					kit.Unlock(t, kit.Must(t)(w.ours["rueidis"].Client(t).NewMutex("ours:"+kit.Fresh()).TryLock(background)))
				} else {
					kit.OK(t, err)
					kit.WaitFor(t, "the memory to be full", func() bool {
						_, err := w.nodes[0].Ask(patience, "SET", "any", "value")
						return err != nil && strings.Contains(err.Error(), "OOM")
					})
					outlived(t, all)
					kit.OK(t, conn.Close())
				}
				w.relieve(t, all)
			})
		}
	}
}

// TestNeighbourScriptMemory: a script may have more in memory than maxmemory allows.
func TestNeighbourScriptMemory(t *testing.T) {
	t.Parallel()
	w := newTown(t, "maxmemory 24mb")
	h := kit.Must(t)(w.ours["go-redis"].Client(t).NewMutex("ours:" + kit.Fresh()).TryLock(background))
	w.succeed(t, "EVAL", "return #string.rep('x', 64 * 1024 * 1024)", 0)
	kit.Unlock(t, h)
}

// TestNeighbourTakesConnections: without even a password, the neighbour opens connections until the server refuses more. Our connections stay, so holds are renewed and
// released, and waiters get their locks; a new client fails with an error that says why.
func TestNeighbourTakesConnections(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	all := w.victims(t, []holdfast.ClientOption{holdfast.WithLease(lease)}, "rueidis")
	w.admin.Do(t, "", "CONFIG", "SET", "maxclients", "100")
	var conns []net.Conn
	for full := false; !full; {
		conn, err := net.Dial("tcp", w.nodes[0].Addr())
		kit.OK(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		_, err = io.WriteString(conn, "PING\r\n")
		reply := make([]byte, 64)
		n, readErr := conn.Read(reply)
		full = err != nil || readErr != nil || strings.Contains(string(reply[:n]), "max number of clients")
	}
	_, err := w.ours["go-redis"].Client(t, briefly).NewMutex("ours:" + kit.Fresh()).TryLock(background)
	if err == nil || !strings.Contains(err.Error(), "max number of clients") {
		t.Errorf("a new client: %v", err)
	}
	outlived(t, all)
	w.relieve(t, all)
	if len(conns) < 10 {
		t.Errorf("the neighbour got %d connections", len(conns))
	}
}

// TestNeighbourOccupies: the neighbour sends one slow command after the other. Our calls take longer, and no hold ends.
func TestNeighbourOccupies(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	all := w.victims(t, []holdfast.ClientOption{holdfast.WithLease(lease)}, "go-redis")
	fill := []any{"HSET", "theirs:big"}
	for i := range 20_000 {
		fill = append(fill, i, i)
	}
	w.succeed(t, fill...)
	stop := make(chan struct{})
	stopped := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := w.do("HGETALL", "theirs:big"); err != nil {
				stopped <- err
				return
			}
		}
	}()
	outlived(t, all)
	kit.Unlock(t, kit.Must(t)(w.ours["rueidis"].Client(t).NewMutex("ours:"+kit.Fresh()).TryLock(background)))
	close(stop)
	kit.OK(t, <-stopped)
	w.relieve(t, all)
}
