package watch

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// pointer stands before the lock that the cursor is on, also where there is no colour.
const pointer = "> "

var (
	titleStyle    = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.BrightCyan)
	headStyle     = lipgloss.NewStyle().Faint(true)
	selectedStyle = lipgloss.NewStyle().Reverse(true)
	alarmStyle    = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
)

// around is how many lines there are beside those of locks: a title, the columns' titles, a note, and the keys.
const around = 4

// rows is how many locks there is room for.
func (m *model) rows() int { return max(1, m.height-around) }

// View implements [tea.Model].
func (m *model) View() tea.View {
	view := tea.NewView(strings.Join(m.lines(), "\n"))
	view.AltScreen = true
	view.WindowTitle = "holdfast watch"
	return view
}

// line is one of the screen. Its text may be anybody's: it is escaped when the line is drawn.
type line struct {
	lead  string // ours, without a style
	text  string
	style lipgloss.Style
}

// draw returns the line in at most so many columns.
func (l line) draw(width int) string {
	return ansi.Truncate(l.lead+l.style.Render(ansi.Truncate(visible.Text(l.text), max(0, width-ansi.StringWidth(l.lead)), "…")), width, "…")
}

// plain are lines without a style.
func plain(texts ...string) []line {
	lines := make([]line, len(texts))
	for i, text := range texts {
		lines[i].text = text
	}
	return lines
}

// lines are what is on the screen: as many as fit, and none too wide.
func (m *model) lines() []string {
	var lines []line
	switch m.page {
	case details:
		lines = m.detailLines()
	case confirming:
		lines = m.confirmLines()
	default:
		lines = m.listLines()
	}
	drawn := make([]string, len(lines))
	for i, l := range lines {
		drawn[i] = l.draw(m.width)
	}
	return drawn
}

// screen puts a title, a body, a note and the keys together.
func (m *model) screen(title string, body []line, keys string) []line {
	body = body[:min(len(body), max(0, m.height-3))]
	lines := append([]line{{text: present.Fit(visible.Text(title), m.width), style: titleStyle}}, body...)
	for len(lines) < m.height-2 {
		lines = append(lines, line{})
	}
	note := line{text: m.note}
	if m.failed != nil && m.page != details {
		note = line{text: m.explain(m.failed), style: alarmStyle}
	}
	return append(lines, note, line{text: keys, style: headStyle})
}

func (m *model) listLines() []line {
	if !m.looked {
		return m.screen(m.title(), plain("", "looking …"), "q quit")
	}
	body := plain("", "no locks")
	if m.table != nil && len(m.shown) > 0 {
		beside := strings.Repeat(" ", len(pointer))
		body = []line{{beside, m.table.Head(), headStyle}}
		for i := m.top; i < min(m.top+m.rows(), len(m.shown)); i++ {
			row := line{lead: beside, text: m.table.Line(m.shown[i])}
			if i == m.cursor {
				row.lead, row.style = pointer, selectedStyle
			}
			body = append(body, row)
		}
	}
	if m.page == filtering {
		return m.screen("filter: "+m.filter+"_", body, "enter keep  esc clear")
	}
	keys := "enter details  u unlock  s sort  / filter  q quit"
	if m.width < len(keys) {
		keys = "⏎ details u unlock s sort / filter q quit"
	}
	return m.screen(m.title(), body, keys)
}

// title says what is shown, the most important first.
func (m *model) title() string {
	held := 0
	for _, l := range m.all {
		if l.State == survey.Held {
			held++
		}
	}
	count := fmt.Sprintf("%d held, %d in all", held, len(m.all)+m.more)
	if m.more > 0 {
		count = fmt.Sprintf("the first %d of %d", len(m.all), len(m.all)+m.more)
	}
	parts := []string{count, "by " + string(m.Order)}
	if m.tooLong > 0 {
		parts = append(parts, present.TooLong(m.tooLong))
	}
	if m.filter != "" {
		parts = append(parts, fmt.Sprintf("%d with %s", len(m.shown), m.filter))
	}
	if m.Options.Match != "" {
		parts = append(parts, m.Options.Match)
	}
	return strings.Join(append(parts, m.Server), " · ")
}

func (m *model) detailLines() []line {
	body := plain("")
	switch {
	case m.lockErr != nil:
		body = append(body, plain(present.Fit(present.Safe(m.lockName), m.width), m.explain(m.lockErr))...)
	default:
		body = append(body, plain(present.Details(m.lock, m.width)...)...)
	}
	return m.screen("details · "+m.Server, body, "u unlock  esc back")
}

func (m *model) confirmLines() []line {
	ask := force.Victims(m.lock) + ". Whoever holds it may still be at work; take it away all the same?"
	body := append(plain(""), plain(text.Wrap(visible.Text(ask), "", m.width)...)...)
	return m.screen("unlock · "+m.Server, body, "y take it away  any other key: do nothing")
}
