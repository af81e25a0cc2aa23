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

// start starts a server, with a clock that can be set where there can be one: on Linux.
func (w *world) start(options ...redistest.Option) {
	w.t.Helper()
	if runtime.GOOS != "linux" {
		w.servers = append(w.servers, redistest.Start(w.t, options...))
		return
	}
	if w.library == "" {
		w.library = filepath.Join(w.t.TempDir(), "clock.so")
		if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", w.library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
			w.t.Fatalf("trials in which clocks are set need a C compiler: %v: %s", err, out)
		}
	}
	c := &clock{file: filepath.Join(w.t.TempDir(), "clock")}
	c.set(w, 0)
	s := redistest.Start(w.t, append(options, redistest.WithEnvironment("LD_PRELOAD="+w.library, "HOLDFAST_CLOCK="+c.file))...)
	w.servers, w.clocks[s] = append(w.servers, s), c
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
