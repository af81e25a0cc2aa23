// Package source finds declarations of Go and scripts of Lua by their names, whatever file they stand in.
//
// The whole name of a method consists of its package's directory, its receiver's type and its own name:
// holdfast/internal/call.Caller.Do. A name may be shortened from the left, at a dot or a slash, as long as it stands for
// one declaration alone: call.Caller.Do, Caller.Do, Do. The whole name of a script is its path.
package source

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// top is what whole names begin with.
const top = "holdfast"

// Tree is an index of some source files.
type Tree struct {
	places  []Place
	members []string // whole names of fields, of methods of interfaces, and of functions of Lua: they exist, and are no places
}

// Place is a declaration at the top level of a Go file, or a whole script.
type Place struct {
	Name string // the whole one
	File string // its path from the top of the tree
	Text string // without the doc comment

	before, after string // the rest of the file
}

// With returns the whole file, with another text in the place.
func (p Place) With(text string) string { return p.before + text + p.after }

// Library reads what a release consists of: the root module and the adapters, without their tests.
func Library(fsys fs.FS) (*Tree, error) {
	dirs, err := fs.Glob(fsys, "*driver")
	if err != nil {
		return nil, err
	}
	return Read(fsys, false, append(dirs, ".")...)
}

// Read reads the scripts and the Go files in some directories and below, with tests or without, and without modules that are
// nested in these directories.
func Read(fsys fs.FS, tests bool, dirs ...string) (*Tree, error) {
	t := &Tree{}
	seen := map[string]bool{} // files
	for _, dir := range dirs {
		err := fs.WalkDir(fsys, dir, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && file != dir && foreign(fsys, file):
				return fs.SkipDir
			case entry.IsDir(), seen[file], !tests && strings.HasSuffix(file, "_test.go"):
				return nil
			}
			seen[file] = true
			return t.read(fsys, file)
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// foreign reports whether a directory is another module, or is none of Go's.
func foreign(fsys fs.FS, dir string) bool {
	if base := path.Base(dir); base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *Tree) read(fsys fs.FS, file string) error {
	lua := strings.HasSuffix(file, ".lua")
	if !lua && !strings.HasSuffix(file, ".go") {
		return nil
	}
	read, err := fs.ReadFile(fsys, file)
	if err != nil {
		return err
	}
	text := string(read)
	if lua {
		script := Place{Name: path.Join(top, file), File: file, Text: text}
		t.places = append(t.places, script)
		for _, match := range luaFunction.FindAllStringSubmatch(text, -1) {
			t.members = append(t.members, script.Name+"."+match[1])
		}
		return nil
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	g := goFile{Tree: t, file: file, text: text, positions: positions}
	for _, declared := range parsed.Decls {
		g.declaration(declared)
	}
	return nil
}

var luaFunction = regexp.MustCompile(`(?m)^\s*(?:local\s+)?function\s+(\w+)`)

// goFile is one that is being read.
type goFile struct {
	*Tree
	file, text string
	positions  *token.FileSet
}

func (g *goFile) declaration(declared ast.Decl) {
	switch d := declared.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		g.place(name, d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					g.place(name.Name, s)
				}
			case *ast.TypeSpec:
				g.place(s.Name.Name, s)
				g.fields(s)
			}
		}
	}
}

func (g *goFile) place(name string, node ast.Node) {
	from, to := g.positions.Position(node.Pos()).Offset, g.positions.Position(node.End()).Offset
	g.places = append(g.places, Place{
		Name: g.whole(name), File: g.file, Text: g.text[from:to], before: g.text[:from], after: g.text[to:],
	})
}

func (g *goFile) whole(name string) string { return path.Join(top, path.Dir(g.file)) + "." + name }

// fields notes what a type has inside, however deep.
func (g *goFile) fields(of *ast.TypeSpec) {
	ast.Inspect(of.Type, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncType:
			return false
		case *ast.Field:
			for _, name := range n.Names {
				g.members = append(g.members, g.whole(of.Name.Name+"."+name.Name))
			}
		}
		return true
	})
}

// receiver is the name of a receiver's type.
func receiver(typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// Find returns the place that a name stands for.
func (t *Tree) Find(name string) (Place, error) {
	var found []Place
	for _, p := range t.places {
		if isEnd(name, p.Name) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return Place{}, fmt.Errorf("nothing is called %q%s", name, t.near(name))
	case 1:
		return found[0], nil
	}
	all := make([]string, len(found))
	for i, p := range found {
		all[i] = p.Name + " in " + p.File
	}
	return Place{}, fmt.Errorf("%q is %d declarations: %s", name, len(found), strings.Join(all, ", "))
}

// Count is how many things a name stands for, be they places or members of them.
func (t *Tree) Count(name string) (n int) {
	for _, p := range t.places {
		if isEnd(name, p.Name) {
			n++
		}
	}
	for _, member := range t.members {
		if isEnd(name, member) {
			n++
		}
	}
	return n
}

// isEnd reports whether a name is the end of a whole one.
func isEnd(name, whole string) bool {
	before, ok := strings.CutSuffix(whole, name)
	return ok && name != "" && (before == "" || strings.HasSuffix(before, ".") || strings.HasSuffix(before, "/"))
}

// near says which names are like one that there is not.
func (t *Tree) near(name string) string {
	const enough = 5
	var near []string
	for _, p := range t.places {
		if wanted, there := last(name), last(p.Name); 3*alike(wanted, there) >= 2*max(len(wanted), len(there)) {
			near = append(near, p.Name)
		}
	}
	if near = slices.Compact(near); len(near) == 0 {
		return ""
	}
	return "; near: " + strings.Join(near[:min(len(near), enough)], ", ")
}

// last is the last part of a name.
func last(name string) string {
	name = path.Base(name)
	if script, ok := strings.CutSuffix(name, ".lua"); ok {
		return script
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}

// alike is how many letters two names begin and end with alike.
func alike(a, b string) (n int) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for a != "" && b != "" && a[0] == b[0] {
		a, b, n = a[1:], b[1:], n+1
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b, n = a[:len(a)-1], b[:len(b)-1], n+1
	}
	return n
}
