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
	// firstLimit and laterLimit bound how long servers are asked when a connection was closed: the first since the last reply was
	// probably in use, and the call is to be repeated soon.
	firstLimit = 20 * time.Millisecond
	laterLimit = 200 * time.Millisecond
	// askedFor is the time for which the answer is used again.
	askedFor = 500 * time.Millisecond
	// maxAsked is how many servers are asked at most.
	maxAsked = 16
)

// Dial opens a connection to a server. It returns soon after ctx has ended.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// Refused finds out whether servers refuse connections, as a server does that has as many as its maxclients allows: it sends an
// error as soon as the connection is open, and closes it. A client that has sent a request by then may
// report only that the connection was closed. The zero value is ready.
type Refused struct {
	closed atomic.Bool // a connection was closed, and there was no reply since then

	mu    sync.Mutex // held while servers are asked
	asked time.Time
	says  string
}

// Explain is told the error of each call, a [*driver.Error] or nil, and returns it. If it says that the connection was closed,
// Explain asks the servers, and adds how one refuses connections. That takes 20 ms at most after a reply, else 200.
func (r *Refused) Explain(err error, servers func() (addrs []string, dial Dial)) error {
	if err == nil {
		if r.closed.Load() {
			r.closed.Store(false)
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

// wasClosed reports whether an error says that the other side has closed the connection.
func wasClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Ask returns which of the servers refuses connections, and how it says so; "" if none does within limit. It makes a connection
// to each, unless it has done so a moment ago.
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
	r.says = ""
	for range addrs {
		select {
		case says := <-answers:
			if says != "" {
				r.says = says
			}
		case <-ctx.Done():
		}
	}
	r.asked = time.Now()
	return r.says
}

// ask listens to one server. One that accepts the connection waits for a request, and says nothing. None is sent: the reply to
// it could be that the connection is reset, and what the server has said would be lost.
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
