package cli

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// dumb reports whether the terminal says that it can do nothing but write lines.
func dumb() bool { return os.Getenv("TERM") == "dumb" }

// plainWanted reports whether the environment asks for neither colours nor pictures.
func plainWanted() bool { return os.Getenv("NO_COLOR") != "" || dumb() }

// canRedraw reports whether something is a terminal on which a line can be written again and again.
func canRedraw(out *os.File) bool { return term.IsTerminal(out.Fd()) && !dumb() }

// terminalWidth is how wide the terminal is that something is written to; 0: it is none.
func terminalWidth(w io.Writer) int {
	out, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(out.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(out.Fd())
	if err != nil {
		return 0
	}
	return width
}
