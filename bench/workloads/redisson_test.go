package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
)

// fakeJava puts a shell script in place of the JVM.
func fakeJava(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// openFake starts a session whose limits are short.
func openFake(t *testing.T) (*contenders.Session, error) {
	t.Helper()
	c := contenders.RedissonInJVM(contenders.JVMProgram{Classpath: "none", Source: "None.java"}, t.Output())
	return c.Open(t.Context(), contenders.Setup{Addrs: []string{"nowhere:1"}, Lease: time.Second})
}

const goodJava = `echo '{"ready": true}'
while read -r line; do
  case "$line" in
    *'"goroutines":3,'*) echo '{"pairs": 20, "completed": 21, "p50_ns": 7, "p99_ns": 8, "max_ns": 9, "fewest": 6, "most": 7}' ;;
    *) echo '{"pairs": 1}' ;;
  esac
done`

func TestRedissonFigures(t *testing.T) {
	fakeJava(t, goodJava)
	s, err := openFake(t)
	if err != nil {
		t.Fatal(err)
	}
	c := Cell{Order: Order{Workload{Goroutines: 3}, "x", 2 * time.Second, time.Second}, Session: s}
	want := Figures{Pairs: 20, Completed: 21, PerSecond: 10, P50: 7, P99: 8, Max: 9, Fewest: 6, Most: 7}
	if got := c.Run(t.Context()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A JVM that ends, or talks nonsense, is a standstill, and can be closed at once.
func TestRedissonFails(t *testing.T) {
	for name, last := range map[string]string{"ends": "exit 1", "nonsense": "echo nonsense; exec sleep 1000", "errors": `echo '{"pairs": "many"}'; exec sleep 1000`} {
		t.Run(name, func(t *testing.T) {
			fakeJava(t, `echo '{"ready": true}'
read -r line; `+last)
			s, err := openFake(t)
			if err != nil {
				t.Fatal(err)
			}
			c := Cell{Order: Order{Workload{Goroutines: 3}, "x", time.Second, time.Second}, Session: s}
			if f := c.Run(t.Context()); !f.StoodStill || f.Stuck != 3 || f.Error == "" {
				t.Errorf("%+v", f)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// One that does not say hello is killed, though it has not read its input's end.
func TestRedissonDoesNotStart(t *testing.T) {
	fakeJava(t, "echo broken; exec sleep 1000")
	if s, err := openFake(t); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v, %v", s, err)
	}
}
