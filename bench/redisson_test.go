package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
func openFake(t *testing.T) (session, error) {
	t.Helper()
	c := redissonInJVM(jvmProgram{classpath: "none", source: "None.java"}, t.Output())
	return c.open(t.Context(), setup{addr: "nowhere:1", lease: time.Second, jvmWarm: time.Second})
}

const goodJava = `echo '{"ready": true}'
while read -r line; do
  case "$line" in
    *'"threads":3,'*) echo '{"pairs": 20, "completed": 21, "p50_ns": 7, "p99_ns": 8, "max_ns": 9, "fewest": 6, "most": 7}' ;;
    *) echo '{"pairs": 1}' ;;
  esac
done`

func TestRedissonFigures(t *testing.T) {
	fakeJava(t, goodJava)
	s, err := openFake(t)
	if err != nil {
		t.Fatal(err)
	}
	c := cell{workload: workload{goroutines: 3}, session: s, prefix: "x", window: 2 * time.Second, limit: time.Second}
	want := figures{Pairs: 20, Completed: 21, PerSecond: 10, P50: 7, P99: 8, Max: 9, Fewest: 6, Most: 7}
	if got := c.run(t.Context()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// A JVM that ends, or talks nonsense, is a standstill, and can be closed at once.
func TestRedissonFails(t *testing.T) {
	for name, last := range map[string]string{"ends": "exit 1", "nonsense": "echo nonsense; exec sleep 1000", "errors": `echo '{"pairs": "many"}'; exec sleep 1000`} {
		t.Run(name, func(t *testing.T) {
			fakeJava(t, `echo '{"ready": true}'
read -r line; echo '{"pairs": 1}'
read -r line; echo '{"pairs": 1}'
read -r line; `+last)
			s, err := openFake(t)
			if err != nil {
				t.Fatal(err)
			}
			c := cell{workload: workload{goroutines: 3}, session: s, prefix: "x", window: time.Second, limit: time.Second}
			if f := c.run(t.Context()); !f.StoodStill || f.Stuck != 3 || f.Error == "" {
				t.Errorf("%+v", f)
			}
			if err := s.close(); err != nil {
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

func TestNeedJVM(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := needJVM(); err == nil || !strings.Contains(err.Error(), "tools/need-jvm") {
		t.Errorf("without anything: %v", err)
	}
	for _, program := range []string{"javac", "mvn"} {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := needJVM(); err != nil {
		t.Errorf("with both: %v", err)
	}
}

func TestJarVersion(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("redisson-4.7.0.jar")
	put("redisson-spring-4.7.0.jar")
	if got, err := jarVersion(dir); err != nil || got != "4.7.0" {
		t.Errorf("%q, %v", got, err)
	}
	put("redisson-4.8.0.jar")
	if got, err := jarVersion(dir); err == nil {
		t.Errorf("of two: %q", got)
	}
}
