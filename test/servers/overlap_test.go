package servers

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// rest is how long, at most, a contender does without the lock. One who keeps others from
// sharing it rests for longer: with [holdfast.WritersFirst] they share it only while it
// neither holds nor waits.
func rest(k *kit.Kind, shared bool) time.Duration {
	if k.Readers != nil && !shared {
		return 50 * time.Millisecond
	}
	return 2 * time.Millisecond
}

const (
	contenders = 3
	victim     = contenders // the number of the one that is killed while it holds
	// victimLease is how long the others have to do without it.
	victimLease = 6 * time.Second
)

func overlapName(i int) string { return fmt.Sprintf("overlap:%02d", i) }

// contested is a lock of each kind, and a semaphore.
var contested = append(slices.Clone(kit.Kinds), &kit.Kind{
	Name: "permits", Remains: func(name string) []string { return []string{name, "holdfast_calls:{" + name + "}"} },
	Lock: func(c *holdfast.Client, name string) kit.AnyLock { return permit{c.NewPermitSemaphore(name)} },
})

const permits = 3 // of the semaphore

// permit is one of them.
type permit struct{ *holdfast.PermitSemaphore }

func (permit) Adopt(context.Context, holdfast.Owner, ...holdfast.TryOption) (*holdfast.Hold, error) {
	return nil, errors.ErrUnsupported
}

// checkPermits fails if more permits were held at once than there are.
func checkPermits(t *testing.T, spans []kit.Span) {
	t.Helper()
	changes := map[int64]int{}
	for _, s := range spans {
		changes[s.From]++
		changes[s.To]--
	}
	held, most := 0, 0
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		held += changes[at]
		most = max(most, held)
	}
	if most > permits || most < 2 {
		t.Errorf("%d permits were held at once, of %d", most, permits)
	}
}

// Several processes contend for a lock of each kind, and for permits. One more takes all of them
// and is killed; until its leases end, they are its own. No hold overlaps one
// that it must not overlap, and everybody gets a turn, before and after.
func TestHoldsOfProcessesDoNotOverlap(t *testing.T) {
	t.Parallel()
	s, p, _ := started(t)
	for i, k := range contested {
		p.SetUp(t, k, overlapName(i))
	}
	permitsOf(t, p, overlapName(len(kit.Kinds)), permits)
	var others [contenders]*contender
	for i := range others {
		others[i] = startContender(t, s, i)
	}
	for _, c := range others {
		c.await(t, len(contested)) // each has held something
	}
	killed := startContender(t, s, victim)
	time.Sleep(victimLease / 2) // it holds, and renews
	killed.await(t, len(contested))
	time.Sleep(victimLease / 2)
	spans := killed.killedSpans(t, p)
	time.Sleep(3 * victimLease / 2) // the others go on
	for _, c := range others {
		for kind, held := range c.end(t) {
			spans[kind] = append(spans[kind], held...)
		}
	}
	for i, k := range contested {
		t.Run(k.Name, func(t *testing.T) {
			checkTurns(t, spans[i])
			if k.Name == "permits" {
				checkPermits(t, spans[i])
			} else {
				kit.CheckSpans(t, k, spans[i])
			}
			p.WantNothing(t, k, overlapName(i))
			t.Logf("%d holds", len(spans[i]))
		})
	}
}

// checkTurns fails if a process was left out, or held nothing after the one that
// was killed.
func checkTurns(t *testing.T, spans []kit.Span) {
	t.Helper()
	end := spans[slices.IndexFunc(spans, func(s kit.Span) bool { return s.Who == victim })].To
	for who := range contenders {
		of := func(s kit.Span) bool { return s.Who == who }
		after := func(s kit.Span) bool { return s.Who == who && s.From > end }
		if !slices.ContainsFunc(spans, of) || !slices.ContainsFunc(spans, after) {
			t.Errorf("process %d held it, or held it after %v: %v, %v", who, end,
				slices.ContainsFunc(spans, of), slices.ContainsFunc(spans, after))
		}
	}
}

// contender is a process that contends, as its parent sees it. It writes what it has held, and ends when its input does.
type contender struct {
	*process

	number int
	read   chan struct{} // closed when all of its output has been read

	mu    sync.Mutex
	spans map[int][]kit.Span // of each kind
	owner map[int]string     // of the victim's hold
}

func startContender(t *testing.T, s *redistest.Server, number int) *contender {
	t.Helper()
	c := &contender{
		process: startProcess(t, "contends", s, strconv.Itoa(number)), number: number, read: make(chan struct{}),
		spans: map[int][]kit.Span{}, owner: map[int]string{},
	}
	go func() {
		defer close(c.read)
		for c.out.Scan() {
			if err := c.note(c.out.Text()); err != nil {
				t.Errorf("process %d wrote %q: %v", number, c.out.Text(), err)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // if it has not ended
		<-c.read
	})
	return c
}

// note reads a line: kind, shared, from, to, owner. A hold that has not ended
// has 0 for its end.
func (c *contender) note(line string) error {
	var kind int
	var owner string
	s := kit.Span{Who: c.number}
	if _, err := fmt.Sscan(line, &kind, &s.Shared, &s.From, &s.To, &owner); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner[kind] = owner
	c.spans[kind] = append(c.spans[kind], s)
	return nil
}

// await returns when the process has held locks of so many kinds.
func (c *contender) await(t *testing.T, n int) {
	t.Helper()
	kit.WaitFor(t, fmt.Sprintf("process %d to hold every lock", c.number), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.spans) == n
	})
}

// end ends the process in an orderly way, and returns its holds.
func (c *contender) end(t *testing.T) map[int][]kit.Span {
	t.Helper()
	kit.OK(t, c.in.Close())
	<-c.read
	kit.OK(t, c.cmd.Wait())
	return c.spans
}

// killedSpans kills the process while it holds a lock of each kind. The holds end
// when their leases do, as Redis has it.
func (c *contender) killedSpans(t *testing.T, p *kit.Platform) map[int][]kit.Span {
	t.Helper()
	kit.OK(t, c.cmd.Process.Kill())
	<-c.read
	for i, k := range contested {
		held := c.spans[i]
		if len(held) != 1 || held[0].To != 0 {
			t.Fatalf("%s: the process that was killed held %v", k.Name, held)
		}
		asked := kit.Now()
		left := leftOf(p.Ask(t, overlapName(i)), k, overlapName(i), c.owner[i])
		if left <= 0 {
			t.Fatalf("%s: the process that was killed did not hold it any more: %v of it left, owner %s", k.Name, left, c.owner[i])
		}
		held[0].To = asked + int64(left-2*time.Millisecond) // whole milliseconds
	}
	return c.spans
}

// leftOf is how long a lock, or a permit, is held if nothing is renewed.
func leftOf(do func(args ...string) []string, k *kit.Kind, name, owner string) time.Duration {
	if k.Lives != nil {
		return k.Lives(do, name, owner)
	}
	id, _ := hex.DecodeString(owner)
	until, _ := strconv.ParseFloat(strings.Join(do("ZSCORE", "{"+name+"}:timeout", string(id)), ""), 64)
	return time.Until(time.UnixMilli(int64(until)))
}

// contend is a process that contends, by its number: one adapter for every other process.
func contend(addr, number string) error {
	who, lease, connect := kit.Number(number), holdfast.DefaultLease, clientOf
	if who == victim {
		lease = victimLease
	}
	if who%2 == 1 {
		connect = rueidisClientOf
	}
	c, end, err := connect(addr, holdfast.WithLease(lease))
	if err != nil {
		return err
	}
	defer end()
	ctx := untilInputEnds()
	failed := make(chan error, 3*len(contested))
	var wg sync.WaitGroup
	for i, k := range contested {
		if who == victim {
			wg.Go(func() { failed <- holdUntilKilled(ctx, i, k.Lock(c, overlapName(i)), k.Shared()) })
			continue
		}
		for j := range 3 {
			l, shared := k.Contender(c, overlapName(i), j)
			wg.Go(func() { failed <- holdAgainAndAgain(ctx, i, l, shared, rest(k, shared)) })
		}
	}
	wg.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return errors.Join(err, c.Close())
}

func report(kind int, s kit.Span, h *holdfast.Hold) {
	owner := h.Owner()
	if ids := h.PermitIDs(); len(ids) > 0 {
		owner = ids[0]
	}
	say(kind, s.Shared, s.From, s.To, cmp.Or(owner.String(), "nobody")) // what was handed over has none any more
}

func holdAgainAndAgain(ctx context.Context, kind int, l kit.AnyLock, shared bool, rest time.Duration) (lost error) {
	for {
		h, err := l.Lock(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return lost
		case err != nil:
			return err
		}
		s := kit.Span{Shared: shared, From: kit.Now()}
		time.Sleep(rand.N(2 * time.Millisecond)) // the work
		s.To = kit.Now()
		if err := h.Unlock(); err != nil {
			lost = err // told at the end: what overlapped says more
		}
		report(kind, s, h)
		time.Sleep(rand.N(rest)) // other work
	}
}

func holdUntilKilled(ctx context.Context, kind int, l kit.AnyLock, shared bool) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	report(kind, kit.Span{Shared: shared, From: kit.Now()}, h)
	<-h.Context().Done()
	fmt.Fprintln(os.Stderr, "the victim has lost", l.Name(), context.Cause(h.Context()))
	return context.Cause(h.Context())
}
