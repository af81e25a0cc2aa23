package watch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/visible"
)

const (
	owner      = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
	otherOwner = "1b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:58"
)

// screen is a model on a real Redis whose commands run when they are made.
type screen struct {
	*testing.T
	*model

	ctx    context.Context
	rdb    *redis.Client
	server *redistest.Server
	due    []tea.Msg // what ticks have said
	quit   tea.Msg
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	cfg := Config{Redis: rdb, Server: server.Addr(), Interval: time.Millisecond, Order: present.ByName, Explain: func(err error) string { return err.Error() }}
	return &screen{T: t, ctx: ctx, rdb: rdb, server: server, model: newModel(ctx, cfg)}
}

func (s *screen) do(args ...any) {
	s.Helper()
	if err := s.rdb.Do(s.ctx, args...).Err(); err != nil {
		s.Fatal(err)
	}
}

// run runs commands until there is none but a tick.
func (s *screen) run(cmd tea.Cmd) {
	for cmd != nil {
		msg := cmd()
		cmd = nil
		switch msg.(type) {
		case due:
			s.due = append(s.due, msg)
		case tea.QuitMsg, tea.InterruptMsg:
			s.quit = msg
		default:
			_, cmd = s.Update(msg)
		}
	}
}

// begin makes the first look.
func (s *screen) begin() { s.run(s.Init()) }

// tick lets the pause end.
func (s *screen) tick() {
	all := s.due
	s.due = nil
	for _, msg := range all {
		_, cmd := s.Update(msg)
		s.run(cmd)
	}
}

// keys presses keys; those of more than one letter have names.
func (s *screen) keys(keys ...string) {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "end": {Code: tea.KeyEnd},
		"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "backspace": {Code: tea.KeyBackspace}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, key := range keys {
		msg, ok := special[key]
		if !ok {
			msg = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		_, cmd := s.Update(msg)
		s.run(cmd)
	}
}

// text is what is on the screen, without styles. It is as high as the terminal, and no wider.
func (s *screen) text() string {
	s.Helper()
	lines := strings.Split(s.View().Content, "\n")
	if len(lines) != s.height {
		s.Errorf("%d lines on a terminal of %d", len(lines), s.height)
	}
	for _, line := range lines {
		if width := ansi.StringWidth(line); width > s.width {
			s.Errorf("%d wide on a terminal of %d: %q", width, s.width, line)
		}
	}
	return ansi.Strip(strings.Join(lines, "\n"))
}

func (s *screen) shows(all ...string) {
	s.Helper()
	text := s.text()
	for _, want := range all {
		if !strings.Contains(text, want) {
			s.Errorf("no %q on the screen:\n%s", want, text)
		}
	}
}

func (s *screen) hides(all ...string) {
	s.Helper()
	text := s.text()
	for _, not := range all {
		if strings.Contains(text, not) {
			s.Errorf("%q on the screen:\n%s", not, text)
		}
	}
}

// TestList shows what there is, and what comes and goes.
func TestList(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.shows("looking")
	s.begin()
	s.shows("no locks", "0 held")
	s.do("HSET", "orders:1", owner, 1)
	s.do("HSET", "\x1b[31mred", owner, 1)
	s.do("RPUSH", "redisson_lock_queue:{line}", owner)
	s.hides("orders:1")
	s.tick()
	s.shows("2 held, 3 in all", "orders:1", `\x1b[31mred`, "NAME", "HOLDER", owner[:8], "fair", "q quit")
	if strings.Contains(s.View().Content, "\x1b[31mred") {
		t.Error("a name reaches the terminal as it is")
	}
	s.do("DEL", "orders:1")
	s.tick()
	s.hides("orders:1")
	if len(s.due) != 1 {
		t.Errorf("%d looks are due", len(s.due))
	}
	s.keys("q")
	if _, ok := s.quit.(tea.QuitMsg); !ok {
		t.Errorf("q: %T", s.quit)
	}
	s.keys("ctrl+c")
	if _, ok := s.quit.(tea.InterruptMsg); !ok {
		t.Errorf("ctrl+c: %T", s.quit)
	}
}

// TestMoving goes through more locks than there are lines, in each size.
func TestMoving(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	for i := range 100 {
		s.do("HSET", fmt.Sprintf("a rather long name of a lock:%02d", i), owner, 1)
	}
	s.begin()
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 44, Height: 30}, {Width: 20, Height: 5}, {Width: 200, Height: 60}, {Width: 1, Height: 4}} {
		s.Update(size)
		s.text()
		s.keys("end")
		if size.Width > 10 {
			s.shows("> a ra", ":99")
		}
		s.keys("up", "up", "k", "j", "pgup", "pgdown", "home")
		s.text()
		s.keys("enter")
		s.text()
		s.keys("u")
		s.text()
		s.keys("n", "esc")
		if s.page != list || s.cursor != 0 {
			t.Errorf("%+v: page %v, cursor %d", size, s.page, s.cursor)
		}
	}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.keys("down", "down")
	selected := s.selected()
	s.do("HSET", "a first", owner, 1)
	s.tick()
	if s.selected() != selected || s.cursor != 3 {
		t.Errorf("the cursor is on %q, not %q", s.selected(), selected)
	}
}

// TestTooLong says how many names are not shown.
func TestTooLong(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.do("HSET", "job", owner, 1)
	s.do("HSET", strings.Repeat("x", 100_000), owner, 1)
	s.begin()
	s.Update(tea.WindowSizeMsg{Width: 160, Height: 24})
	s.shows("1 held, 1 in all", "left out: 1 name of more than 1024 bytes")
	s.hides("xxx")
}

// TestSorting and filtering.
func TestSorting(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.do("HSET", "Orders", owner, 1)
	s.do("HSET", "zebra", owner, 1)
	s.do("PEXPIRE", "zebra", 100_000)
	s.begin()
	s.shows("by name")
	s.keys("s", "s")
	s.shows("by left")
	if s.shown[0].Name != "zebra" {
		t.Errorf("%q ends first", s.shown[0].Name)
	}
	s.keys("/", "o", "r", "x", "backspace")
	s.shows("filter: or_", "Orders")
	s.hides("zebra")
	s.keys("enter")
	s.shows("1 with or")
	s.keys("esc")
	s.shows("zebra")
	s.keys("/", "q", "u", "esc")
	s.shows("zebra", "Orders")
	if s.quit != nil {
		t.Error("a q in a filter quits")
	}
}

// TestDetails shows one lock as it changes.
func TestDetails(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.do("HSET", "job", owner, 2)
	s.begin()
	s.keys("enter")
	s.shows("name     job", "kind     mutex", owner, "without an end, 2 times", "esc back")
	s.do("PEXPIRE", "job", 100_000)
	s.tick()
	s.shows("more unless renewed")
	s.do("DEL", "job")
	s.tick()
	s.shows("job", "nobody holds it")
	s.keys("esc")
	s.shows("no locks")
}

// TestUnlocking takes locks away, or does not.
func TestUnlocking(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.do("HSET", "job", owner, 1)
	s.begin()
	s.keys("u")
	s.shows(`the mutex "job" is held by `+owner, "take it away", "y take it away")
	s.keys("enter")
	s.shows("nothing was done")
	if n := s.rdb.Exists(s.ctx, "job").Val(); n != 1 {
		t.Fatal("it was taken away without a y")
	}
	s.keys("u", "y")
	s.shows("job was taken away", "no locks")
	if n := s.rdb.Exists(s.ctx, "job").Val(); n != 0 {
		t.Error("it was not taken away")
	}
	// Somebody else has it by now.
	s.do("HSET", "job", owner, 1)
	s.tick()
	s.keys("enter", "u")
	s.do("DEL", "job")
	s.do("HSET", "job", otherOwner, 1)
	s.keys("y")
	s.shows("nothing was done, since it has changed hands meanwhile")
	if n := s.rdb.Exists(s.ctx, "job").Val(); n != 1 {
		t.Error("it was taken from somebody else")
	}
	s.do("DEL", "job")
	s.keys("u")
	s.shows("nobody holds it")
	s.keys("esc")
	// What has no holders cannot be taken away.
	s.do("SET", "count", 5)
	s.do("ZADD", "holdfast_calls:{count}", 1, "x")
	s.tick()
	s.keys("u")
	s.shows("nobody to take it from")
}

// TestErrors shows one, and goes on; but for the first.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.do("HSET", "job", owner, 1)
	s.begin()
	s.do("CONFIG", "SET", "requirepass", "s3cret")
	s.rdb.Options().Password = "wrong"
	s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
	for range 10 { // first the connection is found to be closed
		if s.tick(); strings.Contains(s.text(), "WRONGPASS") {
			break
		}
	}
	s.shows("job", "WRONGPASS")
	s.rdb.Options().Password = "s3cret"
	s.tick()
	s.hides("WRONGPASS")
	s.server.Kill()
	first := newModel(s.ctx, s.Config)
	s.model = first
	s.begin()
	if _, ok := s.quit.(tea.QuitMsg); !ok || first.fatal == nil {
		t.Errorf("the first look: %T, %v", s.quit, first.fatal)
	}
}

// TestLooksOnce never has two looks under way, nor two pauses.
func TestLooksOnce(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.begin()
	if m, cmd := s.Update(due{s.round - 1}); cmd != nil {
		t.Errorf("an old pause makes a look: %v", m)
	}
	_, cmd := s.Update(due{s.round})
	if _, again := s.Update(due{s.round}); cmd == nil || again != nil {
		t.Error("two looks at once")
	}
}

// TestHostileText: whatever stands in Redis, or a server says, and whatever is typed, nothing but our styles comes to the terminal as an
// escape sequence, on each page.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[8m\x1b]0;own\a\n\u202e\u3164\ufe00\x9b\xff"
	s := newScreen(t)
	s.do("HSET", hostile, owner, "1")
	s.do("HSET", "holdfast_client:"+owner[:18], "program", hostile, "host", hostile)
	s.Server, s.Options.Match = hostile, "*"
	s.Explain = func(error) string { return hostile }
	s.begin()
	look := func() {
		t.Helper()
		s.text()
		for line := range strings.SplitSeq(s.View().Content, "\n") {
			if shown := styles.ReplaceAllString(line, ""); visible.Text(shown) != shown || strings.Contains(line, "\x1b[8m") {
				t.Errorf("%q comes to the terminal", line)
			}
		}
	}
	look()
	s.keys("enter")
	s.shows("held by")
	look()
	s.keys("u")
	s.shows("take it away all the same?")
	look()
	s.keys("n", "esc", "/", hostile)
	look()
	s.keys("enter", "esc")
	s.run(s.take(scanned{err: errors.New(hostile)}))
	look()
	s.keys("enter")
	s.run(s.takeRead(read{name: hostile, err: errors.New(hostile)}))
	look()
	s.takeForced(forced{name: hostile, done: true, err: errors.New(hostile)})
	look()
}

// styles are the escape sequences of colours.
var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")
