//go:build unix

package trials

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clock is a server's time of day, which can be set.
type clock struct{ file string }

// settable reports whether servers' clocks can be set here: the library that does so is loaded before the system's own.
const settable = runtime.GOOS == "linux"

// start starts a server, with a clock that can be set if there can be one.
func (w *world) start(options ...redistest.Option) {
	w.t.Helper()
	var c *clock
	if settable {
		var option redistest.Option
		c, option = w.newClock()
		options = append(options, option)
	}
	s := redistest.Start(w.t, options...)
	w.servers, w.clocks[s] = append(w.servers, s), c
}

// newClock makes a clock, and the option for the server that has it.
func (w *world) newClock() (c *clock, option redistest.Option) {
	w.t.Helper()
	dir := w.t.TempDir()
	library := filepath.Join(dir, "clock.so")
	c = &clock{file: filepath.Join(dir, "clock")}
	c.set(w, 0)
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		w.t.Fatalf("trials in which clocks are set need a C compiler: %v: %s", err, out)
	}
	return c, redistest.WithEnvironment("LD_PRELOAD="+library, "HOLDFAST_CLOCK="+c.file)
}

// set has the clock be ahead of the machine's, or behind it.
func (c *clock) set(w *world, ahead time.Duration) {
	w.t.Helper()
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds())), 0) // C reads it as signed again
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// setClock sets a server's clock forward or back, and to what is right again.
func (s *strike) setClock() {
	c := s.w.clocks[s.server]
	ahead := time.Duration((0.2 + 2*s.rng.Float64()) * float64(s.lease))
	c.set(s.w, []time.Duration{ahead, -ahead}[s.rng.IntN(2)])
	time.Sleep(s.lasts)
	c.set(s.w, 0)
}
