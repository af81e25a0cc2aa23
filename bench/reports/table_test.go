package reports

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/workloads"
)

func TestTableIsAligned(t *testing.T) {
	table := &table{}
	table.add("a", "µs")
	table.add("long", "1,000")
	want := "" +
		"a        µs\n" +
		"----  -----\n" +
		"long  1,000\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTableInMarkdown(t *testing.T) {
	table := &table{}
	table.add("a", "µs")
	table.add("long", "1,000")
	want := "| a | µs |\n|---|---:|\n| long | 1,000 |\n"
	if got := table.markdown(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{grouped(999), "999"},
		{grouped(1234567), "1,234,567"},
		{grouped(-1234), "-1,234"},
		{grouped(-123), "-123"},
		{decimal(0, 2), none},
		{hundredths(1.005), "1.00"},
		{short(9.96), "10.0"},
		{short(1234.5), "1,235"},
		{brief(0), none},
		{brief(85400), "85.4µs"},
		{brief(999 * time.Nanosecond), "999ns"},
		{brief(1694 * time.Microsecond), "1.69ms"},
		{brief(467980 * time.Microsecond), "468ms"},
		{rangeOf(workloads.Spread[float64]{Median: 1000, Low: 999.6, High: 1200}, whole), "1,000 (1,000–1,200)"},
		{wrap("a  b", ""), "a b"},
		{wrap(strings.Repeat("x", 110)+" aaaaa b", "  "), strings.Repeat("x", 110) + " aaaaa\n  b"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
