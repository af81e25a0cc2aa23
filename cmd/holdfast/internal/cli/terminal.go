package cli

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// plainWanted reports whether the environment asks for neither colours nor pictures.
func plainWanted() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }

// terminalWidth says whether a stream is a terminal, and how wide it is.
func terminalWidth(stream io.Writer) (width int, ok bool) {
	out, isFile := stream.(*os.File)
	if !isFile || !term.IsTerminal(out.Fd()) {
		return 0, false
	}
	width, _, err := term.GetSize(out.Fd())
	return width, err == nil
}
