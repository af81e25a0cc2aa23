package test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The README's program is the one in quickstart, and it runs.
func TestReadmeQuickStart(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("the README's program is not quickstart/main.go")
	}
	s := redistest.Start(t)
	cmd := exec.Command("go", "run", "./quickstart")
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.Addr())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Errorf("%v: %s", err, out)
	}
	if keys := s.Cli(t, "KEYS", "*"); keys != "" {
		t.Errorf("it left %s", keys)
	}
}
