package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/typecheck"
)

// way is what one call passes through, in the root package and the internal ones.
type way struct {
	calls, functions, files int
	short                   int // calls of functions that have one line; these have no limit of their own
	turns, wide             int // of mutexes; wide are those that all locks of a client share
}

// The longest ways are those that were measured: lower them when one gets shorter. A Lock is to have 25 calls through 8
// files, and 10 turns of mutexes, of which 5 are wide.
var longest = map[string]way{
	"lock":   {calls: 191, functions: 139, files: 35, turns: 9, wide: 4},
	"unlock": {calls: 93, functions: 80, files: 25, turns: 10, wide: 4},
}

// narrow are the types whose mutexes belong to one owner at one lock, to one attempt, or to a sixteenth of the locks.
var narrow = []string{"engine.account", "call.Attempt", "call.bound", "waitqueue.shard"}

func (w way) String() string {
	return fmt.Sprintf("%d calls (%d of one-liners) of %d functions in %d files, and %d turns of mutexes, of which %d are wide",
		w.calls, w.short, w.functions, w.files, w.turns, w.wide)
}

// module has all the code, and top is its folder.
const module, top = "github.com/holdfast-go/holdfast", "../.."

// TestShortWay keeps the way of a free mutex short. It builds the command with counters, and reads what they say.
func TestShortWay(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(folder, dir)
	t.Setenv("CGO_ENABLED", "0")        // as most of what is compiled
	t.Setenv("GOCOVERDIR", t.TempDir()) // for what nobody asks for
	program := filepath.Join(dir, "shortway")
	run(t, "go", "build", "-o="+program, "-ldflags=-w", "-cover", "-covermode=atomic", "-coverpkg=.,"+module+","+module+"/internal/...", ".")
	run(t, program)
	var places []place
	for _, call := range []string{"lock", "unlock"} {
		profile := filepath.Join(dir, call+".txt")
		run(t, "go", "tool", "covdata", "textfmt", "-i="+filepath.Join(dir, call), "-o="+profile)
		blocks := readProfile(t, profile)
		if places == nil {
			places = placesIn(t, blocks)
		}
		w, list := wayThrough(places, blocks)
		t.Logf("%s: %v\n%s", call, w, list)
		limit := longest[call]
		if w.calls > limit.calls || w.functions > limit.functions || w.files > limit.files || w.turns > limit.turns || w.wide > limit.wide {
			t.Errorf("%s has %v; the limit is %v", call, w, limit)
		}
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, said)
	}
}

// position is a line and a column.
type position [2]int

func (p position) before(q position) bool { return slices.Compare(p[:], q[:]) < 0 }

// block is code that runs as a whole, and how often it has.
type block struct {
	from, to position
	runs     int
}

// readProfile returns the blocks of each file.
func readProfile(t *testing.T, name string) map[string][]block {
	text, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	blocks := map[string][]block{}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		file, rest, _ := strings.Cut(strings.TrimPrefix(lines.Text(), module+"/"), ":")
		var b block
		var statements int
		_, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.from[0], &b.from[1], &b.to[0], &b.to[1], &statements, &b.runs)
		if err == nil && !strings.HasPrefix(file, "test/") && !strings.HasPrefix(file, "internal/instant/") { // else it is the first line, or not the library
			blocks[file] = append(blocks[file], b)
		}
	}
	return blocks
}

// runs is how often the code at a position has run: the innermost block around it.
func runs(blocks []block, at position) int {
	var in block
	for _, b := range blocks {
		if !at.before(b.from) && at.before(b.to) && !b.from.before(in.from) {
			in = b
		}
	}
	return in.runs
}

// place is where a function begins, or a mutex is locked.
type place struct {
	file  string
	at    position
	what  string
	mutex string // whose it is; empty: it is a function
	short bool   // it has one line
}

// placesIn returns those of the packages that have these files.
func placesIn(t *testing.T, files map[string][]block) (places []place) {
	set := token.NewFileSet()
	config := types.Config{Importer: typecheck.Importer(t, set, typecheck.Module{Dir: top, Paths: []string{"./..."}})}
	dirs := map[string]bool{}
	for file := range files {
		dirs[path.Dir(file)] = true
	}
	for dir := range dirs {
		found, err := build.ImportDir(filepath.Join(top, dir), 0)
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, name := range found.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(top, dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := config.Check(dir, set, parsed, info); err != nil {
			t.Fatal(err)
		}
		for _, file := range parsed {
			places = append(places, placesOf(file, set, info)...)
		}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.file, b.file), slices.Compare(a.at[:], b.at[:]))
	})
	return places
}

// placesOf returns those of a file.
func placesOf(file *ast.File, set *token.FileSet, info *types.Info) (places []place) {
	add := func(at token.Pos, p place) {
		found := set.Position(at)
		p.file, p.at = strings.TrimPrefix(found.Filename, top+"/"), position{found.Line, found.Column}
		places = append(places, p)
	}
	enter := func(what string, body *ast.BlockStmt) {
		first := body.Lbrace
		if len(body.List) > 0 {
			first = body.List[0].Pos()
		}
		add(first, place{what: what, short: set.Position(body.Lbrace).Line == set.Position(body.Rbrace).Line})
	}
	function := ""
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if function = n.Name.Name; n.Recv != nil {
				function = types.ExprString(n.Recv.List[0].Type) + "." + function
			}
			enter(function, n.Body)
		case *ast.FuncLit:
			enter("a function in "+function, n.Body)
		case *ast.CallExpr:
			if mutex := lockedBy(n, info); mutex != "" {
				add(n.Pos(), place{what: "the mutex of " + mutex, mutex: mutex})
			}
		}
		return true
	})
	return places
}

// lockedBy returns the type that has the mutex which a call locks; empty if it locks none.
func lockedBy(call *ast.CallExpr, info *types.Info) string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Lock" && method.Sel.Name != "RLock" {
		return ""
	}
	field, ok := method.X.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(info.TypeOf(field).String(), "sync.") {
		return ""
	}
	owner := types.TypeString(info.TypeOf(field.X), func(p *types.Package) string { return p.Name() })
	owner, _, _ = strings.Cut(strings.TrimPrefix(owner, "*"), "[")
	return owner
}

// wayThrough is what has run, and a list of it.
func wayThrough(places []place, blocks map[string][]block) (w way, list string) {
	files := map[string]bool{}
	for _, p := range places {
		n := runs(blocks[p.file], p.at)
		switch {
		case n == 0:
			continue
		case p.mutex == "":
			w.calls += n
			w.functions++
			if p.short {
				w.short += n
			}
			files[p.file] = true
		default:
			w.turns += n
			if !slices.Contains(narrow, p.mutex) {
				w.wide += n
			}
		}
		list += fmt.Sprintf("%s:%d: %d of %s\n", p.file, p.at[0], n, p.what)
	}
	w.files = len(files)
	return w, list
}
