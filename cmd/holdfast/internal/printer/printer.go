// Package printer is the only way of the tool to its standard output and error. What it prints may be anybody's text: names and owners in
// Redis, errors of servers, arguments. So everything is escaped here, by the rule of package visible, and not where it comes from: a
// [Printer] lets only visible characters, line breaks and tabs through, whoever writes to it. Escape sequences of ours are in the format of
// [Printer.Styled].
//
// Text that is to stand in one line is printed by [Lines] or [Printer.Styled]: there a line break is escaped, too, and what is too long is cut.
//
// Three things do not come through here: what draws the whole screen takes [Printer.Beneath], and escapes what it draws; the help, which is
// ours; and the command of holdfast run, which has our standard streams themselves.
package printer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/visible"
)

// Printer prints to a file, a pipe or a terminal. Its methods may be called side by side.
type Printer struct {
	mu     sync.Mutex
	w      io.Writer
	text   visible.Reader
	begun  []byte // the first bytes of a character that is not whole yet
	failed error  // the first failure
}

// New returns a printer that prints to w.
func New(w io.Writer) *Printer { return &Printer{w: w} }

// Beneath returns what the printer prints to.
func (p *Printer) Beneath() io.Writer { return p.w }

// Err returns the first failure to write; nil if there was none.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Write prints a text, or a part of one: a character may be cut. It implements [io.Writer].
func (p *Printer) Write(part []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := slices.Concat(p.begun, part)
	whole := len(text) - unfinished(text)
	p.begun = text[whole:]
	if err := p.write(p.text.Map(string(text[:whole]), layout)); err != nil {
		return 0, err
	}
	return len(part), nil
}

// layout is what stands for a hidden character in a text of several lines.
func layout(character string) string {
	if character == "\n" || character == "\t" {
		return character
	}
	return visible.Escape(character)
}

// unfinished is how many bytes at the end of a text begin a character that is not whole.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Styled prints values in a format of ours, which has a %s for each: the format may have escape sequences, and the values are escaped, line
// breaks too.
func (p *Printer) Styled(format string, values ...string) error {
	shown := make([]any, len(values))
	for i, value := range values {
		shown[i] = Line(value)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = visible.Reader{}
	return p.write(fmt.Sprintf(format, shown...))
}

// Close prints what is left of a text that ended within a character, and returns the first failure.
func (p *Printer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := visible.Text(string(p.begun))
	p.begun = nil
	if rest != "" {
		_ = p.write(rest) // it is noted
	}
	return p.failed
}

// write writes what is safe. The caller has the lock.
func (p *Printer) write(text string) error {
	_, err := io.WriteString(p.w, text)
	if p.failed == nil {
		p.failed = err
	}
	return err
}

// longestLine is how many bytes a text in one line may have: anybody may have written megabytes.
const longestLine = 8 << 10

// Line returns a text that can stand in one line: escaped, and cut.
func Line(text string) string {
	if len(text) > longestLine {
		text = text[:longestLine]
		text = text[:len(text)-unfinished([]byte(text[longestLine-utf8.UTFMax:]))] + "…"
	}
	return visible.Text(text)
}

// Lines writes texts to w, each in a line of its own.
func Lines(w io.Writer, lines ...string) error {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(Line(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
