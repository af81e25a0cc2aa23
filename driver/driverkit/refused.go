package driverkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// firstLimit and laterLimit bound how long Explain waits for servers after a connection was closed. The first limit applies to
	// the first failure since the last reply: that connection was probably in use, and the call will soon be repeated.
	firstLimit = 20 * time.Millisecond
	laterLimit = 200 * time.Millisecond
	// askedFor is how long no other question is asked, and saidFor how long a refusal is repeated though a later question was not
	// answered in time.
	askedFor = 500 * time.Millisecond
	saidFor  = 5 * time.Second
	// maxAsked is the largest number of servers that Ask connects to.
	maxAsked = 16
)

// Dial opens a connection to a server. It returns soon after ctx has ended.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// Refused finds out whether servers refuse connections. A server that has as many connections as its maxclients allows sends an
// error reply as soon as another one is open, and closes it. A client that has already sent a request may
// report only that the connection was closed. The zero value is ready.
type Refused struct {
	closed atomic.Bool // a connection was closed, and there was no reply since then

	mu    sync.Mutex // held while servers are asked
	asked time.Time
	says  string
	said  time.Time // when a server said so
}

// Explain takes the error of each call, a [*driver.Error] or nil, and returns it. If the error is a closed connection, Explain
// connects to the servers, and adds the refusal of one. That takes up to 20 ms if the call before succeeded, otherwise up to 200 ms.
func (r *Refused) Explain(err error, servers func() (addrs []string, dial Dial)) error {
	if err == nil {
		if r.closed.Load() {
			r.forget()
		}
		return nil
	}
	var failed *driver.Error
	if !wasClosed(err) || !errors.As(err, &failed) {
		return err
	}
	limit := laterLimit
	if !r.closed.Swap(true) {
		limit = firstLimit
	}
	addrs, dial := servers()
	says := r.Ask(limit, addrs, dial)
	if says == "" {
		return err
	}
	own := *failed
	own.Err = fmt.Errorf("%w: %s", failed.Err, says)
	return &own
}

// wasClosed reports whether an error means that the server has closed the connection.
func wasClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Ask connects to the servers, and returns the address and the refusal of one; "" if none refuses within limit. For half a second it
// returns the same again, and connects to none. For five seconds a refusal stands although a later question is not answered in time.
func (r *Refused) Ask(limit time.Duration, addrs []string, dial Dial) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < askedFor {
		return r.says
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	addrs = addrs[:min(len(addrs), maxAsked)]
	answers := make(chan string, len(addrs))
	for _, addr := range addrs {
		go func() { answers <- ask(ctx, addr, dial) }() // ends soon after ctx
	}
	if time.Since(r.said) > saidFor {
		r.says = ""
	}
	for range addrs {
		select {
		case says := <-answers:
			if says != "" {
				r.says, r.said = says, time.Now()
			}
		case <-ctx.Done():
		}
	}
	if r.says != "" || limit > firstLimit { // else the servers had little time
		r.asked = time.Now()
	}
	return r.says
}

// forget begins anew after a reply: the servers accept connections.
func (r *Refused) forget() {
	r.closed.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.says, r.asked = "", time.Time{}
}

// ask connects to one server. A server that accepts the connection sends nothing before a request. ask sends no request: a server
// that refuses would reset the connection, and its refusal could be lost.
func ask(ctx context.Context, addr string, dial Dial) string {
	conn, err := dial(ctx, addr)
	if err != nil {
		return ""
	}
	defer conn.Close() //nolint:errcheck // nothing depends on it any more
	end, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(end)                     // or the caller does not wait for it
	line, _ := bufio.NewReader(conn).ReadString('\n') // what was said is there whatever fails
	if message, refuses := strings.CutPrefix(strings.TrimSpace(line), "-"); refuses && IsRefusal(message) {
		return addr + " refuses connections: " + message
	}
	return ""
}

// IsRefusal reports whether a server refuses connections by an error reply, which comes without its leading dash, and
// possibly without its leading ERR.
func IsRefusal(message string) bool {
	return strings.HasPrefix(strings.TrimPrefix(message, "ERR "), "max number of clients")
}
