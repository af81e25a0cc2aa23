package contenders

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
