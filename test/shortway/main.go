// Command shortway makes a pair of Lock and Unlock of a free mutex. It is built with counters in the code (go build -cover), and
// writes what Lock has passed through into the folder "lock" of the one that it is given, and Unlock into "unlock".
package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime/coverage"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/instant"
)

// folder is what is set to the folder.
const folder = "HOLDFAST_TEST_SHORT_WAY"

func main() {
	all := []testing.InternalTest{{Name: "pair", F: func(t *testing.T) { faketime.Test(t, pair) }}}
	testing.Main(func(string, string) (bool, error) { return true, nil }, all, nil, nil)
}

// pair makes two pairs: the first one makes what stays. Under fake time nothing runs beside the second one.
func pair(t *testing.T) {
	c, err := holdfast.New(instant.Driver{}) // whose reply follows fake time
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := c.NewMutex("a")
	h, err := m.Lock(ctx)
	if err := cmp.Or(err, h.Unlock()); err != nil {
		t.Fatal(err)
	}
	counted(t, "lock", func() { h, err = m.Lock(ctx) })
	counted(t, "unlock", func() { err = cmp.Or(err, h.Unlock()) })
	if err != nil {
		t.Fatal(err)
	}
}

// counted writes what a call passes through.
func counted(t *testing.T, name string, call func()) {
	dir := filepath.Join(os.Getenv(folder), name)
	synctest.Wait()
	before := cmp.Or(os.Mkdir(dir, 0o700), coverage.WriteMetaDir(dir), coverage.ClearCounters())
	call()
	if err := cmp.Or(before, coverage.WriteCountersDir(dir)); err != nil {
		t.Fatal(err)
	}
}
