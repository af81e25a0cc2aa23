package printer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/visible"
)

const hostile = "a\x1b[2J\u202e\u3164\x9b\xff\r\u4e16e\u0301"

// TestPrinter: whichever way a text takes, it is escaped, and what is ours is not.
func TestPrinter(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := New(&out)
	_, err := fmt.Fprintf(p, "one\t%s\ntwo", hostile)
	err = errors.Join(err, p.Styled("\x1b[1m%s\x1b[0m\n", "x\n"+hostile), Lines(p, "y\n"+hostile, "z"), p.Close())
	text := visible.Text(hostile)
	if want := "one\t" + text + "\ntwo\x1b[1mx\\n" + text + "\x1b[0m\ny\\n" + text + "\nz\n"; err != nil || out.String() != want {
		t.Errorf("%v: %q, want %q", err, &out, want)
	}
}

// TestPrinterInParts: a character that comes in two parts is whole, and one that never ends is escaped at the end.
func TestPrinterInParts(t *testing.T) {
	t.Parallel()
	for cut := range len(hostile) {
		var out strings.Builder
		p := New(&out)
		for _, part := range []string{hostile[:cut], hostile[cut:], "\xe4\xb8"} {
			if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := p.Close(); err != nil || out.String() != visible.Text(hostile)+`\xe4\xb8` {
			t.Errorf("cut at %d: %v, %q", cut, err, &out)
		}
	}
}

// TestLinesAreCut: a text of megabytes is cut, between characters.
func TestLinesAreCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", longestLine), strings.Repeat("é", longestLine), "x" + strings.Repeat("\u4e16", longestLine), strings.Repeat("\xff", longestLine+1)} {
		got := Line(text)
		if cut := strings.HasSuffix(got, "…"); cut != (len(text) > longestLine) || strings.Contains(got, `\xc3`) || strings.Contains(got, `\xe4`) || len(got) > 5*longestLine {
			t.Errorf("%.10q… became %d bytes", text, len(got))
		}
	}
}

// TestPrinterFails has the first failure noted.
func TestPrinterFails(t *testing.T) {
	t.Parallel()
	p := New(broken{})
	if _, err := p.Write([]byte("x")); !errors.Is(err, errBroken) || !errors.Is(p.Err(), errBroken) || !errors.Is(p.Close(), errBroken) {
		t.Errorf("%v, %v", err, p.Err())
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// FuzzPrinter: nothing but visible characters, line breaks and tabs comes through.
func FuzzPrinter(f *testing.F) {
	f.Add(hostile, "\n", 3)
	f.Add("\xe4", "\xb8\x96", 1)
	f.Fuzz(func(t *testing.T, one, two string, cut int) {
		var out strings.Builder
		p := New(&out)
		cut = min(max(cut, 0), len(one))
		for _, part := range []string{one[:cut], one[cut:], two} {
			if _, err := p.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(p.Styled("%s", two), Lines(p, one), p.Close())
		for text := range strings.FieldsFuncSeq(out.String(), func(r rune) bool { return r == '\n' || r == '\t' }) {
			if err != nil || visible.Only(text) != text {
				t.Errorf("%v: %q", err, text)
			}
		}
	})
}

// TestNothingPrintsBeside: no other package of the tool writes to the standard streams, but for those that hand them to a command.
func TestNothingPrintsBeside(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"main.go": true, "internal/runner/child.go": true, "internal/runner/terminal.go": true, "internal/cli/demo.go": true}
	streams := regexp.MustCompile(`\bos\.(Stdout|Stderr)\b|\bfmt\.Print|\blog\.(Print|Fatal|Panic)|\bprintln\(`)
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || allowed[path] {
			return err
		}
		text, err := os.ReadFile("../../" + path)
		if found := streams.Find(text); found != nil {
			t.Errorf("%s has %s, and not a Printer", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
