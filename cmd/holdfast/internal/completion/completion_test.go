package completion_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/completion"
)

// grammar is one that has all that a script makes something of.
type grammar struct {
	Server string `placeholder:"URL" help:"Where to go: it's [there]. And more."`
	Key    string `placeholder:"FILE" help:"A file."`

	Run struct {
		Kind    string   `enum:"fair,read" default:"fair" help:"The kind."`
		Quiet   bool     `short:"q" help:"Say less."`
		JSON    *int     `name:"json" help:"A number."`
		Words   string   `short:"c" help:"Words."`
		Name    string   `arg:""`
		Command []string `arg:"" optional:"" passthrough:"partial"`
	} `cmd:"" help:"Run."`
	Bench struct {
		JSON bool `name:"json" help:"No number."`
	} `cmd:"" help:"Measure."`
	Demo struct {
		What string `arg:"" enum:"cut,crash"`
	} `cmd:"" help:"Show."`
	Help struct {
		Command string `arg:"" optional:""`
	} `cmd:"" help:"Help."`
	Secret struct{} `cmd:"" hidden:"" help:"Nobody's."`
}

// script is the one of a shell.
func script(t *testing.T, shell string) string {
	t.Helper()
	parser, err := kong.New(new(grammar), kong.Name("tool"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := completion.Write(&out, shell, parser.Model); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestBash completes command lines in bash. They are cut as readline cuts them.
func TestBash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"pass word", "passport"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := script(t, "bash")
	for _, c := range []struct {
		line []string // the last word is to be completed
		want []string
	}{
		{[]string{""}, []string{"bench", "demo", "help", "run"}},
		{[]string{"r"}, []string{"run"}},
		{[]string{"--se"}, []string{"--server"}},
		{[]string{"--server", "redis", ":", "//h", ":", "1", "r"}, []string{"run"}},
		{[]string{"--server", "=", "redis", ":", "//h", "r"}, []string{"run"}},
		{[]string{"--server", ""}, nil},
		{[]string{"--key", "pass"}, []string{"pass word", "passport"}},
		{[]string{"--key", "=", "passp"}, []string{"passport"}},
		{[]string{"run", "--"}, []string{"--help", "--json", "--key", "--kind", "--quiet", "--server", "--words"}},
		{[]string{"run", "-q", "--ki"}, []string{"--kind"}},
		{[]string{"run", "--kind", ""}, []string{"fair", "read"}},
		{[]string{"run", "--kind", "="}, []string{"fair", "read"}},
		{[]string{"run", "--kind", "=", "r"}, []string{"read"}},
		{[]string{"bench", "--kind", "r"}, nil},
		{[]string{"run", "--json", "r"}, nil},
		{[]string{"run", "n"}, nil},
		{[]string{"demo", "c"}, []string{"crash", "cut"}},
		{[]string{"demo", "cut", "c"}, nil},
		{[]string{"help", "b"}, []string{"bench"}},
		{[]string{"help", "s"}, nil},
		{[]string{"run", "n", "--", "printen"}, []string{"printenv"}},
		{[]string{"run", "-c", "--", "n", "--ki"}, []string{"--kind"}}, // -- is the value of -c
		{[]string{"run", "n", "--", "cat", "passp"}, []string{"passport"}},
		{[]string{"run", "n", "--", "cat", "--ki"}, nil},
	} {
		// What it completes other commands with is the user's; here there is nothing but bash.
		cmd := exec.Command("bash", "--norc", "-c", text+`
			COMP_WORDS=(tool "$@")
			COMP_CWORD=$#
			_tool; (($#)) && printf '%s\n' "${COMPREPLY[@]}"`, "bash")
		cmd.Args = append(cmd.Args, c.line...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", c.line, err, out)
		}
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		if got[0] == "" {
			got = nil
		}
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), c.want) {
			t.Errorf("%q is completed with %q, want %q", c.line, got, c.want)
		}
	}
}

// TestShellsReadTheirs has those shells read their script that are here.
func TestShellsReadTheirs(t *testing.T) {
	t.Parallel()
	for _, shell := range completion.Shells() {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = strings.NewReader(script(t, shell))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

// TestEveryScriptHasEverything looks for the names in what other shells get.
func TestEveryScriptHasEverything(t *testing.T) {
	t.Parallel()
	for _, shell := range completion.Shells() {
		text := script(t, shell)
		for _, want := range []string{"run", "bench", "demo", "server", "key", "kind", "quiet", "json", "words", "fair read", "cut crash"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: there is no %s", shell, want)
			}
		}
		if strings.Contains(text, "ecret") {
			t.Errorf("%s has a hidden command", shell)
		}
	}
}

func TestUnknownShell(t *testing.T) {
	t.Parallel()
	err := completion.Write(new(bytes.Buffer), "csh", nil)
	if err == nil || !strings.Contains(err.Error(), "bash, zsh, fish") {
		t.Errorf("%v", err)
	}
}
