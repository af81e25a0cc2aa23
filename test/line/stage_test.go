package line

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a lock x of a kind, and those who wait for it.
type stage struct {
	*kit.World
	*testing.T

	most int // how many hold it at once
}

// permitKind is a semaphore as a kind of lock.
var permitKind = &kit.Kind{
	Kind: rights.Kind{Variant: protocol.Variant{Kind: protocol.PermitsKind, Name: "permits"}},
	Lock: func(c *holdfast.Client, name string) kit.AnyLock { return permits{c.NewPermitSemaphore(name)} },
}

// permits are not adopted.
type permits struct{ *holdfast.PermitSemaphore }

func (permits) Adopt(context.Context, holdfast.Owner, ...holdfast.TryOption) (*holdfast.Hold, error) {
	return nil, errors.ErrUnsupported
}

// kindNamed is one of the kit's kinds.
func kindNamed(name string) *kit.Kind {
	return kit.Kinds[slices.IndexFunc(kit.Kinds, func(k *kit.Kind) bool { return k.Name == name })]
}

// fake runs f under fake time with a lock of a kind.
func fake(t *testing.T, k *kit.Kind, f func(s *stage)) {
	t.Helper()
	if k == permitKind {
		fakePermits(t, 1, f)
		return
	}
	kit.FakeKind(t, k, func(t *testing.T, w *kit.World) { f(&stage{w, t, 1}) })
}

func fakeMutex(t *testing.T, f func(s *stage)) { t.Helper(); fake(t, kit.MutexKind, f) }

// fakePermits runs f under fake time with a semaphore of n permits.
func fakePermits(t *testing.T, n int, f func(s *stage)) {
	t.Helper()
	kit.PermitsWorld(t, n, func(t *testing.T, w *kit.World) {
		w.Kind = permitKind
		f(&stage{w, t, n})
	})
}

// everyLock runs f for each kind of lock whose waiters stand in line, be it the one of a fair lock, and that one has at a time.
func everyLock(t *testing.T, f func(s *stage)) {
	t.Helper()
	for _, k := range kit.Kinds {
		if k.AlwaysListed || k.Listed() && !k.Shared {
			t.Run(k.Name, func(t *testing.T) { fake(t, k, f) })
		}
	}
}

// everyLine is everyLock and a semaphore of one permit.
func everyLine(t *testing.T, f func(s *stage)) {
	t.Helper()
	everyLock(t, f)
	t.Run(permitKind.Name, func(t *testing.T) { fake(t, permitKind, f) })
}

// newLock is the lock as a client of its own has it.
func (s *stage) newLock() kit.AnyLock {
	s.Helper()
	c, _ := s.Client()
	return s.Lock(c)
}

// heldByOther has another client hold the lock.
func (s *stage) heldByOther(options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return kit.Must(s.T)(s.newLock().Lock(background, options...))
}

// wait has a client of its own wait for the lock, and returns when it stands in line, as the last.
func (s *stage) wait(options ...holdfast.LockOption) *kit.Standing {
	s.Helper()
	c, d := s.Client()
	return s.waitAs(c, d, options...)
}

// waitWith is wait with a client that has options.
func (s *stage) waitWith(options ...holdfast.ClientOption) *kit.Standing {
	s.Helper()
	c, d := s.Client(options...)
	return s.waitAs(c, d)
}

func (s *stage) waitAs(c *holdfast.Client, d *memdriver.Driver, options ...holdfast.LockOption) *kit.Standing {
	s.Helper()
	return s.enter(func() *kit.Standing { return s.WaitAs(c, d, s.Lock(c), options...) })
}

// enter checks that one who begins to wait stands in line, as the last.
func (s *stage) enter(begin func() *kit.Standing) *kit.Standing {
	s.Helper()
	before := s.inLine()
	w := begin()
	all := s.inLine()
	if len(all) == 0 || slices.Contains(before, all[len(all)-1]) {
		s.Fatalf("it does not stand in line, but %v", all)
	}
	last := all[len(all)-1]
	if s.Kind == permitKind { // each wait stands there under an id of its own
		w.Field, w.Owner = last, kit.PermitID(last)
	}
	if w.Field != last {
		s.Fatalf("%s is not the last of the line, %v", w.Field, all)
	}
	time.Sleep(time.Millisecond) // so nobody else comes in the same moment
	return w
}

// several have n come, one behind the other.
func several(n int, wait func() *kit.Standing) (all []*kit.Standing) {
	for range n {
		all = append(all, wait())
	}
	return all
}

// inLine is who stands in the line, the next one first.
func (s *stage) inLine() []string {
	if s.Kind.AlwaysListed {
		return s.Ask("LRANGE", kit.QueueKey, "0", "-1")
	}
	return s.Ask("ZRANGE", kit.WaitlistKey("x"), "0", "-1")
}

// wantLine checks who stands in line.
func (s *stage) wantLine(waiters ...*kit.Standing) {
	s.Helper()
	synctest.Wait()
	var fields []string
	for _, w := range waiters {
		fields = append(fields, w.Field)
	}
	if got := s.inLine(); !slices.Equal(got, fields) {
		s.Errorf("in line stand %v, want %v", got, fields)
	}
}

// wantStanding checks how many stand in line.
func (s *stage) wantStanding(n int) {
	s.Helper()
	synctest.Wait()
	if got := s.inLine(); len(got) != n {
		s.Errorf("%d stand in line: %v, want %d", len(got), got, n)
	}
}

// wantHolder checks, in Redis, that a waiter has the lock by now, and nobody else. A permit does not say whose it is.
func (s *stage) wantHolder(w *kit.Standing) {
	s.Helper()
	if s.Kind == permitKind {
		s.WantReply("1", "ZCARD", "{x}:timeout")
		return
	}
	s.WantCount("x", w.Owner, 1)
}

// lives is how long a waiter that has the lock by now has it if nothing is renewed.
func (s *stage) lives(w *kit.Standing) time.Duration {
	s.Helper()
	if s.Kind != permitKind {
		return s.Lives(w.Owner)
	}
	found, err := s.newLock().Inspect(background)
	if err != nil || len(found.Holders) != 1 {
		s.Fatalf("holders %v, %v", found.Holders, err)
	}
	return found.Holders[0].TTL
}

// release gives a hold back. Who has held it for long listens no more by then, or the release would be left to it.
func (s *stage) release(h *holdfast.Hold) (released time.Time) {
	s.Helper()
	synctest.Wait()
	kit.Unlock(s.T, h)
	return time.Now()
}

// next gives a hold back, and has a waiter get the lock within that time.
func (s *stage) next(h *holdfast.Hold, w *kit.Standing, most time.Duration) *holdfast.Hold {
	s.Helper()
	return w.Within(s.T, s.release(h), most)
}

// turns gives a hold back, and has each waiter get the lock at once when the one before it gives it back.
func (s *stage) turns(h *holdfast.Hold, waiters ...*kit.Standing) {
	s.Helper()
	for _, w := range waiters {
		h = s.next(h, w, 0)
	}
	s.release(h)
}

// asksEvery is how often the first of the line ask.
func (s *stage) asksEvery() time.Duration {
	if s.Kind.AlwaysListed {
		return 1500 * time.Millisecond
	}
	return kit.AsksEvery
}

// deafen has a waiter hear no messages, and cutOff has it not be heard either, as if it had been killed.
func deafen(w *kit.Standing) *kit.Standing {
	w.D.LoseMessages(true)
	return w
}

func cutOff(w *kit.Standing) *kit.Standing {
	kit.Away(w.D)
	return deafen(w)
}

// back ends that.
func back(w *kit.Standing) {
	w.D.LoseMessages(false)
	w.D.SetFaults(nil)
}

// hearing is a driver whose client hears of an event what hear passes on to sink.
type hearing struct {
	*memdriver.Driver
	hear func(e driver.Event, sink func(driver.Event))
}

func (d hearing) Listen(sink func(driver.Event)) driver.Listener {
	return d.Driver.Listen(func(e driver.Event) { d.hear(e, sink) })
}

// slow returns a client that hears each message so much later.
func (s *stage) slow(by *atomic.Int64, options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver) {
	s.Helper()
	d := s.Server.Driver()
	return s.clientOf(d, hearing{d, func(e driver.Event, sink func(driver.Event)) {
		if late := time.Duration(by.Load()); e.Kind == driver.Message && late > 0 {
			time.AfterFunc(late, func() { sink(e) })
			return
		}
		sink(e)
	}}, options...), d
}

// outside returns a client that cannot stand in line: it never hears that its channel is subscribed to.
func (s *stage) outside() (*holdfast.Client, *memdriver.Driver) {
	s.Helper()
	d := s.Server.Driver()
	return s.clientOf(d, hearing{d, func(e driver.Event, sink func(driver.Event)) {
		if !strings.HasPrefix(e.Channel, "holdfast_granted") {
			sink(e)
		}
	}}), d
}

// clientOf returns a client of a driver that stands before another one.
func (s *stage) clientOf(d *memdriver.Driver, before driver.Driver, options ...holdfast.ClientOption) *holdfast.Client {
	s.Helper()
	c, err := testclient.New(before, append(options, holdfast.WithoutIdentity())...)
	kit.OK(s.T, err)
	s.Cleanup(func() { d.SetFaults(nil); kit.OK(s.T, c.Close()) })
	return c
}

// listening is a client that listens for releases, as Redisson's do.
func (s *stage) listening(hears func()) driver.Listener { return s.listeningOn(s.channel(), hears) }

func (s *stage) listeningOn(channel string, hears func()) driver.Listener {
	l := s.Server.Driver().Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			hears()
		}
	})
	l.Subscribe(channel)
	synctest.Wait()
	return l
}

// channel is where those hear of releases who do not stand in line, and listen is how many there are.
func (s *stage) channel() string {
	if s.Kind == permitKind {
		return "redisson_sc:{x}"
	}
	return s.Kind.Channel("x")
}

func (s *stage) listen() string {
	synctest.Wait()
	return s.Ask("PUBSUB", "NUMSUB", s.channel())[1]
}

// redisson is a thread of Redisson's, to write if it is a read-write lock. Both report whether they could.
func (s *stage) redisson() (take, give func() bool) {
	d := s.Server.Driver()
	run := func(script string, args ...string) func() bool {
		call := driver.Call{Script: driver.NewScript("redisson", script), Keys: []string{"x", "{x}:timeout"}, Args: args}
		return func() bool {
			got, err := d.Eval(background, call)
			if err != nil {
				s.Error(err)
			}
			return got == int64(1)
		}
	}
	if s.Kind == permitKind {
		const id = "theirs\x4f--------1"
		return run(`if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
				redis.call('DECR', KEYS[1]) redis.call('ZADD', KEYS[2], 922337203685477, ARGV[1]) return 1 end return 0`, id),
			run(`redis.call('ZREM', KEYS[2], ARGV[1]) redis.call('PUBLISH', 'redisson_sc:{x}', redis.call('INCR', KEYS[1])) return 1`, id)
	}
	fields := []string{s.Kind.Field("ffffffff-0000-4000-8000-000000000000:1"), "1"}
	if s.Kind.Mode != "" {
		fields = append(fields, "mode", s.Kind.Mode)
	}
	return run(`if redis.call('EXISTS', KEYS[1]) == 0 then
			redis.call('HSET', KEYS[1], unpack(ARGV)) redis.call('PEXPIRE', KEYS[1], 30000) return 1 end return 0`, fields...),
		run(`redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0') return 1`, s.channel())
}

// redissonInTurns takes the lock again and again as Redisson does, stays inside, and counts its holds, until ctx ends. The way to Redis
// and back takes about so long: from a message until the request that follows, and from the start of a hold until its end, beside the
// stay.
func (s *stage) redissonInTurns(ctx context.Context, stay, way time.Duration) (holds int) {
	told := make(chan struct{}, 1)
	listener := s.listening(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	defer listener.Close()
	take, give := s.redisson()
	travel := func() { time.Sleep(way*3/4 + rand.N(way/2)) }
	for ctx.Err() == nil {
		travel()
		if take() {
			holds++
			travel()
			time.Sleep(stay)
			give()
			continue
		}
		select {
		case <-told:
		case <-ctx.Done():
		}
	}
	return holds
}

// inTurns has some clients, a millisecond from Redis, take the lock again and again and stay inside, until ctx ends, each in so many goroutines. It
// counts the holds of each client, and what all of them ask.
func (s *stage) inTurns(ctx context.Context, clients, each int, stay time.Duration) (holds func() []int, asked *kit.Calls) {
	s.Helper()
	counts, asked := make([]atomic.Int64, clients), new(kit.Calls)
	var inside atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		c, d := s.Client()
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			asked.Note(call)
			return memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond}
		})
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := s.Lock(c).Lock(ctx)
					if err != nil {
						continue
					}
					if n := inside.Add(1); n > int64(s.most) {
						s.Errorf("%d are inside", n)
					}
					counts[i].Add(1)
					time.Sleep(stay)
					inside.Add(-1)
					kit.Unlock(s.T, h)
				}
			})
		}
	}
	return func() []int {
		all.Wait()
		n := make([]int, clients)
		for i := range counts {
			n[i] = int(counts[i].Load())
		}
		return n
	}, asked
}
