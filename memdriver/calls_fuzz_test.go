package memdriver

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// FuzzCalls has bytes say what two clients do with one lock, and which of their calls, replies and messages are lost or
// late. Holds never overlap, the count in Redis is never less than the holds that are trusted, and
// when all has been unlocked nothing is left.
func FuzzCalls(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x00\x10\x08", "\x00\x00\x02\x01\x10\x11", "\x00\x00\x20\x21\x10\x08\x00\x30", "\x00\x44\x00\x21\x06\x07\x16\x30\x08\x09",
		"\x00\x00\x05\x40\x10\x18\x30", "\x00\x50\x00\x30\x30\x01\x08", "\x00\x47\x00\x0f\x00\x0f\x01\x0f\x08\x0f\x08", "\x01\x00\x01\x10\x11\x31\x08\x09\x00",
		"\x02\x00\x01\x21\x10\x30\x30\x08\x09", "\x03\x00\x00\x10\x01\x08\x08\x09", "\x04\x00\x01\x00\x01\x08\x09\x08\x09",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 60 {
			return
		}
		synctest.Test(t, func(t *testing.T) { newProgram(t, data).run() })
	})
}

// fuzzedLock is a lock that a program uses.
type fuzzedLock interface {
	holdfast.Locker
	Inspect(ctx context.Context) (holdfast.State, error)
}

// program is what the bytes say.
type program struct {
	t       *testing.T
	server  *Server
	drivers [2]*Driver
	clients [2]*holdfast.Client
	locks   [2]fuzzedLock
	steps   []byte
	holds   [2][]*holdfast.Hold // of each client, the outermost first
	faulty  bool                // a call may not have been answered
}

const fuzzedLease = 2 * time.Second

func newProgram(t *testing.T, data []byte) *program {
	p := &program{t: t, server: newServer(t), steps: data[1:]}
	for i := range p.clients {
		p.drivers[i] = p.server.Driver()
		c, err := holdfast.New(p.drivers[i], holdfast.WithLease(fuzzedLease), holdfast.WithTimeout(time.Second), holdfast.WithoutIdentity())
		if err != nil {
			t.Fatal(err)
		}
		p.clients[i] = c
		switch data[0] % 5 {
		case 0:
			p.locks[i] = c.NewMutex("x")
		case 1:
			p.locks[i] = c.NewMutex("x", holdfast.Fenced())
		case 2:
			p.locks[i] = c.NewFairMutex("x")
		case 3:
			p.locks[i] = c.NewRWMutex("x")
		default:
			p.locks[i] = c.NewMutex("x", holdfast.NonReentrant())
		}
	}
	return p
}

// run does what each byte says: its lowest bit is the client, the next three what it does, and the rest how.
func (p *program) run() {
	for _, b := range p.steps {
		who, what, how := int(b&1), b>>1&7, b>>4
		d := p.drivers[who]
		switch what {
		case 0:
			p.lock(who, p.t.Context(), how)
		case 1:
			if n := len(p.holds[who]); n > 0 {
				p.lock(who, p.holds[who][n-1].Context(), how)
			}
		case 2, 3:
			p.faulty = true
			d.SetFaults(once(d, fault(how)))
		case 4:
			p.unlock(who, int(how))
		case 5:
			d.LoseMessages(how%2 == 0)
		case 6:
			time.Sleep(time.Duration(how+1) * 130 * time.Millisecond)
		default:
			if n := len(p.holds[who]); n > 0 {
				_ = p.holds[who][n-1].Extend(p.t.Context(), time.Duration(how+1)*200*time.Millisecond) // it may fail
			}
		}
		p.check()
	}
	p.end()
}

// fault is one of those that a call may suffer.
func fault(how byte) Fault {
	return [...]Fault{
		{LoseRequest: true},
		{LoseReply: true},
		{DelayRequest: 100 * time.Millisecond},
		{DelayRequest: 500 * time.Millisecond},
		{DelayRequest: 1500 * time.Millisecond},
		{DelayReply: 300 * time.Millisecond},
		{DelayReply: 2 * time.Second},
		{Repeat: true},
		{Refuse: errors.New("refused")},
		{LoseReply: true, Repeat: true, RepeatAfter: 200 * time.Millisecond},
	}[int(how)%10]
}

// once has the next call suffer, and no other.
func once(d *Driver, f Fault) func(driver.Call) Fault {
	return func(driver.Call) Fault {
		d.SetFaults(nil)
		return f
	}
}

func (p *program) lock(who int, ctx context.Context, how byte) {
	lock := func() (*holdfast.Hold, error) { return p.locks[who].TryLock(ctx) }
	if how%2 == 1 {
		wait := holdfast.Wait(time.Duration(how) * 60 * time.Millisecond)
		lock = func() (*holdfast.Hold, error) { return p.locks[who].Lock(ctx, wait) }
	}
	hold, err := lock()
	if (hold == nil) == (err == nil) {
		p.t.Fatalf("%v, %v", hold, err)
	}
	if hold != nil {
		p.holds[who] = append(p.holds[who], hold)
	}
}

func (p *program) unlock(who, which int) {
	if n := len(p.holds[who]); n > 0 {
		i := which % n
		hold := p.holds[who][i]
		p.holds[who] = append(p.holds[who][:i:i], p.holds[who][i+1:]...)
		_ = hold.Unlock() // it may be lost, or Redis may not answer
	}
}

// trusted is how many holds of a client are trusted.
func (p *program) trusted(who int) (n int) {
	for _, h := range p.holds[who] {
		if h.Context().Err() == nil {
			n++
		}
	}
	return n
}

func (p *program) check() {
	a, b := p.trusted(0), p.trusted(1)
	if a > 0 && b > 0 {
		p.t.Fatalf("both are inside, %d and %d times", a, b)
	}
	for who, n := range []int{a, b} {
		owners := map[holdfast.Owner]int{}
		for _, h := range p.holds[who] {
			if h.Context().Err() == nil {
				owners[h.Owner()]++
			}
		}
		if len(owners) > 1 {
			p.t.Fatalf("two owners of one client are inside, %d holds: %v", n, owners)
		}
		for owner, n := range owners {
			field := owner.String()
			if _, isRW := p.locks[who].(*holdfast.RWMutex); isRW {
				field += ":write"
			}
			text, err := p.server.Do("HGET", "x", field)
			count, ok := text.(string)
			if at, failed := strconv.Atoi(count); err != nil || !ok || failed != nil || at < n {
				p.t.Fatalf("%d holds are trusted, and Redis has %v, %v", n, text, err)
			}
		}
	}
}

// end gives everything back, and looks at what is left.
func (p *program) end() {
	for who, d := range p.drivers {
		d.SetFaults(nil)
		d.LoseMessages(false)
		for len(p.holds[who]) > 0 {
			p.unlock(who, 0)
		}
	}
	pause := fuzzedLease / 10 // who has given up leaves a fair lock's line in the background
	if p.faulty {
		pause = 2*fuzzedLease + 5*time.Second // what was not answered is over by then
	}
	time.Sleep(pause)
	state, err := p.locks[0].Inspect(p.t.Context())
	if err != nil || len(state.Holders) > 0 || len(state.Waiters) > 0 {
		p.t.Errorf("held, when all was given back: %+v, %v", state, err)
	}
	for _, c := range p.clients {
		if err := c.Close(); err != nil {
			p.t.Error(err)
		}
	}
	left, err := p.server.Do("KEYS", "*")
	if err != nil {
		p.t.Error(err)
	}
	for _, key := range left.([]any) {
		if key != "redisson_lock_token:{x}" {
			p.t.Errorf("%q is left", key)
		}
	}
	if channels, err := p.server.Do("PUBSUB", "CHANNELS"); err != nil || len(channels.([]any)) > 0 {
		p.t.Errorf("%v, %v", channels, err)
	}
}
