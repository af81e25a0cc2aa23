package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	plainWidth = 79
	// plainEvery is how often a line stands for a picture that changes.
	plainEvery = 300 * time.Millisecond
)

// Plain is a stage of plain ASCII lines.
type Plain struct {
	w    io.Writer
	next time.Time // when the next line of a live picture is due
}

// NewPlain returns a stage that writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

// print drops failures: there is nobody to be told.
func (p *Plain) print(lines ...string) {
	_, _ = fmt.Fprintln(p.w, strings.Join(lines, "\n"))
}

// Title implements [Stage].
func (p *Plain) Title(text string) { p.print("", "== "+text) }

// Say implements [Stage].
func (p *Plain) Say(text string) { p.print(wrap(text, "", plainWidth)...) }

// Point implements [Stage].
func (p *Plain) Point(text string) { p.print(wrap(text, "  * ", plainWidth)...) }

// Live implements [Stage].
func (p *Plain) Live(_ []string, line string) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(plainEvery)
		p.print("    " + line)
	}
}

// Keep implements [Stage].
func (p *Plain) Keep() { p.next = time.Time{} }

// Width implements [Stage].
func (p *Plain) Width() int { return plainWidth }

// Mark implements [Stage].
func (p *Plain) Mark(_ Mark, text string) string { return text }

// wrap breaks a text into lines. The first starts with lead, the others are
// indented as far.
func wrap(text, lead string, width int) []string {
	var lines []string
	line := lead
	indent := strings.Repeat(" ", len(lead))
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return append(lines, line)
}
