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
)

// renewal holds a lock for several leases.
func (s *show) renewal() {
	s.sayf("The lease is %s, the work takes %s. The watchdog renews the lease each third of it for as long as the "+
		"holder lives, so nobody has to guess how long work takes. This is the key's time to live, as the server tells "+
		"it (PTTL):", seconds(renewedLease), seconds(renewedFor))
	mu := s.client(holdfast.WithLease(renewedLease)).NewMutex(s.key("renewed"))
	hold := must(mu.Lock(s.ctx))
	began := time.Now()
	var course []time.Duration // of the time to live
	renewals := 0
	until(s, time.After(renewedFor), func() {
		check(context.Cause(hold.Context()))
		ttl, held := s.pttl(mu.Name()), seconds(time.Since(began))
		promise(ttl > 0, "the key was gone after %s, although its holder lives", held)
		if n := len(course); n > 0 && ttl > course[n-1] { // it only grows by a renewal
			renewals++
		}
		course = append(course, ttl)
		s.Stage.live(s.chart(course, fmt.Sprintf("held %s   %s", held, text.Count(renewals, "renewal"))),
			fmt.Sprintf("held %s  PTTL %4d ms  %s  %2d renewals", held, ttl.Milliseconds(), bar(ttl, renewedLease, 30), renewals))
	})
	s.Stage.keep()
	held := seconds(time.Since(began))
	check(errors.Join(context.Cause(hold.Context()), hold.Unlock()))
	s.pointf("Held for %s, three leases, with %s. Without them the key would have been gone after %s.",
		held, text.Count(renewals, "renewal"), seconds(renewedLease))
	s.measuredf("Watchdog: a lease of %s was held for %s.", seconds(renewedLease), held)
	promise(renewals >= 3, "%d renewals in %s are too few", renewals, held)
}

// chart draws the time to live with a row for each quarter of the lease.
func (s *show) chart(course []time.Duration, words string) []string {
	const rows = 4
	levels := []rune(" ▁▂▃▄▅▆▇█")
	course = course[max(0, len(course)-max(8, s.Stage.width()-12)):]
	picture := make([]string, rows)
	for row := range rows {
		label := "       "
		if row == 0 {
			label = fmt.Sprintf("%5s  ", seconds(renewedLease))
		}
		var line strings.Builder
		for _, ttl := range course {
			eighths := int(ttl*rows*8/renewedLease) - (rows-1-row)*8
			line.WriteRune(levels[max(0, min(8, eighths))])
		}
		picture[row] = label + line.String()
	}
	return append(picture, fmt.Sprintf("PTTL %4d ms   %s", course[len(course)-1].Milliseconds(), words))
}
