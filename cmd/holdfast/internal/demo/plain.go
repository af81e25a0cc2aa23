package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
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
func (p *Plain) Title(title string) { p.print("", "== "+title) }

// Say implements [Stage].
func (p *Plain) Say(said string) { p.print(text.Wrap(said, "", plainWidth)...) }

// Point implements [Stage].
func (p *Plain) Point(point string) { p.print(text.Wrap(point, "  * ", plainWidth)...) }

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
