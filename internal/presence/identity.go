package presence

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// longestText is how many bytes each text of what a client says of itself has at most.
const longestText = 128

// Printable returns a text without what a terminal obeys or a reader does not see, and not longer than
// the texts are that a client says of itself.
func Printable(text string) string {
	text = visible.Only(text)
	return strings.ToValidUTF8(text[:min(len(text), longestText)], "")
}

// ofProcess is what the system says of this process.
var ofProcess = sync.OnceValue(func() protocol.Client {
	found := protocol.Client{PID: os.Getpid()}
	if path, err := os.Executable(); err == nil { // else it is not known
		found.Program = Printable(filepath.Base(path))
	}
	if host, err := os.Hostname(); err == nil {
		found.Host = Printable(host)
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "(devel)" {
		found.Version = Printable(build.Main.Version)
	}
	return found
})

// withDefaults returns c with what the system says in the place of what is zero.
func withDefaults(c protocol.Client) protocol.Client {
	of := ofProcess()
	c.Program, c.Version = cmp.Or(c.Program, of.Program), cmp.Or(c.Version, of.Version)
	c.Host, c.PID = cmp.Or(c.Host, of.Host), cmp.Or(c.PID, of.PID)
	return c
}

// cleaned returns what another client says of itself without what does harm: anybody may have written it.
func cleaned(c protocol.Client) protocol.Client {
	c.Program, c.Version, c.Host, c.PID = Printable(c.Program), Printable(c.Version), Printable(c.Host), max(0, c.PID)
	return c
}
