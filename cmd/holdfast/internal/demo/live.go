package demo

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const (
	widest    = 96
	narrowest = 24
	// breath is the pause before a scene begins, for readers.
	breath = 300 * time.Millisecond
)

// ErrInterrupted says that the reader had enough.
var ErrInterrupted = errors.New("interrupted")

var (
	titleStyle = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.BrightCyan)
	marks      = map[Mark]lipgloss.Style{
		Good: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Green),
		Bad:  lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
		Dim:  lipgloss.NewStyle().Faint(true),
	}
)

// terminal is a stage on a terminal: text that scrolls up, and below it a
// picture that changes.
type terminal struct {
	program *tea.Program
	width   atomic.Int64
	picture []string
}

// OnTerminal plays on a terminal, and restores it however the play ends. It
// returns [ErrInterrupted] after Ctrl-C.
func OnTerminal(ctx context.Context, out io.Writer, width int, play func(context.Context, Stage) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &terminal{}
	t.resize(width)
	t.program = tea.NewProgram(&model{terminal: t}, tea.WithOutput(out), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		ended <- play(ctx, t)
		t.program.Quit()
	}()
	stop := context.AfterFunc(ctx, t.program.Quit)
	defer stop()
	_, err := t.program.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		err = ErrInterrupted
	}
	if err != nil {
		cancel(err)
	}
	// Text sent to a program that has ended is dropped, so this cannot hang.
	return errors.Join(err, <-ended)
}

func (t *terminal) resize(width int) {
	t.width.Store(int64(max(narrowest, min(width-1, widest))))
}

// model is the picture, as Bubble Tea wants it.
type model struct {
	*terminal
	lines []string
}

type picture []string

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width)
	case picture:
		m.lines = msg
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			return m, tea.Interrupt
		}
	}
	return m, nil
}

// View implements [tea.Model].
func (m *model) View() tea.View {
	cut := lipgloss.NewStyle().MaxWidth(m.Width())
	return tea.NewView(cut.Render(strings.Join(m.lines, "\n")))
}

// Title implements [Stage].
func (t *terminal) Title(title string) {
	time.Sleep(breath)
	lines := text.Wrap(title, "", t.Width())
	for i, line := range lines {
		lines[i] = titleStyle.Render(line)
	}
	t.print(append([]string{""}, lines...))
}

// Say implements [Stage].
func (t *terminal) Say(said string) { t.print(text.Wrap(said, "", t.Width())) }

// Point implements [Stage].
func (t *terminal) Point(point string) {
	lines := text.Wrap(point, "  * ", t.Width())
	lines[0] = strings.Replace(lines[0], "*", t.Mark(Good, "✓"), 1)
	t.print(lines)
}

// print does not use Program.Println, which hangs once the program has ended.
func (t *terminal) print(lines []string) { t.program.Send(tea.Println(strings.Join(lines, "\n"))()) }

// Live implements [Stage].
func (t *terminal) Live(lines []string, _ string) {
	t.picture = lines
	t.program.Send(picture(lines))
}

// Keep implements [Stage].
func (t *terminal) Keep() {
	t.program.Send(picture(nil))
	cut := lipgloss.NewStyle().MaxWidth(t.Width())
	t.print([]string{cut.Render(strings.Join(t.picture, "\n"))})
}

// Width implements [Stage].
func (t *terminal) Width() int { return int(t.width.Load()) }

// Mark implements [Stage].
func (t *terminal) Mark(kind Mark, text string) string { return marks[kind].Render(text) }
