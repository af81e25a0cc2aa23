//go:build unix

package trials

import (
	"bufio"
	"fmt"
	"net"
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
	stop  chan struct{}
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
	m := &monitor{stop: make(chan struct{}), began: time.Now(), lines: map[string][]noted{}}
	for _, s := range servers {
		m.tasks.Go(func() { m.follow(s.Addr()) })
	}
	return m
}

func (m *monitor) close() {
	close(m.stop)
	m.tasks.Wait()
}

// follow follows one server until the monitor is closed. The connection ends whenever faults end connections.
func (m *monitor) follow(addr string) {
	for {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			ended := make(chan struct{})
			m.tasks.Go(func() {
				select {
				case <-m.stop:
				case <-ended:
				}
				_ = conn.Close()
			})
			m.read(conn, addr)
			close(ended)
		}
		select {
		case <-m.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (m *monitor) read(conn net.Conn, addr string) {
	_, _ = fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20) // scripts are sent, too
	for lines.Scan() {
		seconds, text, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "+"), " ")
		at, err := strconv.ParseFloat(seconds, 64)
		lock := lockNamed.FindString(text)
		if err != nil || lock == "" {
			continue
		}
		m.mu.Lock()
		ago := time.Duration((at - float64(m.began.UnixMicro())/1e6) * float64(time.Second))
		m.lines[lock] = append(m.lines[lock], noted{history.Moment(ago), addr + " " + text})
		m.mu.Unlock()
	}
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
