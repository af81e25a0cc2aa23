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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/visible"
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
	plain mark = iota
	good
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
func (p *Plain) print(lines ...string) { _ = printer.Lines(p.w, lines...) }

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
	marks      = map[mark]lipgloss.Style{
		plain: lipgloss.NewStyle(),
		good:  lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Green),
		bad:   lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
		dim:   lipgloss.NewStyle().Faint(true),
	}
)

// terminal is a stage on a terminal: text that scrolls up, and below it a
// picture that changes. It is Bubble Tea's model, too.
type terminal struct {
	program *tea.Program
	columns atomic.Int64
	shown   picture // only Bubble Tea has it
	latest  picture // only the play has it
}

type picture []string

// OnTerminal plays on a terminal, and restores it however the play ends. It
// returns [ErrInterrupted] after Ctrl-C.
func OnTerminal(ctx context.Context, out io.Writer, width int, play func(context.Context, Stage) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &terminal{}
	t.resize(width)
	t.program = tea.NewProgram(t, tea.WithOutput(out), tea.WithoutSignalHandler())
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

func (t *terminal) resize(width int) { t.columns.Store(int64(max(narrowest, min(width-1, widest)))) }

// Init implements [tea.Model].
func (t *terminal) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (t *terminal) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.resize(msg.Width)
	case picture:
		t.shown = msg
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			return t, tea.Interrupt
		}
	}
	return t, nil
}

// View implements [tea.Model].
func (t *terminal) View() tea.View { return tea.NewView(t.cut(t.shown)) }

// cut is a picture as wide as there is room for it.
func (t *terminal) cut(p picture) string {
	return lipgloss.NewStyle().MaxWidth(t.width()).Render(strings.Join(p, "\n"))
}

// print does not use Program.Println, which hangs once the program has ended.
func (t *terminal) print(lines ...string) { t.program.Send(tea.Println(strings.Join(lines, "\n"))()) }

func (t *terminal) title(title string) {
	time.Sleep(breath)
	lines := text.Wrap(visible.Text(title), "", t.width())
	for i, line := range lines {
		lines[i] = titleStyle.Render(line)
	}
	t.print("", strings.Join(lines, "\n"))
}

func (t *terminal) write(lead, said string) {
	lines := text.Wrap(visible.Text(said), lead, t.width())
	lines[0] = strings.Replace(lines[0], bullet, t.mark(good, "  ✓ "), 1)
	t.print(lines...)
}

func (t *terminal) live(lines []string, _ string) {
	t.latest = lines
	t.program.Send(t.latest)
}

func (t *terminal) keep() {
	t.program.Send(picture(nil))
	t.print(t.cut(t.latest))
}

func (t *terminal) width() int                           { return int(t.columns.Load()) }
func (t *terminal) mark(reason mark, word string) string { return marks[reason].Render(word) }
