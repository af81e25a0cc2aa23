package protocol

import (
	"cmp"
	"embed"
	"io/fs"
	"maps"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua
var embedded embed.FS

// lua is the text of all scripts.
var lua = sources{files: embedded, libraries: map[string]pieces{}}

// load assembles a script that the library sends, and adds it to [Every].
func load(kind, operation string) *driver.Script {
	s := lua.assemble(kind, operation)
	loaded[kind+" "+operation] = s
	return s
}

// loaded are the scripts by kind and operation.
var loaded = map[string]*driver.Script{}

// Every returns every script that the library sends, by its kind and operation, such as "mutex acquire". A server has to have all of
// them for a user who may not use EVAL.
func Every() map[string]*driver.Script { return maps.Clone(loaded) }

// sources are Lua files, and the libraries among them that have been read.
type sources struct {
	files     fs.FS
	libraries map[string]pieces
}

// pieces are the paragraphs of a library by the names that they define.
type pieces map[string]*string

// assemble returns the script of a kind's operation, named after the operation. The script is frame.lua and the operation's file:
// OPERATION.lua, which several kinds share, or KIND_OPERATION.lua, if the kind has one of its own. These lines in it stand for text of
// other files, which are libraries:
//
//	-- from LIBRARY: PIECE, PIECE
//	-- fast
//
// The first is replaced by the paragraphs that define these names; the library `kind` is the file of the kind. The second is replaced by
// the paragraph of the kind's file that begins with `-- fast OPERATION`: the kind's common case.
//
// A kind's file that begins with `-- like BASE` takes from the file of another kind what it does not define. What it does define stands in
// the place of a piece of the same name in any library.
//
// Nothing else is sent: neither other pieces nor comments that have a line of their own. A server that executes a script builds each
// function that it comes by, called or not. So the pieces stand behind the common case, where there is one.
func (s sources) assemble(kind, operation string) *driver.Script {
	return driver.NewScript(operation, s.text(kind, operation, nil))
}

// text returns the text of a script. Unless added is nil, it is called with each line, and the piece or file that the line is from.
func (s sources) text(kind, operation string, added func(piece, line string)) string {
	a := assembly{sources: s, kind: kind, operation: operation, there: map[*string]int{}, added: added}
	if s.like(kind) != "" {
		a.own = s.library(kind)
	}
	a.add("frame", s.read("frame"))
	file := s.operation(kind, operation)
	a.add(file, s.read(file))
	return a.text.String()
}

// operation returns the name of the file that has a kind's operation.
func (s sources) operation(kind, operation string) string {
	own := kind + "_" + operation
	if _, err := fs.Stat(s.files, "lua/"+own+".lua"); err != nil {
		return operation
	}
	return own
}

func (s sources) read(name string) string {
	text, err := fs.ReadFile(s.files, "lua/"+name+".lua")
	if err != nil {
		panic(err) // it is embedded, or the package does not work at all
	}
	return string(text)
}

// like returns the kind on whose file a kind's file stands; empty if it has all that the operations ask for.
func (s sources) like(kind string) string {
	text, err := fs.ReadFile(s.files, "lua/"+kind+".lua")
	first, _, _ := strings.Cut(string(text), "\n")
	if base, found := strings.CutPrefix(first, like); err == nil && found {
		return base
	}
	return ""
}

// library returns the pieces of a library.
func (s sources) library(name string) pieces {
	if known, found := s.libraries[name]; found {
		return known
	}
	found := pieces{}
	if base := s.like(name); base != "" {
		maps.Copy(found, s.library(base))
	}
	for paragraph := range strings.SplitSeq(s.read(name), "\n\n") {
		paragraph += "\n"
		if first, _, _ := strings.Cut(paragraph, "\n"); strings.HasPrefix(first, fast) {
			found[first] = &paragraph
			continue
		}
		for _, definition := range defined.FindAllStringSubmatch(paragraph, -1) {
			for piece := range strings.SplitSeq(definition[1], ", ") {
				found[piece] = &paragraph
			}
		}
	}
	s.libraries[name] = found
	return found
}

const (
	ofKind = "kind"     // the library that is the file of the kind
	fast   = "-- fast"  // what stands for the kind's common case, or begins it
	like   = "-- like " // begins the file of a kind that stands on another one's
)

var (
	// from is a line that asks for pieces.
	from = regexp.MustCompile(`^( *)-- from (\w+): (.+)$`)
	// defined are the names that a paragraph of a library defines.
	defined = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)
)

// assembly is a script that is being put together.
type assembly struct {
	sources

	kind, operation string
	own             pieces // of a kind that is like another one
	text            strings.Builder
	there           map[*string]int // the pieces that the next line sees, each with its indentation
	added           func(piece, line string)
}

// add adds the text of a piece, or a file.
func (a *assembly) add(piece, text string) {
	for line := range strings.Lines(text) {
		code := strings.TrimSpace(line)
		var wanted []string
		if strings.HasPrefix(code, "-- from ") { // to try every line would take most of the time in which a program starts
			wanted = from.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		}
		switch {
		case code == fast:
			a.addPieces(ofKind, fast+" "+a.operation)
		case wanted != nil && wanted[1] != "":
			a.addBlock(wanted[1], wanted[2], wanted[3])
		case wanted != nil:
			a.addPieces(wanted[2], wanted[3])
		case code != "" && !strings.HasPrefix(code, "--"):
			indent := strings.Index(line, code)
			maps.DeleteFunc(a.there, func(_ *string, at int) bool { return at > indent })
			a.text.WriteString(line)
			if a.added != nil {
				a.added(piece, code)
			}
		}
	}
}

// addBlock adds pieces inside a block, so the rest of the script does not see them.
func (a *assembly) addBlock(indent, library, names string) {
	block := assembly{sources: a.sources, kind: a.kind, operation: a.operation, own: a.own, there: map[*string]int{}, added: a.added}
	for piece := range a.there {
		block.there[piece] = 0
	}
	block.addPieces(library, names)
	for line := range strings.Lines(block.text.String()) {
		a.text.WriteString(indent + line)
	}
	for piece := range block.there {
		if _, before := a.there[piece]; !before {
			a.there[piece] = len(indent)
		}
	}
}

// addPieces adds those that are not there yet, each behind those that it needs.
func (a *assembly) addPieces(library, names string) {
	if library == ofKind {
		library = a.kind
	}
	found := a.library(library)
	for name := range strings.SplitSeq(names, ", ") {
		piece := cmp.Or(a.own[name], found[name])
		if piece == nil {
			panic("there is no " + name + " in lua/" + library + ".lua")
		}
		if _, there := a.there[piece]; !there {
			a.there[piece] = 0
			a.add(name, *piece)
		}
	}
}
