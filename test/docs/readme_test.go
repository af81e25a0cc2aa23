package docs

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The README's program is the one in quickstart, and it runs.
func TestReadmeQuickStart(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("the README's program is not quickstart/main.go")
	}
	s := redistest.Start(t)
	cmd := exec.Command("go", "run", "../quickstart")
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.Addr(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Errorf("%v: %s", err, out)
	}
	if keys := s.Cli(t, "KEYS", "*"); keys != "" {
		t.Errorf("it left %s", keys)
	}
}

// TestReadmesAreEqual compares what the two languages have in common: headings, blocks of
// code and commands, rows and code of tables, links.
func TestReadmesAreEqual(t *testing.T) {
	t.Parallel()
	english, chinese := outline(t, "../../README.md"), outline(t, "../../README.zh-CN.md")
	for i := range max(len(english), len(chinese)) {
		if i >= len(english) || i >= len(chinese) || english[i] != chinese[i] {
			t.Fatalf("they part at %q and %q", english[min(i, len(english)):min(i+1, len(english))], chinese[min(i, len(chinese)):min(i+1, len(chinese))])
		}
	}
	if len(english) < 100 {
		t.Errorf("only %d things were compared", len(english))
	}
}

var codeOrLink = regexp.MustCompile("`[^`]+`|\\]\\([^)]+\\)")

// outline is what does not depend on the language.
func outline(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	code := false
	var links []string // of a paragraph, which may have another order in another language
	end := func() {
		slices.Sort(links)
		all = append(all, links...)
		links = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence || code || strings.HasPrefix(line, "    "):
			all = append(all, line)
		case strings.HasPrefix(line, "#"):
			end()
			all = append(all, strings.Repeat("#", len(line)-len(strings.TrimLeft(line, "#"))))
		case strings.HasPrefix(line, "|"):
			end()
			all = append(all, fmt.Sprint(strings.Count(line, "|"), codeOrLink.FindAllString(line, -1)))
		case line == "":
			end()
		default:
			for _, found := range codeOrLink.FindAllString(line, -1) {
				if !strings.HasPrefix(found, "](README") {
					links = append(links, found)
				}
			}
		}
		code = code != fence
	}
	end()
	return all
}
