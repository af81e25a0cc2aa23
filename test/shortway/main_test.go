package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/cover"
	"golang.org/x/tools/go/packages"
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
	"lock":   {calls: 169, functions: 126, files: 35, turns: 9, wide: 4},
	"unlock": {calls: 98, functions: 79, files: 24, turns: 10, wide: 4}, // of which each look at the clock has two: see package mono
}

// narrow are the types whose mutexes belong to one owner at one lock, to one attempt, or to a sixteenth of the locks.
var narrow = []string{"engine.account", "call.Attempt", "call.bound", "waitqueue.shard"}

func (w way) String() string {
	return fmt.Sprintf("%d calls (%d of one-liners) of %d functions in %d files, and %d turns of mutexes, of which %d are wide",
		w.calls, w.short, w.functions, w.files, w.turns, w.wide)
}

// module has all the code.
const module = "github.com/holdfast-go/holdfast"

// TestShortWay keeps the way of a free mutex short. It builds the command with counters, and reads what they say.
func TestShortWay(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(folder, dir)
	t.Setenv("CGO_ENABLED", "0")        // as most of what is compiled
	t.Setenv("GOCOVERDIR", t.TempDir()) // for what nobody asks for
	program := filepath.Join(dir, "shortway")
	run(t, "go", "build", "-o="+program, "-ldflags=-w", "-cover", "-covermode=atomic", "-coverpkg=.,"+module+","+module+"/internal/...", ".")
	run(t, program)
	places := placesIn(t)
	for _, call := range []string{"lock", "unlock"} {
		profile := filepath.Join(dir, call+".txt")
		run(t, "go", "tool", "covdata", "textfmt", "-i="+filepath.Join(dir, call), "-o="+profile)
		passed, err := cover.ParseProfiles(profile)
		if err != nil {
			t.Fatal(err)
		}
		w, list := wayThrough(places, passed)
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

// runs is how often the code at a place has run: the innermost block around it.
func (p place) runs(profiles []*cover.Profile) (n int) {
	i := slices.IndexFunc(profiles, func(profile *cover.Profile) bool { return profile.FileName == p.file })
	if i < 0 {
		return 0
	}
	for _, b := range profiles[i].Blocks { // in the order in which they begin
		began := b.StartLine < p.at.Line || b.StartLine == p.at.Line && b.StartCol <= p.at.Column
		ended := b.EndLine < p.at.Line || b.EndLine == p.at.Line && b.EndCol <= p.at.Column
		if began && !ended {
			n = b.Count
		}
	}
	return n
}

// place is where a function begins, or a mutex is locked.
type place struct {
	file  string // with the package's path
	at    token.Position
	what  string
	mutex string // whose it is; empty: it is a function
	short bool   // it has one line
}

// placesIn returns those of the library.
func placesIn(t *testing.T) (places []place) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "../.."}, module, module+"/internal/...")
	if err != nil || packages.PrintErrors(loaded) > 0 {
		t.Fatal("the library does not load: ", err)
	}
	for _, p := range loaded {
		if p.PkgPath == module+"/internal/instant" {
			continue
		}
		for _, file := range p.Syntax {
			places = append(places, placesOf(file, p)...)
		}
	}
	return places
}

// placesOf returns those of a file.
func placesOf(file *ast.File, in *packages.Package) (places []place) {
	add := func(pos token.Pos, p place) {
		p.at = in.Fset.Position(pos)
		p.file = in.PkgPath + "/" + filepath.Base(p.at.Filename)
		places = append(places, p)
	}
	enter := func(what string, body *ast.BlockStmt) {
		first := body.Lbrace
		if len(body.List) > 0 {
			first = body.List[0].Pos()
		}
		add(first, place{what: what, short: in.Fset.Position(body.Lbrace).Line == in.Fset.Position(body.Rbrace).Line})
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
			if mutex := lockedBy(n, in.TypesInfo); mutex != "" {
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
func wayThrough(places []place, passed []*cover.Profile) (w way, list string) {
	files := map[string]bool{}
	for _, p := range places {
		n := p.runs(passed)
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
		list += fmt.Sprintf("%s:%d: %d of %s\n", p.file, p.at.Line, n, p.what)
	}
	w.files = len(files)
	return w, list
}
