package cli

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
)

// nowhere are streams that keep nothing.
func nowhere() streams {
	return streams{stdout: printer.New(io.Discard), stderr: printer.New(io.Discard)}
}

// TestManual compares the manual page with the grammar, and has man read it, if there is one.
func TestManual(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := new(manCommand).Run(streams{stdout: printer.New(&page), stderr: printer.New(io.Discard)}); err != nil {
		t.Fatal(err)
	}
	parser, err := newParser(new(grammar), nowhere())
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"HOLDFAST_REDIS_PASSWORD", "HOLDFAST_REDIS_TLS_CA", ".B 128+n", ".SS Connecting to Redis"}
	for _, f := range parser.Model.Flags {
		wanted = append(wanted, "--"+f.Name)
	}
	for _, command := range parser.Model.Children {
		if command.Hidden {
			if strings.Contains(page.String(), command.Name) {
				t.Errorf("%s is hidden, and stands there", command.Name)
			}
			continue
		}
		wanted = append(wanted, texts[command.Name].usage)
		for _, f := range command.Flags {
			wanted = append(wanted, "--"+f.Name)
		}
	}
	text := strings.ReplaceAll(page.String(), `\-`, "-")
	for _, want := range wanted {
		if want == "" || !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("there is no groff here")
		return
	}
	cmd := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8", "-K", "utf8")
	cmd.Stdin = &page
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %s", err, out)
	}
}
