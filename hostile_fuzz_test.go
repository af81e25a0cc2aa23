package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/anyreply"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// hostileServer answers whatever it likes.
type hostileServer struct {
	mu      sync.Mutex
	replies *anyreply.Reader
	granted int // how many acquires it has answered as one of ours that grants
}

func (h *hostileServer) Eval(ctx context.Context, call driver.Call) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || h.replies.Done() {
		return nil, driver.ConnectionError(errors.New("gone"), false)
	}
	reply := h.replies.Reply()
	if found, err := script.Parse(reply); err == nil && found.Code == script.Done && grants(call.Script.Name()) {
		h.granted++
	}
	return reply, nil
}

func grants(name string) bool {
	return strings.HasSuffix(name, "acquire") || strings.HasSuffix(name, "adopt")
}

func (h *hostileServer) EvalReplicated(ctx context.Context, call driver.Call, _ int, _ time.Duration) (any, int, error) {
	reply, err := h.Eval(ctx, call)
	return reply, 1 << 30, err
}

func (*hostileServer) Check() error                                   { return nil }
func (*hostileServer) Slotted() bool                                  { return false }
func (*hostileServer) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }
func (*hostileServer) Listen(func(driver.Event)) driver.Listener      { return silentListener{} }

type silentListener struct{}

func (silentListener) Subscribe(string)   {}
func (silentListener) Unsubscribe(string) {}
func (silentListener) Close()             {}

// FuzzHostileServer has a client of every kind of lock answered anything. Nothing may panic or
// hang; nothing is granted unless a reply says so; no call returns neither a hold nor an error, nor both;
// and no error brings a control character to a terminal.
func FuzzHostileServer(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x87", "\x01\xa0\x00", "\x02\xa4\x01\xc8\x01\x5a\x051 2 3", "\x00\x8f\x02\x32\x0c\x5a\x04a\x1b[m",
		"\x04\x87\x87\xa3\x04\x32\x0c\x32\x0c\x32\x0c\x32\x0c", "\x05\xa2\x00\xa2\x00\x87", "\x06\x87\xc8\x02", "\x07\xa3\x07\x32\x00\x32\x00\x32\x00\x32\x00\x32\x00\x32\x00\x32\x00",
		"\x08\xa3\x05\x32\x00\x32\x00\x32\x0c\x32\x01\x32\x0c", "\x09\xa4\x04\x32\x0c\x5a\x80\x0a\xc8\x04\x5a\x01o\x5a\x00\x5a\x80\x0c\x5a\x80\x0c\xc8\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			replies := anyreply.New(data)
			which := replies.Byte()
			server := &hostileServer{replies: replies}
			c, err := New(server, WithTimeout(300*time.Millisecond), WithLease(time.Second), WithoutIdentity())
			if which >= 128 {
				c, err = New(server, WithTimeout(300*time.Millisecond), WithLease(time.Second))
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }() // what it says is about a server that has gone
			h := &hostileCalls{t: t, client: c, server: server}
			h.use(int(which))
		})
	})
}

// hostileCalls are the calls of one client.
type hostileCalls struct {
	t      *testing.T
	client *Client
	server *hostileServer
	held   int // how many holds it got
}

func (h *hostileCalls) use(which int) {
	ctx, c := h.t.Context(), h.client
	locks := []Inspector{
		c.NewMutex("x"), c.NewMutex("x", Fenced()), c.NewFairMutex("x"), c.NewRWMutex("x").RLocker(), c.NewRWMutex("x"), c.NewPermitSemaphore("x"),
	}
	l := locks[which%len(locks)]
	if hold := h.took(l.TryLock(ctx)); hold != nil {
		h.took(l.Lock(hold.Context(), Wait(time.Second)))
		h.said(hold.Extend(ctx, time.Second))
		time.Sleep(time.Second) // renewals
		h.said(hold.Unlock())
	}
	state, err := l.Inspect(ctx)
	h.said(err)
	if err == nil && state.TTL < 0 {
		h.t.Errorf("%+v", state)
	}
	_, err = l.ForceUnlock(ctx)
	h.said(err)
	h.took(l.Lock(ctx, Wait(2*time.Second), FixedLease(time.Minute)))
	sem, latch := c.NewUnleasedSemaphore("x"), c.NewLatch("x")
	_, err = sem.Inspect(ctx)
	h.said(err)
	h.said(sem.Acquire(ctx, 1, Wait(time.Second)))
	h.said(latch.Await(ctx, Wait(time.Second)))
	h.said(latch.CountDown())
	_, err = c.Who(ctx, Owner{"99f17b91-c6cc-889e-88f6-8265bee545cf:1"})
	h.said(err)
}

// took checks what an acquire has returned.
func (h *hostileCalls) took(hold *Hold, err error) *Hold {
	if (hold == nil) == (err == nil) {
		h.t.Errorf("%v, %v", hold, err)
	}
	h.said(err)
	if hold == nil {
		return nil
	}
	h.held++
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if h.held > h.server.granted {
		h.t.Errorf("%d holds, and %d were granted", h.held, h.server.granted)
	}
	if left := time.Until(hold.Deadline()); left > protocol.MaxLeaseMillis*time.Millisecond {
		h.t.Errorf("it is trusted for %v", left)
	}
	return hold
}

// said checks an error's text. What a server refuses a message with is its own words.
func (h *hostileCalls) said(err error) {
	if err != nil && !errors.Is(err, ErrUntold) && strings.ContainsFunc(err.Error(), unicode.IsControl) {
		h.t.Errorf("an error with control characters: %q", err.Error())
	}
}
