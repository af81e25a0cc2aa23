package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// Stage is where the demo is shown.
type Stage interface {
	// title begins a scene.
	title(text string)
	// write writes a paragraph, whose first line begins with lead.
	write(lead, text string)
	// live shows how things stand: a picture that replaces the one before, or,
	// now and then, the line.
	live(picture []string, line string)
	// keep ends a live picture and leaves its last state to be read.
	keep()
	// width is how many columns a picture may have.
	width() int
	// mark emphasises a word of a picture.
	mark(reason mark, word string) string
}

// mark is a reason to emphasise a word.
type mark int

const (
	good mark = iota
	bad
	dim
)

const (
	// frame is how often a picture changes, and plainEvery how often a line stands for it.
	frame      = 60 * time.Millisecond
	plainEvery = 300 * time.Millisecond
	plainWidth = 79
)

// Plain is a stage of plain ASCII lines.
type Plain struct {
	w    io.Writer
	next time.Time // when the next line of a live picture is due
}

// NewPlain returns a stage that writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

// print drops failures: there is nobody to be told.
func (p *Plain) print(lines ...string) { _, _ = fmt.Fprintln(p.w, strings.Join(lines, "\n")) }

func (p *Plain) title(title string)      { p.print("", "== "+title) }
func (p *Plain) write(lead, said string) { p.print(text.Wrap(said, lead, plainWidth)...) }
func (p *Plain) keep()                   { p.next = time.Time{} }

func (p *Plain) live(_ []string, line string) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(plainEvery)
		p.print("    " + line)
	}
}

func (p *Plain) width() int                      { return plainWidth }
func (p *Plain) mark(_ mark, word string) string { return word }
