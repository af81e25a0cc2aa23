package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testName is the name of a test as pages have it.
var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")

// Every test that the pages on guarantees and on security name exists.
func TestProofsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	if err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(text), -1) {
			defined[found[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"../../docs/guarantees.md": 15, "../../docs/security.md": 25} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := testName.FindAllStringSubmatch(string(text), -1)
		for _, name := range named {
			if !defined[name[1]] {
				t.Errorf("%s names %s, which is no test", page, name[1])
			}
		}
		if len(named) < least {
			t.Errorf("%s names only %d tests", page, len(named))
		}
	}
}
