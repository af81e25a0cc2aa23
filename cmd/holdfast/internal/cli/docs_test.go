package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// TestDocs compares docs/cli.md with the exit codes and the commands; it has no flag that is none.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	var wanted []string
	for _, row := range exit.Table {
		wanted = append(wanted, "| "+row.Code+" | "+row.Means+" |")
	}
	parser, err := newParser(new(grammar), nowhere())
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	note := func(all []*kong.Flag) {
		for _, flag := range all {
			flags["--"+flag.Name] = true
		}
	}
	note(parser.Model.Flags)
	for _, command := range parser.Model.Children {
		if command.Hidden {
			continue
		}
		note(command.Flags)
		wanted = append(wanted, "holdfast "+command.Name)
	}
	for _, want := range wanted {
		if !strings.Contains(doc, want) {
			t.Errorf("docs/cli.md does not have %q", want)
		}
	}
	for _, name := range regexp.MustCompile("--[a-z][a-z-]+").FindAllString(doc, -1) {
		if !flags[name] {
			t.Errorf("docs/cli.md has %s, which is no flag", name)
		}
	}
}
