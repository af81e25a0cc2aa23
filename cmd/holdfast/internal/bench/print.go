package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// barWidth is how long the longest bar of the histogram is where there is room for it, and beforeBar how much
// stands before it, but for the digits of the count.
const (
	barWidth  = 40
	beforeBar = 33
)

// Print writes the result for people, in lines of at most so many columns; 0: of any length.
func (r *Result) Print(w io.Writer, width int) error {
	if width <= 0 {
		width = math.MaxInt32
	}
	var b strings.Builder
	line := func(lead, format string, args ...any) {
		b.WriteString(strings.Join(text.Wrap(fmt.Sprintf(format, args...), lead, width), "\n") + "\n")
	}
	how, early := "", ""
	if r.WithoutHandOver {
		how = ", without hand-over"
	}
	if r.Interrupted {
		early = ", interrupted"
	}
	line("", "%s for %s%s, %.1f s on %s%s", count(int64(r.Goroutines), "goroutine"), r.locks(), how, r.Elapsed.Seconds(), r.Server, early)
	b.WriteString("\n")
	line("  pairs    ", "%s, %s a second%s", grouped(r.Pairs), grouped(int64(r.PerSecond)), r.path())
	if r.ThroughRedis != nil {
		line("           ", "%s a second with each through Redis, as between processes", grouped(int64(r.ThroughRedis.PerSecond)))
	}
	line("  wait     ", "%v", r.Wait)
	line("  unlock   ", "%v", r.Unlock)
	line("  shares   ", "from %s to %s pairs a goroutine", grouped(r.Fewest), grouped(r.Most))
	if r.Waiting > 0 {
		line("  waiting  ", "%s in the end, for %s at most", count(int64(r.Waiting), "goroutine"), brief(r.Unserved))
	}
	if r.Failures > 0 {
		line("  failed   ", "%s", count(r.Failures, "pair"))
	}
	if r.Pairs > 0 {
		b.WriteString("\n" + r.histogram(width))
	}
	if _, err := io.WriteString(w, b.String()); err != nil || r.ThroughRedis == nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return r.ThroughRedis.Print(w, width)
}

// path returns how holds passed from goroutine to goroutine; empty if there is only one way.
func (r *Result) path() string {
	switch {
	case r.ThroughRedis != nil && r.Kind == Read:
		return ", in holds that goroutines of this process share"
	case r.ThroughRedis != nil:
		return ", handed over inside this process"
	case r.WithoutHandOver:
		return ", each through Redis"
	}
	return ""
}

// locks says what was locked.
func (r *Result) locks() string {
	what := map[Kind]string{Mutex: "mutex", Fair: "fair mutex", Read: "read lock", Write: "write lock"}[r.Kind]
	hold := ""
	if r.Hold > 0 {
		hold = fmt.Sprintf(", held for %v", r.Hold)
	}
	if r.Locks > 1 && strings.HasSuffix(what, "mutex") {
		return fmt.Sprintf("%s %ses%s", grouped(int64(r.Locks)), what, hold)
	}
	return count(int64(r.Locks), what) + hold
}

// histogram draws the waits.
func (r *Result) histogram(width int) string {
	var b strings.Builder
	largest := int64(1)
	for _, bucket := range r.Waits {
		largest = max(largest, bucket.Count)
	}
	digits := len(grouped(largest))
	longest := int64(max(0, min(barWidth, width-beforeBar-digits)))
	for _, bucket := range r.Waits {
		bar := strings.Repeat("#", int((bucket.Count*longest+largest-1)/largest))
		line := fmt.Sprintf("  wait below %7s  %*s  %5.1f %%  %s", brief(bucket.Below), digits, grouped(bucket.Count),
			100*float64(bucket.Count)/float64(r.Pairs), bar)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// String sums the times up.
func (t Times) String() string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s, mean %s", brief(t.P50), brief(t.P99), brief(t.Max), brief(t.Mean))
}

// brief writes a time with three digits at most.
func brief(d time.Duration) string {
	unit := time.Nanosecond // of the last digit
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}
