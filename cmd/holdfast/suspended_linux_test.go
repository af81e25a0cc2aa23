package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestSuspended presses Ctrl-Z while a shell starts one program after the other. At
// times that hits one that is not yet what it was started to be.
func TestSuspended(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := onTerminal(t, holdfast(t, "redis://"+server.Addr(), "run", "job", "--", "sh", "-c",
		`trap 'echo interrupted; exit 3' INT; echo ready; while :; do /bin/true; done`))
	c.shows("ready")
	for i := range 25 {
		c.types("\x1a")
		eventually(t, "it goes on", func() bool { return strings.Count(c.String(), "cannot be suspended") > i })
	}
	c.types("\x03")
	c.shows("interrupted")
	if got := code(t, c.cmd.Wait()); got != 3 {
		t.Errorf("exit code %d", got)
	}
}
