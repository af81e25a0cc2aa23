package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
)

// dumb reports whether the terminal says that it can do nothing but write lines.
func dumb() bool { return os.Getenv("TERM") == "dumb" }

// plainWanted reports whether the environment asks for neither colours nor pictures.
func plainWanted() bool { return os.Getenv("NO_COLOR") != "" || dumb() }

// canRedraw reports whether a line can be written again and again there: it is a terminal.
func canRedraw(p *printer.Printer) bool { return terminalWidth(p) > 0 && !dumb() }

// terminalWidth is how wide the terminal is that is printed to; 0: it is none.
func terminalWidth(p *printer.Printer) int {
	out, isFile := p.Beneath().(term.File)
	if !isFile || !term.IsTerminal(out.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(out.Fd())
	if err != nil {
		return 0
	}
	return width
}

const (
	barWidth = 20
	barEvery = 100 * time.Millisecond
)

// bar is a line of a terminal that shows how far something is. The zero bar was not drawn yet.
type bar struct {
	out   *printer.Printer
	drawn time.Time
}

// draw shows that done of total is done, unless it has shown something a moment ago. There is nobody to be told of a failure.
func (b *bar) draw(label string, done, total int64) {
	if time.Since(b.drawn) < barEvery {
		return
	}
	b.drawn = time.Now()
	share := min(1, float64(done)/float64(max(total, 1)))
	filled := int(share * barWidth)
	shown := fmt.Sprintf("%s %3.0f%% [%s%s]", label, 100*share, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled))
	_ = b.out.Styled("\r%s\x1b[K", shown)
}

// wipe takes it off the screen, and is called once.
func (b *bar) wipe() {
	if !b.drawn.IsZero() {
		_ = b.out.Styled("\r\x1b[K")
	}
}

// untilSignal returns a context that ends with SIGINT or SIGTERM, and what tells by which of them: an error with
// its exit code, nil if it has not ended so. stop gives the signals their own effects again.
func untilSignal() (ctx context.Context, ended func() error, stop func()) {
	untilTerm, stopTerm := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx, stopInt := signal.NotifyContext(untilTerm, os.Interrupt)
	ended = func() error {
		switch {
		case untilTerm.Err() != nil:
			return bySignal(syscall.SIGTERM)
		case ctx.Err() != nil:
			return bySignal(syscall.SIGINT)
		}
		return nil
	}
	return ctx, ended, func() { stopInt(); stopTerm() }
}

// bySignal is the error of a command that a signal has ended.
func bySignal(s syscall.Signal) error { return exit.Silently(exit.Signal + int(s)) }
