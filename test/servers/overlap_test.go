package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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
	victimLease = 9 * time.Second
)

func overlapName(i int) string { return fmt.Sprintf("overlap:%02d", i) }

// Several processes contend for a lock of each kind. One more takes all of them
// and is killed; until its leases end, they are its own. No hold overlaps one
// that it must not overlap, and everybody gets a turn, before and after.
func TestHoldsOfProcessesDoNotOverlap(t *testing.T) {
	t.Parallel()
	s, p, _ := started(t)
	var others [contenders]*contender
	for i := range others {
		others[i] = startContender(t, s, i)
	}
	for _, c := range others {
		c.await(t, len(kit.Kinds)) // each has held something
	}
	killed := startContender(t, s, victim)
	time.Sleep(victimLease / 2) // it holds, and renews
	killed.await(t, len(kit.Kinds))
	time.Sleep(victimLease / 2)
	spans := killed.killedSpans(t, p)
	time.Sleep(3 * victimLease / 2) // the others go on
	for _, c := range others {
		for kind, held := range c.end(t) {
			spans[kind] = append(spans[kind], held...)
		}
	}
	for i, k := range kit.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			checkTurns(t, spans[i])
			kit.CheckSpans(t, k, spans[i])
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
	for i, k := range kit.Kinds {
		held := c.spans[i]
		if len(held) != 1 || held[0].To != 0 {
			t.Fatalf("%s: the process that was killed held %v", k.Name, held)
		}
		asked := kit.Now()
		left := k.Lives(p.Ask(t, overlapName(i)), overlapName(i), c.owner[i])
		if left <= 0 {
			t.Fatalf("%s: the process that was killed did not hold it any more: %v, %v of it left, owner %s",
				k.Name, p.Do(t, overlapName(i), "HGETALL", overlapName(i)), left, c.owner[i])
		}
		held[0].To = asked + int64(left-2*time.Millisecond) // whole milliseconds
	}
	return c.spans
}

// contend is a process that contends, by its number: one adapter for every other process.
func contend(addr, number string) error {
	who, lease := kit.Number(number), holdfast.DefaultLease
	if who == victim {
		lease = victimLease
	}
	c, end, err := clientOf(addr, who%2 == 1, lease)
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := context.WithCancel(background)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until its parent closes it
		stop()
	}()
	failed := make(chan error, 3*len(kit.Kinds))
	var wg sync.WaitGroup
	for i, k := range kit.Kinds {
		if who == victim {
			wg.Go(func() { failed <- holdAgainAndAgain(ctx, i, k.Lock(c, overlapName(i)), k.Shared, 0) })
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

// holdAgainAndAgain holds a lock, and reports when. The victim, which does not rest, holds it until it is killed.
func holdAgainAndAgain(ctx context.Context, kind int, l kit.AnyLock, shared bool, rest time.Duration) (lost error) {
	for {
		h, err := l.Lock(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return lost
		case err != nil:
			return err
		}
		from, to := kit.Now(), int64(0)
		if rest > 0 {
			time.Sleep(rand.N(2 * time.Millisecond)) // the work
			to = kit.Now()
			if err := h.Unlock(); err != nil {
				lost = err // told at the end: what overlapped says more
			}
		}
		fmt.Println(kind, shared, from, to, cmp.Or(h.Owner().String(), "nobody")) // what was handed over has none any more
		if rest == 0 {
			<-h.Context().Done()
			return fmt.Errorf("the victim has lost %s: %w", l.Name(), context.Cause(h.Context()))
		}
		time.Sleep(rand.N(rest)) // other work
	}
}
