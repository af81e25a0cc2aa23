package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const (
	renewedLease = 1500 * time.Millisecond
	renewedFor   = 3 * renewedLease
	sample       = 75 * time.Millisecond
)

// course is the time to live of a key over time.
type course struct {
	lease    time.Duration
	values   []time.Duration
	renewals int
}

// add notes a sample. The time to live only grows by a renewal.
func (c *course) add(d time.Duration) {
	if n := len(c.values); n > 0 && d > c.values[n-1] {
		c.renewals++
	}
	c.values = append(c.values, d)
}

// renewal holds a lock for several leases.
func (s *show) renewal(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("The lease is %s, the work takes %s. The watchdog renews the lease each third of it for as long as the "+
		"holder lives, so nobody has to guess how long work takes. This is the key's time to live, as the server tells it (PTTL):",
		seconds(renewedLease), seconds(renewedFor)))
	client, done, err := s.client(nil, holdfast.WithLease(renewedLease))
	if err != nil {
		return err
	}
	defer done()
	mu := client.NewMutex(s.key("renewed"))
	hold, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	c := &course{lease: renewedLease}
	held, err := s.follow(hold.Context(), c, mu.Name())
	if cause := context.Cause(hold.Context()); cause != nil {
		return errors.Join(cause, hold.Unlock())
	}
	if err := errors.Join(err, hold.Unlock()); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("Held for %s, three leases, with %s. Without them the key would have been gone after %s.",
		seconds(held), text.Count(c.renewals, "renewal"), seconds(renewedLease)))
	s.measuredf("Watchdog: a lease of %s was held for %s.", seconds(renewedLease), seconds(held))
	if c.renewals < 3 {
		return fmt.Errorf("%d renewals in %s are too few", c.renewals, seconds(held))
	}
	return nil
}

// follow shows the time to live of a key for a while.
func (s *show) follow(ctx context.Context, c *course, key string) (held time.Duration, err error) {
	began := time.Now()
	defer s.Stage.Keep()
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for time.Since(began) < renewedFor {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		ttl, err := s.pttl(ctx, key)
		if err != nil {
			return 0, err
		}
		if ttl == 0 {
			return 0, fmt.Errorf("the key was gone after %s, although its holder lives", seconds(time.Since(began)))
		}
		c.add(ttl)
		s.Stage.Live(s.chart(c, time.Since(began)), fmt.Sprintf("held %s  PTTL %4d ms  %s  %2d renewals",
			seconds(time.Since(began)), ttl.Milliseconds(), bar(ttl, c.lease, 30), c.renewals))
	}
	return time.Since(began), nil
}

// chart draws the course with a row for each quarter of the lease.
func (s *show) chart(c *course, held time.Duration) []string {
	const rows = 4
	levels := []rune(" ▁▂▃▄▅▆▇█")
	values := c.values[max(0, len(c.values)-max(8, s.Stage.Width()-12)):]
	picture := make([]string, 0, rows+1)
	for row := rows - 1; row >= 0; row-- {
		line := make([]rune, len(values))
		for i, v := range values {
			eighths := int(v*rows*8/c.lease) - row*8
			line[i] = levels[max(0, min(8, eighths))]
		}
		label := strings.Repeat(" ", 7)
		if row == rows-1 {
			label = fmt.Sprintf("%5s  ", seconds(c.lease))
		}
		picture = append(picture, label+string(line))
	}
	now := c.values[len(c.values)-1]
	return append(picture, fmt.Sprintf("PTTL %4d ms   held %s   %s", now.Milliseconds(), seconds(held), text.Count(c.renewals, "renewal")))
}

// bar draws a part of a whole in plain characters.
func bar(part, whole time.Duration, width int) string {
	n := max(0, min(width, int(part*time.Duration(width)/whole)))
	return strings.Repeat("#", n) + strings.Repeat("-", width-n)
}
