package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// TestDocs compares docs/cli.md with the grammar, the usage lines and the exit codes.
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
	parser, err := newParser(new(grammar), streams{})
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	note := func(all []*kong.Flag) {
		for _, flag := range all {
			flags["--"+flag.Name] = true
			wanted = append(wanted, "`--"+flag.Name)
			if flag.Short != 0 {
				wanted = append(wanted, "`-"+string(flag.Short)+"`")
			}
			for _, name := range flag.Envs {
				wanted = append(wanted, "`"+name+"`")
			}
		}
	}
	note(parser.Model.Flags)
	for _, command := range parser.Model.Children {
		if command.Hidden {
			continue
		}
		note(command.Flags)
		wanted = append(wanted, strings.TrimPrefix(usages[command.Name], "holdfast "+command.Name+" "))
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
