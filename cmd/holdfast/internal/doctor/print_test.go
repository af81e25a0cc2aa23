package doctor

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
)

var some = [][]Finding{
	{{Check: "one", Severity: Pass, Found: "a sentence that is rather long for a line of a small terminal"}},
	{{Check: "two", Severity: Pass, Where: []string{"a:1"}, Found: "well"}, {Check: "two", Severity: Pass, Where: []string{"b:1"}, Found: "good"}},
	{{Check: "three", Severity: Unknown, Found: "CONFIG is refused", Do: "Look for yourself."}},
	{{Check: "four", Severity: Failure, Where: []string{"a:1"}, Found: "it is bad, and that takes some words to say", Do: "Make it good, which takes some words, too."}},
	{{Check: "five", Severity: Unknown, Found: "CONFIG is refused", Do: "Look for yourself."}},
	{{Check: "six", Severity: Warning, Found: "so so", Do: "The same."}, {Check: "six", Severity: Warning, Found: "lala", Do: "The same."}},
}

// colours are what a terminal does not show.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

func printed(t *testing.T, p *Printer) string {
	t.Helper()
	var out strings.Builder
	p.W = printer.New(&out)
	p.Title("Redis: there")
	for _, findings := range some {
		p.Tell(findings)
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPrintNothingPassed has one empty line below the title.
func TestPrintNothingPassed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := Printer{W: printer.New(&out), Width: 43}
	p.Title("Redis: there")
	p.Tell(some[3])
	if err := p.End(); err != nil || !strings.HasPrefix(out.String(), "Redis: there\n\nFAIL  four: ") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		printer Printer
		want    string
	}{
		{Printer{Width: 43, Terminal: true}, `Redis: there

ok    one: a sentence that is rather long…
ok    two: well; and others (--verbose)

?     not known, since CONFIG is refused:
      five, three.
      > Look for yourself.
warn  six: so so.
warn  six: lala.
      > The same.
FAIL  four: it is bad, and that takes some
      words to say. (a:1)
      > Make it good, which takes some
        words, too.

1 failure, 2 warnings, 2 passed, 2 not
known.
`},
		{Printer{Width: 79, Verbose: true}, `Redis: there

ok    one: a sentence that is rather long for a line of a small terminal.
ok    two: well. (a:1)
ok    two: good. (b:1)

?     not known, since CONFIG is refused: five, three.
      > Look for yourself.
warn  six: so so.
warn  six: lala.
      > The same.
FAIL  four: it is bad, and that takes some words to say. (a:1)
      > Make it good, which takes some words, too.

1 failure, 2 warnings, 2 passed, 2 not known.
`},
	} {
		if got := printed(t, &c.printer); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
		for _, width := range []int{24, 43, 79} {
			p := c.printer
			p.Width = width
			for line := range strings.Lines(printed(t, &p)) {
				if lipgloss.Width(strings.TrimSuffix(line, "\n")) > width {
					t.Errorf("it does not fit %d columns: %s", width, line)
				}
			}
		}
		plain := printed(t, &c.printer)
		c.printer.Colour = true
		if got := printed(t, &c.printer); colours.ReplaceAllString(got, "") != plain || got == plain {
			t.Errorf("with colours it is\n%s", got)
		}
	}
}

// broken is a stream that nobody reads.
type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestPrintFails(t *testing.T) {
	t.Parallel()
	p := &Printer{W: printer.New(broken{}), Width: 79}
	p.Title("x")
	p.Tell(some[0])
	if err := p.End(); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	found := func(where, says string) Finding {
		return Finding{Severity: Warning, Found: says, Where: []string{where}}
	}
	got := merge([]Finding{found("a", "x"), found("b", "y"), found("c", "x")}, 3)
	if len(got) != 2 || strings.Join(got[0].Where, " ") != "a c" || strings.Join(got[1].Where, " ") != "b" {
		t.Errorf("%+v", got)
	}
	if got := merge([]Finding{found("a", "x"), found("b", "x")}, 2); len(got) != 1 || got[0].Where != nil {
		t.Errorf("%+v", got)
	}
}
