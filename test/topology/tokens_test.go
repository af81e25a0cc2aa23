package topology

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
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

var failovers = flag.Int("failovers", 1, "how many failovers TestTokensAcrossFailovers goes through")

// grant is a hold of a fenced mutex, and what came of its two writes to a store that compares tokens.
type grant struct {
	adapter               string
	token                 int64
	asked, granted, ended time.Time
	refused               int // so many of its writes
	node                  string
}

// String says it in the words of a failure.
func (g grant) String() string {
	at := func(t time.Time) string { return t.Format("05.000000") }
	return fmt.Sprintf("token %d of %s by %s, asked for at %s, held from %s to %s, %d writes refused",
		g.token, g.node, g.adapter, at(g.asked), at(g.granted), at(g.ended), g.refused)
}

// recording is what clients and servers have said of some locks.
type recording struct {
	over chan struct{} // closed when clients are to end

	mu            sync.Mutex
	grants        map[string][]grant
	nodes         map[string]map[int64]string // by lock and token: the server that wrote the token as a primary
	highest       map[string]int64            // what the store knows
	notReplicated int
}

// write is one to the store, which refuses a token below the highest.
func (r *recording) write(lock string, g *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.token < r.highest[lock] {
		g.refused++
		return
	}
	r.highest[lock] = g.token
}

// tokenWritten matches what MONITOR says when a script writes a token. What a primary tells its replicas comes from no script there.
var tokenWritten = regexp.MustCompile(`\[\d+ lua\] "SET" "redisson_lock_token:\{(.+)\}" "(\d+)"`)

// watch notes down which tokens a server writes, until the context ends.
func (r *recording) watch(ctx context.Context, node *redistest.Server) {
	node.Monitor(ctx, func(line string) {
		if found := tokenWritten.FindStringSubmatch(line); found != nil {
			token, _ := strconv.ParseInt(found[2], 10, 64)
			r.mu.Lock()
			r.nodes[found[1]][token] = node.Addr()
			r.mu.Unlock()
		}
	})
}

// use takes a lock again and again, and writes at the beginning and the end of each hold.
func (r *recording) use(adapter string, l *holdfast.Mutex) {
	for {
		select {
		case <-r.over:
			return
		case <-time.After(time.Millisecond):
		}
		g := grant{adapter: adapter, asked: time.Now()}
		h, err := l.Lock(background, holdfast.Wait(time.Second))
		if err != nil {
			if errors.Is(err, holdfast.ErrNotReplicated) {
				r.mu.Lock()
				r.notReplicated++
				r.mu.Unlock()
			}
			continue
		}
		g.granted, g.token = time.Now(), h.Token()
		r.write(l.Name(), &g)
		time.Sleep(2 * time.Millisecond)
		if h.Context().Err() == nil {
			r.write(l.Name(), &g)
		}
		g.ended = time.Now()
		_ = h.Unlock() // which may fail while nobody is primary
		r.mu.Lock()
		r.grants[l.Name()] = append(r.grants[l.Name()], g)
		r.mu.Unlock()
	}
}

// verdict is how many holds there were, and what is to be said of them.
type verdict struct {
	grants     int
	sideBySide int // of a primary, at most ten seconds after another one's that came after one of its own
	overlaps   int // pairs that were held at the same time
	behind     int // pairs whose later Lock to return has the lesser token
	fallen     int // such pairs in which the later one was asked for when the other had been granted
	refused    int // writes
	unknown    int // no server has said that it wrote the token
}

// judge looks at the holds of the locks whose names begin so, and says each pair that was not one after the other.
func (r *recording) judge(t *testing.T, prefix string) (v verdict) {
	t.Helper()
	for lock, all := range r.grants {
		if !strings.HasPrefix(lock, prefix) {
			continue
		}
		slices.SortFunc(all, func(a, b grant) int { return a.granted.Compare(b.granted) })
		for i := range all {
			g := &all[i]
			g.node = r.nodes[lock][g.token]
			v.grants++
			v.refused += g.refused
			if g.node == "" {
				v.unknown++
			}
			for _, before := range all[max(0, i-100):i] {
				overlap, behind := before.ended.After(g.granted), before.token >= g.token
				if !overlap && !behind {
					continue
				}
				t.Logf("%s, one after the other:\n\t%v\n\t%v", lock, before, *g)
				v.overlaps += one(overlap)
				v.behind += one(behind)
				v.fallen += one(behind && before.granted.Before(g.asked))
			}
		}
		slices.SortFunc(all, func(a, b grant) int { return int(a.token - b.token) })
		last, lately := "", map[string]int64{}
		for _, g := range all {
			if at, known := lately[g.node]; known && last != g.node && g.token-at < 10*time.Second.Microseconds() {
				v.sideBySide++
			}
			last, lately[g.node] = g.node, g.token
		}
	}
	return v
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Clients of all adapters hold fenced mutexes while primaries fail over: by order, killed, and stopped for a while. For a
// moment two primaries grant side by side; the store refuses the lesser token. The servers have one clock, so no
// token falls. If all replicas are to acknowledge, a replaced primary's grant is none, and holds come one after the other.
// It says what it has seen: -v -failovers 15.
func TestTokensAcrossFailovers(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2, 3)
	r := &recording{over: make(chan struct{}), grants: map[string][]grant{}, nodes: map[string]map[int64]string{}, highest: map[string]int64{}}
	locks := map[string][]holdfast.ClientOption{}
	for i := range 2 {
		locks["plain"+strconv.Itoa(i)] = nil
		locks["acknowledged"+strconv.Itoa(i)] = []holdfast.ClientOption{holdfast.WithReplicaAck(2, time.Second)}
	}
	for lock := range locks {
		r.nodes[lock] = map[int64]string{}
	}
	ctx, stop := context.WithCancel(background)
	defer stop()
	var watching, using sync.WaitGroup
	for _, node := range s.Nodes {
		watching.Go(func() { r.watch(ctx, node) })
	}
	for adapter, d := range allAdapters(t, s.Addrs(), s.MasterName()) {
		for lock, options := range locks {
			c, err := holdfast.New(d, options...)
			kit.OK(t, err)
			using.Go(func() {
				r.use(adapter, c.NewMutex(lock, holdfast.Fenced()))
				_ = c.Close()
			})
		}
	}
	grants := func() bool { // by the present primary
		primary, n := s.Primary(t).Addr(), 0
		r.mu.Lock()
		defer r.mu.Unlock()
		for lock, all := range r.grants {
			for _, g := range all {
				n += one(r.nodes[lock][g.token] == primary)
			}
		}
		return n > 30
	}
	for i := range *failovers {
		kit.WaitFor(t, "the primary to grant", grants)
		switch i % 3 {
		case 0:
			s.Failover(t)
		case 1:
			old := s.KillPrimary(t)
			s.WaitNewPrimary(t, old)
			old.Restart()
		case 2:
			old := s.Primary(t)
			old.Stop()
			s.WaitNewPrimary(t, old)
			old.Cont()
		}
		if i+1 < *failovers {
			s.AwaitRecovery(t)
		}
	}
	kit.WaitFor(t, "the last primary to grant", grants)
	close(r.over)
	using.Wait()
	stop()
	watching.Wait()

	plain, acknowledged := r.judge(t, "plain"), r.judge(t, "acknowledged")
	t.Logf("plain: %+v", plain)
	t.Logf("acknowledged: %+v; %d grants were not", acknowledged, r.notReplicated)
	if plain.fallen+acknowledged.fallen > 0 {
		t.Error("a token was not greater than that of a hold which was granted before it was asked for")
	}
	if acknowledged.overlaps+acknowledged.behind+acknowledged.refused > 0 {
		t.Error("holds that all replicas have acknowledged did not come one after the other")
	}
	if acknowledged.grants == 0 {
		t.Error("nothing was acknowledged")
	}
}

// A primary goes on after it was replaced, and its clock is ahead: it says so by the last token that it knows. What it
// grants has a token that is too great, and the store accepts the holder's late write. It does not come to that if all
// replicas are to acknowledge a grant: the promoted one does not. One of two is not enough.
func TestTokensOfAReplacedPrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	promoted := s.Replicas[0]
	promoted.Cli(t, "REPLICAOF", "NO", "ONE")
	old, after := allAdapters(t, []string{s.Primary.Addr()}, ""), allAdapters(t, []string{promoted.Addr()}, "")
	for adapter := range old {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			for replicas, excluded := range []bool{false, false, true} {
				var options []holdfast.ClientOption
				if replicas > 0 {
					options = []holdfast.ClientOption{holdfast.WithReplicaAck(replicas, 2*time.Second)}
				}
				a, err := holdfast.New(old[adapter], options...)
				kit.OK(t, err)
				b, err := holdfast.New(after[adapter])
				kit.OK(t, err)
				name := kit.Fresh()
				ahead := time.Now().Add(time.Hour).UnixMicro()
				s.Primary.Cli(t, "SET", "redisson_lock_token:"+kit.Tagged(name), strconv.FormatInt(ahead, 10))
				first, err := a.NewMutex(name, holdfast.Fenced()).TryLock(background)
				second := kit.Must(t)(b.NewMutex(name, holdfast.Fenced()).TryLock(background))
				switch {
				case excluded:
					kit.WantError(t, err, holdfast.ErrNotReplicated)
				case err != nil:
					t.Errorf("%d of 2 are to acknowledge: %v", replicas, err)
				case first.Token() <= second.Token():
					t.Errorf("%d of 2 are to acknowledge: the tokens are %d and %d", replicas, first.Token(), second.Token())
				}
				kit.OK(t, a.Close(), b.Close())
			}
		})
	}
}
