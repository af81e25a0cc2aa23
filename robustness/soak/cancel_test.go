package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// moment is where on its way a call is cancelled.
type moment int

const (
	beforeAll moment = iota
	beforeSend
	whileSent
	afterReply
	whileSubscribing
	onceSubscribed
	inLine
	atHandOver
	duringUnlock
	atClose
	moments
)

var momentNames = [moments]string{
	"before the call", "before a send", "while a reply is awaited", "after a reply", "while subscribing", "once subscribed", "in line", "at the hand-over",
	"during Unlock", "at Close",
}

// cancellation cancels a call at a moment that the driver sees.
type cancellation struct {
	at     moment
	cancel context.CancelFunc
	pause  time.Duration
}

// cancelling is a driver that cancels a call at a moment.
type cancelling struct {
	driver.Driver

	next atomic.Pointer[cancellation]
	hit  [moments]atomic.Int64 // how many calls were cancelled there
}

// reached cancels if the cancellation is for this moment.
func (d *cancelling) reached(at moment) {
	c := d.next.Load()
	if c == nil || c.at != at {
		return
	}
	d.hit[at].Add(1)
	if at == whileSent {
		time.AfterFunc(c.pause, c.cancel)
	} else {
		c.cancel()
	}
}

func (d *cancelling) Eval(ctx context.Context, call driver.Call) (any, error) {
	d.reached(beforeSend)
	d.reached(whileSent)
	d.reached(duringUnlock)
	reply, err := d.Driver.Eval(ctx, call)
	d.reached(afterReply)
	return reply, err
}

func (d *cancelling) Listen(sink func(driver.Event)) driver.Listener {
	return &cancellingListener{d.Driver.Listen(func(e driver.Event) {
		if e.Kind == driver.Subscribed {
			d.reached(onceSubscribed)
		}
		sink(e)
	}), d}
}

type cancellingListener struct {
	driver.Listener

	d *cancelling
}

func (l *cancellingListener) Subscribe(channel string) {
	l.Listener.Subscribe(channel)
	l.d.reached(whileSubscribing)
}

// worker makes cancelled calls, one after another, as one process, beside another on the same Redis client.
type worker struct {
	t       *testing.T
	i       int
	driver  *cancelling
	client  clients
	rival   clients // another process
	rng     *rand.Rand
	granted atomic.Int64
	made    [moments]int
}

// TestCancels cancels calls at every point on their way. When all is over nothing is left: no key in Redis
// but those that have to stay, no subscription, no connection, no goroutine.
func TestCancels(t *testing.T) {
	sayAgain(t, fmt.Sprintf("go test ./robustness/soak -run TestCancels -cycles %d -seed %d -v", *cycles, *seed))
	server := redistest.Start(t)
	before := runtime.NumGoroutine()
	const workers = 8
	var sides []*side
	var all []*worker
	for i := range workers {
		w := &worker{t: t, i: i, rng: rand.New(rand.NewPCG(*seed, uint64(i)))}
		s := openSide(t, server, i, long, func(d driver.Driver) driver.Driver {
			w.driver = &cancelling{Driver: d}
			return w.driver
		})
		w.client, w.rival = s.clients, newClients(t, s.driver.(*cancelling).Driver, long)
		sides, all = append(sides, s), append(all, w)
		setUp(t, w.client, strconv.Itoa(i))
	}
	start := time.Now()
	var running sync.WaitGroup
	for _, w := range all {
		running.Go(func() {
			for n := range *cycles / workers {
				w.cycle(lockKinds[n%len(lockKinds)], moment(n/len(lockKinds)%int(moments)))
			}
		})
	}
	running.Wait()
	took := time.Since(start)
	for _, s := range sides {
		s.proxy.Forget() // the requests that it has counted
	}
	resting := rest(t, server, long.forgotten())
	t.Logf("%d calls in %v, and at rest after %v more: %v", *cycles/workers*workers, took.Round(time.Millisecond), time.Since(start)-took, resting)
	if got := resting.keys[identities]; got > 6*workers {
		t.Errorf("%d identities of %d clients", got, 6*workers)
	}
	var granted int64
	var made [moments]int
	var hit [moments]int64
	for _, w := range all {
		granted += w.granted.Load()
		for at := range hit {
			hit[at] += w.driver.hit[at].Load()
		}
		for at, n := range w.made {
			made[at] += n
		}
		for _, c := range []clients{w.client, w.rival} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for at, n := range made {
		t.Logf("%7d %s, %d by the driver", n, momentNames[at], hit[at])
		if n == 0 || moment(at) >= beforeSend && moment(at) <= onceSubscribed && hit[at] == 0 {
			t.Errorf("%d calls %s, and the driver has cancelled %d there", n, momentNames[at], hit[at])
		}
	}
	t.Logf("%7d were granted all the same", granted)
	if granted == 0 || granted == int64(*cycles) {
		t.Errorf("%d of %d calls were granted", granted, *cycles)
	}
	for _, s := range sides {
		s.close()
		s.proxy.Close()
	}
	wantStart(t, server, long, before, 2*workers*len(clients{}))
}

func (w *worker) name(kind string) string { return kind + strconv.Itoa(w.i) }

// cycle is one call that is cancelled, of a lock that is free, or held by another.
func (w *worker) cycle(kind lockKind, at moment) {
	if at == atClose {
		w.closing(kind)
		return
	}
	w.made[at]++
	name := w.name(kind.name)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch at {
	case beforeAll:
		cancel()
	case whileSubscribing, onceSubscribed, inLine, atHandOver:
		holder := w.rival
		if at == atHandOver {
			holder = w.client
		}
		release := w.hold(kind, holder, name)
		defer release()
		if at == atHandOver || w.rng.IntN(2) == 0 { // given back at about the same time
			pause := time.Duration(w.rng.Int64N(int64(2 * time.Millisecond)))
			var both sync.WaitGroup
			both.Go(func() { time.Sleep(pause); release() })
			defer both.Wait()
			defer time.AfterFunc(pause+time.Duration(w.rng.Int64N(int64(100*time.Microsecond))), cancel).Stop()
		} else {
			longest := 5 * time.Millisecond
			if at == whileSubscribing || at == onceSubscribed { // the driver cancels it then, also on a busy machine, if there is anything to subscribe to
				longest = 200 * time.Millisecond
			}
			defer time.AfterFunc(time.Duration(w.rng.Int64N(int64(longest))), cancel).Stop()
		}
	}
	if at != duringUnlock {
		w.driver.next.Store(&cancellation{at: at, cancel: cancel, pause: time.Duration(w.rng.Int64N(int64(300 * time.Microsecond)))})
	}
	hold, err := kind.take(ctx, w.client, name, w.rng.IntN(3))
	w.driver.next.Store(nil)
	if (hold == nil) == (err == nil) {
		w.t.Errorf("%v, %v", hold, err)
	}
	if hold == nil {
		if !errors.Is(err, context.Canceled) {
			w.t.Errorf("%s, %s: %v", kind.name, momentNames[at], err)
		}
		return
	}
	w.granted.Add(1)
	if at == duringUnlock {
		w.driver.next.Store(&cancellation{at: at, cancel: cancel})
		defer w.driver.next.Store(nil)
	}
	if err := hold.Unlock(); err != nil {
		w.t.Errorf("%s, %s: Unlock: %v", kind.name, momentNames[at], err)
	}
}

// hold takes the lock, all of it, and returns what gives it back, once.
func (w *worker) hold(kind lockKind, c clients, name string) (release func()) {
	hold, err := kind.all(context.Background(), c, name)
	if err != nil {
		w.t.Errorf("%s: the other one's Lock: %v", kind.name, err)
		return func() {}
	}
	return sync.OnceFunc(func() {
		if err := hold.Unlock(); err != nil {
			w.t.Errorf("%s: the other one's Unlock: %v", kind.name, err)
		}
	})
}

// closing closes a client that waits, holds, or is about to give back.
func (w *worker) closing(kind lockKind) {
	w.made[atClose]++
	c := newClients(w.t, w.driver.Driver, long)
	name := w.name(kind.name)
	release := func() {}
	if w.rng.IntN(2) == 0 {
		release = w.hold(kind, w.rival, name)
	}
	var calls sync.WaitGroup
	for i := range 2 {
		calls.Go(func() {
			hold, err := kind.take(context.Background(), c, name, 2*i)
			if err != nil {
				if !errors.Is(err, holdfast.ErrClosed) {
					w.t.Errorf("%s, at Close: %v", kind.name, err)
				}
				return
			}
			w.granted.Add(1)
			err = hold.Unlock()
			if errors.Is(err, holdfast.ErrClosed) && kind.name == "semaphore" {
				err = w.rival[0].NewUnleasedSemaphore(name).Release(1) // what a closed client has taken is its user's
			}
			if err != nil && !errors.Is(err, holdfast.ErrClosed) {
				w.t.Errorf("%s, at Close: Unlock: %v", kind.name, err)
			}
		})
	}
	time.Sleep(time.Duration(w.rng.Int64N(int64(2 * time.Millisecond))))
	if err := c.Close(); err != nil {
		w.t.Errorf("%s: Close: %v", kind.name, err)
	}
	calls.Wait()
	release()
	if kind.name == "latch" { // a closed client cannot open what it has closed
		if err := w.rival[0].NewLatch(name).CountDown(); err != nil {
			w.t.Errorf("%s, after Close: %v", kind.name, err)
		}
	}
}
