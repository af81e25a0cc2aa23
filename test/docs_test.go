package test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/typecheck"
)

// docPackages are what the pages may use, by the module that requires it.
var docPackages = []typecheck.Module{
	{Dir: ".", Paths: []string{
		"context", "database/sql", "errors", "fmt", "os", "os/signal", "syscall", "testing", "testing/synctest", "time",
		"github.com/holdfast-go/holdfast", "github.com/holdfast-go/holdfast/goredisdriver", "github.com/holdfast-go/holdfast/rueidisdriver",
		"github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	}},
	{Dir: "../valkeydriver", Paths: []string{"github.com/holdfast-go/holdfast/valkeydriver", "github.com/valkey-io/valkey-go"}},
	{Dir: "../gocronlock", Paths: []string{"github.com/holdfast-go/holdfast/gocronlock", "github.com/go-co-op/gocron/v2"}},
	{Dir: "../holdfasttest", Paths: []string{"github.com/holdfast-go/holdfast/holdfasttest"}},
}

// TestDocsCompile type-checks every block of Go in the pages for users: whole programs,
// declarations, or statements.
func TestDocsCompile(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	packages := typecheck.Importer(t, files, docPackages...)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := filepath.Glob("../docs/kinds/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range append(append(pages, kinds...), "../README.md") {
		if strings.HasSuffix(page, "from-redisson.md") || strings.HasSuffix(page, "fencing.md") {
			continue // tests of their own know their variables
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range goBlocks(string(text)) {
			blocks++
			if err := checkBlock(block, files, packages); err != nil {
				t.Errorf("%s, block %d of Go: %v", page, i+1, err)
			}
		}
	}
	if blocks < 20 {
		t.Errorf("only %d blocks of Go were found", blocks)
	}
	if err := checkBlock("client.NewMutex(1)", files, packages); err == nil {
		t.Error("a wrong block is not found")
	}
}

// goBlocks are the fenced blocks of Go in a page.
func goBlocks(text string) (blocks []string) {
	var block *strings.Builder
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "```go":
			block = &strings.Builder{}
		case trimmed == "```" && block != nil:
			blocks = append(blocks, block.String())
			block = nil
		case block != nil:
			block.WriteString(line)
		}
	}
	return blocks
}

// inScope is what statements, and declarations, find there.
const inScope = `
func work(context.Context) error                       { return nil }
func compute(context.Context, string) (string, error) { return "", nil }

var (
	client, c1, c2, c3, c4, c5 *holdfast.Client

	mu   *holdfast.Mutex
	m    *holdfast.RWMutex
	hold *holdfast.Hold
)
`

// checkBlock type-checks a block.
func checkBlock(block string, files *token.FileSet, packages types.Importer) error {
	text := block
	if !strings.HasPrefix(text, "package ") {
		var head bytes.Buffer
		fmt.Fprintln(&head, "package guide")
		for _, module := range docPackages {
			for _, path := range module.Paths {
				fmt.Fprintf(&head, "import %q\n", path)
			}
		}
		if !strings.HasPrefix(text, "func ") && !strings.HasPrefix(text, "type ") {
			text = "func statements(ctx context.Context, rdb *redis.Client) (err error) {\n" + text + "\nreturn nil\n}\n"
		}
		text = head.String() + inScope + text
	}
	file, err := parser.ParseFile(files, "block.go", text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var failed []error
	config := types.Config{
		Importer: packages,
		Error: func(err error) {
			// What is not used, or declared twice, is so for the sake of the page.
			var found types.Error
			if !errors.As(err, &found) || !found.Soft {
				failed = append(failed, err)
			}
		},
	}
	_, _ = config.Check("block", files, []*ast.File{file}, nil) // Error is told all
	return errors.Join(failed...)
}

var tag = regexp.MustCompile(`[SLAP][0-9]{1,2}`)

// TestWeakSpotsAreExplained looks up the tag of every test's name in docs/weak-spots.md.
func TestWeakSpotsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/weak-spots.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("(?:func Test|\")((?:[SLAP][0-9]{1,2}_)+)")
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range names.FindAllStringSubmatch(string(text), -1) {
			for _, spot := range tag.FindAllString(match[1], -1) {
				found++
				if !strings.Contains(string(page), "| "+spot+" |") {
					t.Errorf("%s: %s is not explained", file, spot)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d tags were found", found)
	}
}
