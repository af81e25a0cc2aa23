package docs

import (
	"os"
	"strings"
	"testing"
)

// The documentation shows the code that is compiled here.
func TestFencingDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../fencing/postgres.go", "../fencing/redis.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(source), "\n)\n\n") // after the imports
		if !found || !strings.Contains(string(page), "```go\n"+code+"```\n") {
			t.Errorf("docs/fencing.md does not show %s", file)
		}
	}
}
