package doctor

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// lead is how wide the word before each finding is.
const lead = 6

var (
	leads = map[Severity]string{Pass: "ok", Unknown: "?", Warning: "warn", Failure: "FAIL"}
	// styles are those of the words, on a terminal.
	styles = map[Severity]lipgloss.Style{
		Pass: lipgloss.NewStyle().Foreground(lipgloss.Green), Unknown: lipgloss.NewStyle().Faint(true),
		Warning: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Yellow), Failure: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
	}
)

// Printer writes findings for people: what passed at once, the rest in the end, the worst last.
type Printer struct {
	W *printer.Printer
	// Width is that of a line.
	Width int
	// Terminal is true if lines are cut that would not fit, and Colour if there are colours.
	Terminal, Colour bool
	// Verbose has all that passed, and where.
	Verbose bool

	held   map[Severity][]Finding
	passed int
	err    error // the first of writing
}

// Title begins.
func (p *Printer) Title(title string) {
	p.held, p.passed = map[Severity][]Finding{}, 0
	p.lines(text.Wrap(visible.Text(title), "", p.Width)...)
	p.lines("")
}

// Tell is told what a check has found.
func (p *Printer) Tell(findings []Finding) {
	var passes []Finding
	for _, f := range findings {
		if f.Severity == Pass {
			passes = append(passes, f)
		} else {
			p.held[f.Severity] = append(p.held[f.Severity], f)
		}
	}
	if len(passes) > 0 {
		p.passed++
	}
	switch {
	case p.Verbose:
		for _, f := range passes {
			p.finding(f)
		}
	case len(passes) == 1:
		p.line(passes[0].Check + ": " + passes[0].Found)
	case len(passes) > 1:
		p.line(fmt.Sprintf("%s: %s; and others (--verbose)", passes[0].Check, passes[0].Found))
	}
}

// line writes what passed in one line.
func (p *Printer) line(of string) {
	of = visible.Text(of) // it may be wider
	if room := p.Width - lead; p.Terminal && ansi.StringWidth(of) > room {
		of = strings.TrimSpace(ansi.Truncate(of, room-1, "")) + "…"
	}
	p.lead(Pass, of)
}

// End writes what did not pass, and a sum.
func (p *Printer) End() error {
	if len(p.held) > 0 && p.passed > 0 {
		p.lines("")
	}
	p.unknown()
	for _, severity := range []Severity{Warning, Failure} {
		held := p.held[severity]
		for i, f := range held {
			if i+1 < len(held) && held[i+1].Check == f.Check && held[i+1].Do == f.Do {
				f.Do = "" // the next one says it
			}
			p.finding(f)
		}
	}
	p.lines("")
	sum := fmt.Sprintf("%s, %s, %d passed, %d not known.",
		text.Count(len(p.held[Failure]), "failure"), text.Count(len(p.held[Warning]), "warning"), p.passed, len(p.held[Unknown]))
	p.lines(text.Wrap(sum, "", p.Width)...)
	return p.err
}

// unknown writes what is not known, together where the reason is the same.
func (p *Printer) unknown() {
	var reasons []Finding
	checks := map[string][]string{}
	for _, f := range p.held[Unknown] {
		if checks[f.Found] == nil {
			reasons = append(reasons, f)
		}
		checks[f.Found] = append(checks[f.Found], f.Check)
	}
	for i, f := range reasons {
		p.wrapped(Unknown, fmt.Sprintf("not known, since %s: %s.", f.Found, strings.Join(unique(checks[f.Found]), ", ")))
		if i+1 == len(reasons) || reasons[i+1].Do != f.Do { // else the next one says it
			p.do(f)
		}
	}
}

// finding writes one in full.
func (p *Printer) finding(f Finding) {
	said := f.Check + ": " + f.Found + "."
	if len(f.Where) > 0 && !strings.Contains(f.Found, f.Where[0]) {
		said += " (" + strings.Join(f.Where, ", ") + ")"
	}
	p.wrapped(f.Severity, said)
	if f.Do != "" {
		p.do(f)
	}
}

// do writes what to do.
func (p *Printer) do(f Finding) {
	p.lines(text.Wrap(visible.Text(f.Do), strings.Repeat(" ", lead)+"> ", p.Width)...)
}

func (p *Printer) wrapped(severity Severity, said string) {
	lines := text.Wrap(visible.Text(said), strings.Repeat(" ", lead), p.Width)
	p.lead(severity, lines[0][lead:])
	if len(lines) > 1 {
		p.lines(lines[1:]...)
	}
}

// lead writes the first line of a finding, behind its word.
func (p *Printer) lead(severity Severity, said string) {
	word := leads[severity]
	padding := strings.Repeat(" ", lead-len(word))
	if p.Colour {
		word = styles[severity].Render(word)
	}
	p.failed(p.W.Styled(word+padding+"%s\n", said))
}

func (p *Printer) lines(lines ...string) { p.failed(printer.Lines(p.W, lines...)) }

// failed notes the first failure.
func (p *Printer) failed(err error) {
	if p.err == nil {
		p.err = err
	}
}
