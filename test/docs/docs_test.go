package docs

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/typecheck"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// docPackages are what the pages may use, by the module that requires it.
var docPackages = []typecheck.Module{
	{Dir: ".", Paths: []string{
		"context", "database/sql", "errors", "fmt", "log/slog", "os", "os/signal", "strings", "syscall", "testing", "testing/synctest", "time",
		"github.com/holdfast-go/holdfast", "github.com/holdfast-go/holdfast/goredisdriver", "github.com/holdfast-go/holdfast/rueidisdriver",
		"github.com/redis/go-redis/v9", "github.com/redis/go-redis/v9/logging", "github.com/redis/rueidis",
	}},
	{Dir: "../../valkeydriver", Paths: []string{"github.com/holdfast-go/holdfast/valkeydriver", "github.com/valkey-io/valkey-go"}},
	{Dir: "../../gocronlock", Paths: []string{"github.com/holdfast-go/holdfast/gocronlock", "github.com/go-co-op/gocron/v2"}},
	{Dir: "../../otel", Paths: []string{"github.com/holdfast-go/holdfast/otel"}},
	{Dir: "../../holdfasttest", Paths: []string{"github.com/holdfast-go/holdfast/holdfasttest"}},
}

// TestDocsCompile type-checks every block of Go in the pages for users: whole programs,
// declarations, or statements.
func TestDocsCompile(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	packages := typecheck.Importer(t, files, docPackages...)
	blocks := 0
	for _, page := range glob(t, "../../docs/*.md", "../../docs/kinds/*.md", "../../docs/internals/*.md", "../../README.md") {
		if strings.HasSuffix(page, "from-redisson.md") || strings.HasSuffix(page, "fencing.md") {
			continue // tests of their own know their variables
		}
		for i, found := range goBlock.FindAllStringSubmatch(read(t, page), -1) {
			blocks++
			if err := checkBlock(found[1], files, packages); err != nil {
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

// goBlock is a block of Go, and fenced is any.
var (
	goBlock = regexp.MustCompile("(?ms)^[ \t]*```go\n(.*?)^[ \t]*```$")
	fenced  = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[^\n]*\n")
)

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

// TestWeakSpotsAreExplained looks up the tag of every test's name in docs/internals/weak-spots.md.
func TestWeakSpotsAreExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/internals/weak-spots.md")
	names := regexp.MustCompile("(?:func Test|\")((?:[SLAP][0-9]{1,2}_)+)")
	found := 0
	for _, file := range glob(t, "../*/*_test.go") {
		for _, match := range names.FindAllStringSubmatch(read(t, file), -1) {
			for spot := range strings.SplitSeq(strings.TrimSuffix(match[1], "_"), "_") {
				found++
				if !strings.Contains(page, "| "+spot+" |") {
					t.Errorf("%s: %s is not explained", file, spot)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d tags were found", found)
	}
}

// link is a link to another page, or to a heading.
var link = regexp.MustCompile(`\]\(([^()\s]*)\)`)

// TestDocsLinks follows every link of the pages inside the repository.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	followed := 0
	for _, page := range glob(t, "../../*.md", "../../docs/*.md", "../../docs/kinds/*.md", "../../docs/internals/*.md",
		"../../robustness/*.md", "../../robustness/*/*.md") {
		for _, target := range link.FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(target[1], "://") {
				continue
			}
			followed++
			path, heading, _ := strings.Cut(target[1], "#")
			if path = filepath.Join(filepath.Dir(page), path); target[1][0] == '#' {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if heading != "" && !slices.Contains(headings(t, path), heading) {
				t.Errorf("%s: there is no heading #%s in %s", page, heading, path)
			}
		}
	}
	if followed < 200 {
		t.Errorf("only %d links were found", followed)
	}
}

// prose is the text of a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	return fenced.ReplaceAllString(read(t, page), "")
}

// headings are the names by which the headings of a page are linked to.
func headings(t *testing.T, page string) (names []string) {
	t.Helper()
	notInNames := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for line := range strings.Lines(prose(t, page)) {
		if text, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && line[0] == '#' {
			name := notInNames.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// TestDocsImports compares the table of packages in docs/internals/architecture.md with what they import: what their row names, and
// what stands on the ground floor; nothing that stands above.
func TestDocsImports(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`([^`]+)`")
	var order, ground []string
	may := map[string][]string{}
	onGround := false
	for line := range strings.Lines(prose(t, "../../docs/internals/architecture.md")) {
		onGround = onGround || strings.HasPrefix(line, "| **Ground floor**")
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			continue
		}
		of := name.FindStringSubmatch(cells[0])[1]
		order = append(order, of)
		if onGround {
			ground = append(ground, of)
		}
		for _, other := range name.FindAllStringSubmatch(cells[2], -1) {
			may[of] = append(may[of], other[1])
		}
	}
	if len(order) < 15 || len(ground) < 5 {
		t.Fatalf("only %d packages were found, %d of them on the ground floor", len(order), len(ground))
	}
	for i, of := range order {
		allowed := may[of]
		if !slices.Contains(ground, of) {
			allowed = append(allowed, ground...)
		}
		for _, other := range importsHere(t, of) {
			switch {
			case !slices.Contains(allowed, other):
				t.Errorf("%s imports %s, which its row does not allow", of, other)
			case !slices.Contains(order[i+1:], other):
				t.Errorf("%s imports %s, which does not stand below it", of, other)
			}
		}
	}
}

// importsHere is what a package imports of this module, each without internal/.
func importsHere(t *testing.T, of string) (all []string) {
	t.Helper()
	dir := filepath.Join("../..", "internal", of)
	if of == "." || strings.HasPrefix(of, "driver") {
		dir = filepath.Join("../..", of)
	}
	everywhere := build.Default
	everywhere.UseAllFiles = true
	found, err := everywhere.ImportDir(dir, 0)
	kit.OK(t, err)
	for _, path := range found.Imports {
		if other, ours := strings.CutPrefix(path, "github.com/holdfast-go/holdfast/"); ours {
			all = append(all, strings.TrimPrefix(other, "internal/"))
		}
	}
	return all
}

// The documentation shows the code that is compiled here.
func TestFencingDocument(t *testing.T) {
	page := read(t, "../../docs/fencing.md")
	for _, file := range []string{"../fencing/postgres.go", "../fencing/redis.go"} {
		_, code, found := strings.Cut(read(t, file), "\n)\n\n") // after the imports
		if !found || !strings.Contains(page, "```go\n"+code+"```\n") {
			t.Errorf("docs/fencing.md does not show %s", file)
		}
	}
}

// testName is the name of a test as pages have it.
var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")

// Every test that the pages on guarantees and on security name exists.
func TestProofsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	kit.OK(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range function.FindAllStringSubmatch(read(t, path), -1) {
			defined[found[1]] = true
		}
		return nil
	}))
	for page, least := range map[string]int{"../../docs/guarantees.md": 15, "../../docs/security.md": 25} {
		named := testName.FindAllStringSubmatch(read(t, page), -1)
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

// The README's program is the one in quickstart. It exits with 1 and one line of output if the lock is held or Redis is not running.
func TestReadmeQuickStart(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "../../README.md"), "```go\n"+read(t, "../quickstart/main.go")+"```\n") {
		t.Error("the README's program is not quickstart/main.go")
	}
	program := filepath.Join(t.TempDir(), "quickstart")
	build := exec.Command("go", "build", "-o", program, "../quickstart")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := redistest.Start(t)
	// runs expects an exit code, and one line of output that contains a text.
	runs := func(what string, code int, line string) {
		t.Helper()
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.Addr())
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), line) {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	runs("the lock is free", 0, "done")
	if keys := s.Cli(t, "KEYS", "*"); keys != "" {
		t.Errorf("it left %s", keys)
	}
	s.Cli(t, "HSET", "orders:42", "99f17b91-c6cc-489e-88f6-8265bee545cf:1", "1")
	runs("another owner holds the lock", 1, "somebody else has it: ")
	s.Kill()
	runs("Redis is not running", 1, "nothing listens there")
}

// TestReadmesAreEqual compares what the two languages have in common: headings, blocks of
// code and commands, rows and code of tables, links.
func TestReadmesAreEqual(t *testing.T) {
	t.Parallel()
	english, chinese := outline(t, "../../README.md"), outline(t, "../../README.zh-CN.md")
	for i := range max(len(english), len(chinese)) {
		if i >= len(english) || i >= len(chinese) || english[i] != chinese[i] {
			t.Fatalf("they part at %q and %q", english[min(i, len(english)):], chinese[min(i, len(chinese)):])
		}
	}
	if len(english) < 100 {
		t.Errorf("only %d things were compared", len(english))
	}
}

var codeOrLink = regexp.MustCompile("`[^`]+`|\\]\\([^)]+\\)")

// outline is what does not depend on the language.
func outline(t *testing.T, path string) (all []string) {
	t.Helper()
	code := false
	var links []string // of a paragraph, which may have another order in another language
	end := func() {
		slices.Sort(links)
		all = append(all, links...)
		links = nil
	}
	for line := range strings.Lines(read(t, path)) {
		line = strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence || code || strings.HasPrefix(line, "    "):
			all = append(all, line)
		case strings.HasPrefix(line, "#"):
			end()
			all = append(all, strings.Repeat("#", len(line)-len(strings.TrimLeft(line, "#"))))
		case strings.HasPrefix(line, "|"):
			end()
			all = append(all, fmt.Sprint(strings.Count(line, "|"), codeOrLink.FindAllString(line, -1)))
		case line == "":
			end()
		default:
			for _, found := range codeOrLink.FindAllString(line, -1) {
				if !strings.HasPrefix(found, "](README") {
					links = append(links, found)
				}
			}
		}
		code = code != fence
	}
	end()
	return all
}

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
