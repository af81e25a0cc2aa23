//go:build unix

package trials

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/robustness/history"
)

// monitor notes down what each server of a trial does, as the server itself says (MONITOR): beside what clients have noted, that
// shows who was granted a lock, and by whom. It is shown if holds overlap that must not.
type monitor struct {
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu    sync.Mutex
	began time.Time          // on the servers' clock
	lines map[string][]noted // by the name of the lock
}

// noted is a command that a server has run.
type noted struct {
	at   history.Moment
	text string
}

// lockNamed matches the name of a lock in what a server says.
var lockNamed = regexp.MustCompile(`\b(?:[abc]|thief)\d+-[a-z-]+-\d+\b`)

// watch begins to note down what servers do; close ends it.
func watch(servers []*redistest.Server) *monitor {
	ctx, stop := context.WithCancel(context.Background())
	m := &monitor{stop: stop, began: time.Now(), lines: map[string][]noted{}}
	for _, s := range servers {
		m.tasks.Go(func() { s.Monitor(ctx, func(line string) { m.note(s.Addr(), line) }) })
	}
	return m
}

func (m *monitor) close() {
	m.stop()
	m.tasks.Wait()
}

// note notes down what a server has done, if that was with a lock.
func (m *monitor) note(addr, line string) {
	seconds, text, _ := strings.Cut(line, " ")
	at, err := strconv.ParseFloat(seconds, 64)
	lock := lockNamed.FindString(text)
	if err != nil || lock == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ago := time.Duration((at - float64(m.began.UnixMicro())/1e6) * float64(time.Second))
	m.lines[lock] = append(m.lines[lock], noted{history.Moment(ago), addr + " " + text})
}

// mostShown is how many commands are shown, at most.
const mostShown = 200

// around tells what was done with a lock from 200 ms before the first of the holds that overlap began until the last one ended.
func (m *monitor) around(v history.Violation) string {
	if m == nil || len(v.Holds) == 0 {
		return ""
	}
	lock, from, to := v.Holds[0].Op.Lock, history.Never, history.Moment(0)
	for _, h := range v.Holds {
		from, to = min(from, h.From), max(to, h.To)
	}
	var b strings.Builder
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortStableFunc(m.lines[lock], func(a, b noted) int { return int(a.at - b.at) })
	n := 0
	for _, line := range m.lines[lock] {
		if line.at < from-history.Moment(200*time.Millisecond) || line.at > to {
			continue
		}
		if n++; n > mostShown {
			b.WriteString("\n    and more")
			break
		}
		fmt.Fprintf(&b, "\n    %v %.400s", line.at, line.text)
	}
	return b.String()
}
