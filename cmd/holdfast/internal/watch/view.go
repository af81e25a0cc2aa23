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

// lines are what is on the screen: as many as fit, and none too wide.
func (m *model) lines() []string {
	var lines []string
	switch m.page {
	case details:
		lines = m.detailLines()
	case confirming:
		lines = m.confirmLines()
	default:
		lines = m.listLines()
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return lines
}

// screen puts a title, a body, a note and the keys together.
func (m *model) screen(title string, body []string, keys string) []string {
	body = body[:min(len(body), max(0, m.height-3))]
	lines := append([]string{titleStyle.Render(present.Fit(title, m.width))}, body...)
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	note := m.note // the caller cuts it at its end
	if m.failed != nil && m.page != details {
		note = alarmStyle.Render(m.explain(m.failed))
	}
	return append(lines, note, headStyle.Render(keys))
}

func (m *model) listLines() []string {
	if !m.looked {
		return m.screen(m.title(), []string{"", "looking …"}, "q quit")
	}
	var body []string
	if m.table != nil && len(m.shown) > 0 {
		body = append(body, headStyle.Render(strings.Repeat(" ", len(pointer))+m.table.Head()))
		for i := m.top; i < min(m.top+m.rows(), len(m.shown)); i++ {
			line := m.table.Line(m.shown[i])
			if i == m.cursor {
				line = pointer + selectedStyle.Render(line)
			} else {
				line = strings.Repeat(" ", len(pointer)) + line
			}
			body = append(body, line)
		}
	} else {
		body = []string{"", "no locks"}
	}
	if m.page == filtering {
		return m.screen("filter: "+present.Safe(m.filter)+"_", body, "enter keep  esc clear")
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
	if m.filter != "" {
		parts = append(parts, fmt.Sprintf("%d with %s", len(m.shown), present.Safe(m.filter)))
	}
	if m.Options.Match != "" {
		parts = append(parts, present.Safe(m.Options.Match))
	}
	return strings.Join(append(parts, m.Server), " · ")
}

func (m *model) detailLines() []string {
	body := []string{""}
	switch {
	case m.lockErr != nil:
		body = append(body, present.Fit(present.Safe(m.lockName), m.width), m.explain(m.lockErr))
	default:
		body = append(body, present.Details(m.lock, m.width)...)
	}
	return m.screen("details · "+m.Server, body, "u unlock  esc back")
}

func (m *model) confirmLines() []string {
	ask := force.Victims(m.lock) + ". Whoever holds it may still be at work; take it away all the same?"
	body := append([]string{""}, text.Wrap(ask, "", m.width)...)
	return m.screen("unlock · "+m.Server, body, "y take it away  any other key: do nothing")
}
