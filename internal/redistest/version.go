package redistest

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// AtLeast reports whether the server that is started here is of this version,
// or of a later one. Valkey 8 counts as 8.
func AtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	v, err := version()
	if err != nil {
		t.Fatalf("redistest: asking for the version: %v", err)
	}
	return v[0] > major || v[0] == major && v[1] >= minor
}

// version returns the first two numbers of the version.
var version = sync.OnceValues(func() (v [2]int, err error) {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return v, err
	}
	// As in "Valkey server v=8.1.1 sha=…".
	_, text, _ := strings.Cut(string(out), " v=")
	_, err = fmt.Sscanf(text, "%d.%d", &v[0], &v[1])
	return v, err
})
