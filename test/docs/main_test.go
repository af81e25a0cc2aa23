package docs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// read is the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	kit.OK(t, err)
	return string(text)
}

// glob are the files that patterns match.
func glob(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		kit.OK(t, err)
		all = append(all, found...)
	}
	return all
}
