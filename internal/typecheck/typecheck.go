// Package typecheck is for the tests that type-check the Go in documents.
package typecheck

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Module is the folder of a module, and packages that it knows.
type Module struct {
	Dir   string
	Paths []string
}

// Importer builds the packages of these modules, with all that they need, and returns what
// imports them. What several know is taken from the first.
func Importer(t *testing.T, files *token.FileSet, modules ...Module) types.Importer {
	t.Helper()
	exports := map[string]string{}
	for _, m := range modules {
		arguments := slices.Concat([]string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}, m.Paths)
		list := exec.CommandContext(t.Context(), "go", arguments...) //nolint:gosec // the tests say which packages
		list.Dir, list.Stderr = m.Dir, os.Stderr
		text, err := list.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", m.Dir, err)
		}
		for line := range strings.Lines(string(text)) {
			path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
			if exports[path] == "" {
				exports[path] = file
			}
		}
	}
	return importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}
