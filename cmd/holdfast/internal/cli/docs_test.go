package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
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

// TestACLExamples compares each line that the pages have of holdfast acl with what it prints.
func TestACLExamples(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile(`(?m)^\$ holdfast (acl .*)\n(.*)$`)
	for _, page := range []string{"acl.md", "cli.md"} {
		text, err := os.ReadFile("../../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("docs/%s has no example", page)
		}
		for _, of := range found {
			var out bytes.Buffer
			err := streams{stdout: printer.New(&out), stderr: printer.New(io.Discard)}.run(strings.Fields(strings.ReplaceAll(of[1], "'", "")))
			if err != nil || out.String() != of[2]+"\n" {
				t.Errorf("holdfast %s: %v\n%s", of[1], err, &out)
			}
		}
	}
}
