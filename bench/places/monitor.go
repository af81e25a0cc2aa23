package places

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Monitor counts the commands that clients send to the server. INFO cannot tell
// them from those that scripts call; MONITOR can, but slows the server down. So it
// is used in a turn of its own.
//
// Its goroutine reads until finish has been called, or the connection is closed.
type Monitor struct {
	conn  net.Conn
	token string // in the command that ends the count
	done  chan counted
}

type counted struct {
	commands int
	err      error
}

// maxLine bounds a command's line. Scripts that are loaded are the longest.
const maxLine = 1 << 20

// StartMonitor starts counting. Every wait of it ends within the limit.
func StartMonitor(ctx context.Context, addr string, limit time.Duration) (*Monitor, error) {
	conn, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &Monitor{conn: conn, token: rand.Text(), done: make(chan counted, 1)}
	lines, err := m.ask(limit)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("MONITOR: %w", err), conn.Close())
	}
	go func() { m.done <- m.count(lines) }()
	return m, nil
}

func (m *Monitor) ask(limit time.Duration) (*bufio.Scanner, error) {
	if err := m.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(m.conn, "MONITOR\r\n"); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, maxLine)
	if !lines.Scan() {
		return nil, errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}
	if lines.Text() != "+OK" {
		return nil, errors.New(lines.Text())
	}
	return lines, nil
}

func (m *Monitor) count(lines *bufio.Scanner) (c counted) {
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, m.token):
			return c
		case !calledByScript(line) && !isInfo(line):
			c.commands++
		}
	}
	c.err = errors.Join(io.ErrUnexpectedEOF, lines.Err())
	return c
}

// calledByScript reports whether a line of MONITOR shows what a script has called:
//
//	+1339518083.107412 [0 lua] "set" "x" "7"
func calledByScript(line string) bool {
	source, _, _ := strings.Cut(line, "]")
	return strings.HasSuffix(source, " lua")
}

// isInfo reports whether a line of MONITOR shows INFO, which is ours.
func isInfo(line string) bool {
	_, command, _ := strings.Cut(line, "] ")
	return strings.HasPrefix(strings.ToLower(command), `"info"`)
}

// Finish returns how many commands have been sent since the start. It sends
// the one that ends the count.
func (m *Monitor) Finish(ctx context.Context, on *redis.Client) (int, error) {
	err := on.Echo(ctx, m.token).Err()
	if err != nil {
		err = errors.Join(err, m.conn.Close())
		<-m.done
		return 0, err
	}
	c := <-m.done
	return c.commands, errors.Join(c.err, m.conn.Close())
}
