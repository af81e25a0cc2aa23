package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// page is what is on the screen.
type page int

const (
	list page = iota
	filtering
	details
	confirming
)

// escape is the key that leads back.
const escape = "esc"

// model is what is shown, as Bubble Tea wants it.
type model struct {
	Config

	ask           asker
	width, height int
	page, back    page // back is where confirming came from

	all      []survey.Lock // as they were found
	more     int
	tooLong  int   // names
	looked   bool  // at all, with success
	failed   error // of the last look
	shown    []survey.Lock
	table    *present.Table
	filter   string
	cursor   int
	top      int
	round    int // of looks; an answer to due of an older one counts for nothing
	asking   bool
	lock     survey.Lock // whose details are shown, or that is about to be taken away
	lockName string
	lockErr  error
	note     string // what came of the last key
	fatal    error  // of the first look
}

func newModel(ctx context.Context, cfg Config) *model {
	return &model{Config: cfg, ask: asker{cfg, ctx}, width: 80, height: 24}
}

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return m.look() }

// look asks for what is on the screen.
func (m *model) look() tea.Cmd {
	m.asking = true
	if m.page == details {
		return m.ask.read(m.lockName, false)
	}
	return m.ask.scan
}

// again has another look be due.
func (m *model) again(pause time.Duration) tea.Cmd {
	m.asking = false
	m.round++
	round := m.round
	return tea.Tick(pause, func(time.Time) tea.Msg { return due{round} })
}

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.arrange()
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case due:
		if msg.round == m.round && !m.asking {
			return m, m.look()
		}
	case scanned:
		return m, m.take(msg)
	case read:
		return m, m.takeRead(msg)
	case forced:
		m.takeForced(msg)
		if !m.asking {
			return m, m.look()
		}
	}
	return m, nil
}

func (m *model) take(msg scanned) tea.Cmd {
	m.failed = msg.err
	if msg.err != nil && !m.looked {
		m.fatal = msg.err
		return tea.Quit
	}
	if msg.err == nil {
		m.all, m.more, m.tooLong, m.looked = msg.locks, msg.more, msg.tooLong, true
		m.arrange()
	}
	return m.again(max(m.Interval, msg.took))
}

func (m *model) takeRead(msg read) tea.Cmd {
	switch {
	case !msg.toForce:
		if m.page == details && msg.name == m.lockName {
			m.lock, m.lockErr = msg.lock, msg.err
		}
		return m.again(m.Interval)
	case msg.err != nil:
		m.note = m.explain(msg.err)
	case !force.Possible(msg.lock):
		m.note = "Redis does not say who holds it, so there is nobody to take it from"
	case msg.lock.State != survey.Held:
		m.note = "nobody holds it"
	case m.page == list || m.page == details:
		m.back, m.page, m.lock, m.lockName, m.note = m.page, confirming, msg.lock, msg.name, ""
	}
	return nil
}

func (m *model) takeForced(msg forced) {
	name := msg.name
	switch {
	case msg.done && msg.err == nil:
		m.note = name + " was taken away"
	case msg.done:
		m.note = name + " was taken away, but those who wait were not told: " + m.explain(msg.err)
	case msg.err == nil:
		m.note = "nobody holds " + name
	default:
		m.note = m.explain(msg.err)
	}
}

// explain says what an error is about.
func (m *model) explain(err error) string {
	var changed *force.ChangedError
	switch {
	case errors.Is(err, survey.ErrNotFound):
		return "nobody holds it"
	case errors.Is(err, survey.ErrOtherKind):
		return "it is another kind of object now"
	case errors.As(err, &changed):
		return changed.Error()
	}
	return m.Explain(err)
}

// arrange sorts and filters what there is, and keeps the cursor on the lock that it is on.
func (m *model) arrange() {
	selected := m.selected()
	m.shown = slices.DeleteFunc(slices.Clone(m.all), func(l survey.Lock) bool {
		return !strings.Contains(strings.ToLower(present.Safe(l.Name)), strings.ToLower(m.filter))
	})
	m.Order.Sort(m.shown)
	m.table = present.NewTable(m.shown, m.width-len(pointer))
	if at := slices.IndexFunc(m.shown, func(l survey.Lock) bool { return l.Name == selected }); at >= 0 && selected != "" {
		m.cursor = at
	}
	m.move(0)
}

// selected is the name of the lock that the cursor is on; empty if there is none.
func (m *model) selected() string {
	if m.cursor >= len(m.shown) {
		return ""
	}
	return m.shown[m.cursor].Name
}

// move moves the cursor and what is to be seen of the list.
func (m *model) move(by int) {
	m.cursor = max(0, min(m.cursor+by, len(m.shown)-1))
	rows := m.rows()
	m.top = max(0, min(m.top, len(m.shown)-rows))
	m.top = max(m.cursor-rows+1, min(m.top, m.cursor))
}

// press is what a key does.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	if msg.String() == "ctrl+c" {
		return tea.Interrupt
	}
	m.note = ""
	switch m.page {
	case filtering:
		m.pressFiltering(msg)
	case details:
		return m.pressDetails(msg.String())
	case confirming:
		return m.pressConfirming(msg.String())
	default:
		return m.pressList(msg.String())
	}
	return nil
}

func (m *model) pressList(key string) tea.Cmd {
	if by, moves := m.moves(key); moves {
		m.move(by)
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "s":
		orders := present.Orders()
		m.Order = orders[(slices.Index(orders, m.Order)+1)%len(orders)]
		m.arrange()
	case "/":
		m.page = filtering
	case escape:
		m.filter = ""
		m.arrange()
	case "enter":
		if m.selected() != "" {
			m.page, m.lock, m.lockName, m.lockErr = details, m.shown[m.cursor], m.selected(), nil
			return m.look()
		}
	case "u":
		if m.selected() != "" {
			return m.ask.read(m.selected(), true)
		}
	}
	return nil
}

// moves are the keys that move the cursor.
func (m *model) moves(key string) (by int, ok bool) {
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup":
		return -m.rows(), true
	case "pgdown":
		return m.rows(), true
	case "home", "g":
		return -len(m.shown), true
	case "end", "G":
		return len(m.shown), true
	}
	return 0, false
}

func (m *model) pressFiltering(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "enter":
		m.page = list
	case escape:
		m.page, m.filter = list, ""
	case "backspace":
		if letters := []rune(m.filter); len(letters) > 0 {
			m.filter = string(letters[:len(letters)-1])
		}
	default:
		m.filter += msg.Key().Text
	}
	m.arrange()
}

func (m *model) pressDetails(key string) tea.Cmd {
	switch key {
	case "q", escape, "left", "backspace":
		m.page = list
		return m.look()
	case "u":
		return m.ask.read(m.lockName, true)
	}
	return nil
}

func (m *model) pressConfirming(key string) tea.Cmd {
	m.page = m.back
	if key == "y" || key == "Y" {
		return m.ask.force(m.lock)
	}
	m.note = "nothing was done"
	return nil
}
