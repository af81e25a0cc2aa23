package interop

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// referee is told by every contender, of either side, when it has a lock and when
// it is about to give it back, and answers after it has noted that. So what it
// sees inside at one time held the lock at one time, whatever Redis says: there is
// no other clock or counter in it.
type referee struct {
	listener net.Listener
	serving  sync.WaitGroup // one goroutine for each contender, and one that accepts

	mu     sync.Mutex // guards what follows
	arenas map[string]*arena
}

// arena is one lock, semaphore or latch.
type arena struct {
	room    int         // how many may be inside together that do not share
	enough  func() bool // whether contenders may stop, asked under the referee's lock
	inside  map[*seat]bool
	last    string         // the side that has left what the next one gets
	passed  map[string]int // hand-overs from one side to the other, such as "go to java"
	faults  []string
	maximum int // of those inside
	token   int64

	forgotten int // how often a thread of Java's had to wait anew (W2)

	// Of a latch:
	seats    int // how many take part
	counters int
	arrived  []*seat // at the barrier of this step
	setters  int     // who has set this round's count
	downs    int     // who has counted down, or is about to, in this round
	rounds   int
}

// seat is a contender's.
type seat struct {
	conn   net.Conn
	side   string
	shares bool
}

func newReferee(t *testing.T) *referee {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &referee{listener: l, arenas: map[string]*arena{}}
	r.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			r.serving.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.serving.Wait()
	})
	return r
}

func (r *referee) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// open makes an arena. Contenders stop when enough says so.
func (r *referee) open(name string, room int, enough func(a *arena) bool) *arena {
	a := &arena{room: room, inside: map[*seat]bool{}, passed: map[string]int{}}
	a.enough = func() bool { return enough(a) }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arenas[name] = a
	return a
}

// serve listens to one contender until it leaves, or dies.
func (r *referee) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		return
	}
	var side, kind, name string
	if _, err := fmt.Sscan(lines.Text(), &side, &kind, &name); err != nil {
		return
	}
	s := &seat{conn: conn, side: side, shares: kind == "read"}
	r.mu.Lock()
	a := r.arenas[name]
	r.mu.Unlock()
	for lines.Scan() {
		r.mu.Lock()
		a.hear(s, lines.Text())
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(a.inside, s) // the process has died in it, and does nothing any more
}

func (a *arena) hear(s *seat, what string) {
	if token, ok := strings.CutPrefix(what, "enter "); ok {
		a.enter(s, token)
		return
	}
	switch what {
	case "leave":
		full := len(a.inside) >= a.room
		delete(a.inside, s)
		// What it leaves is handed over if nobody could have come in beside it.
		if a.last = ""; len(a.inside) == 0 || full && !s.shares {
			a.last = s.side
		}
		s.answer(true)
	case "forgotten":
		a.forgotten++
		s.answer(true)
	case "down":
		a.downs++
		s.answer(true)
	case "through":
		if a.downs < a.counters*(a.rounds+1) {
			a.faultf("let go in round %d when %d of %d had counted down", a.rounds, a.downs-a.counters*a.rounds, a.counters)
		}
		if a.barrier(s, !a.enough()) {
			a.rounds++
		}
	case "set true":
		a.setters++
		fallthrough
	case "set false":
		if a.barrier(s, true) && a.setters != a.rounds+1 {
			a.faultf("in round %d the count was set %d times", a.rounds, a.setters-a.rounds)
		}
	}
}

func (a *arena) enter(s *seat, text string) {
	if token, err := strconv.ParseInt(text, 10, 64); err != nil || token > 0 && token <= a.token {
		a.faultf("%s entered with the token %s after %d", s.side, text, a.token)
	} else {
		a.token = token
	}
	alone, shared := 0, 0
	for other := range a.inside {
		if other.shares {
			shared++
		} else {
			alone++
		}
	}
	switch {
	case s.shares && alone > 0, !s.shares && shared > 0, !s.shares && alone >= a.room:
		a.faultf("%s entered beside %d who hold it alone and %d who share it", s.side, alone, shared)
	}
	a.inside[s] = true
	a.maximum = max(a.maximum, len(a.inside))
	if a.last != "" && a.last != s.side {
		a.passed[a.last+" to "+s.side]++
	}
	a.last = "" // whoever comes in beside it got it from nobody
	s.answer(!a.enough())
}

// barrier answers all when the last one has come, and reports whether it has.
func (a *arena) barrier(s *seat, on bool) bool {
	a.arrived = append(a.arrived, s)
	if len(a.arrived) < a.seats {
		return false
	}
	for _, s := range a.arrived {
		s.answer(on)
	}
	a.arrived = nil
	return true
}

func (a *arena) faultf(format string, values ...any) {
	if len(a.faults) < 5 { // it is clear by then
		a.faults = append(a.faults, fmt.Sprintf(format, values...))
	}
}

func (s *seat) answer(on bool) {
	word := "stop\n"
	if on {
		word = "go\n"
	}
	if _, err := s.conn.Write([]byte(word)); err != nil && !errors.Is(err, net.ErrClosed) {
		return // it has died
	}
}

// verdict is what was wrong.
func (r *referee) verdict(a *arena) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(a.inside) > 0 {
		a.faultf("%d are still inside", len(a.inside))
	}
	if len(a.faults) > 0 {
		return errors.New(strings.Join(a.faults, "; "))
	}
	return nil
}
