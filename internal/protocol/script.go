package protocol

import (
	"embed"
	"maps"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua
var files embed.FS

// load is assemble for a script that the library sends: it is one of [Every].
func load(kind, operation string) *driver.Script {
	s := assemble(kind, operation)
	loaded[kind+" "+operation] = s
	return s
}

// loaded are the scripts by kind and operation.
var loaded = map[string]*driver.Script{}

// Every returns every script that the library sends, by its kind and operation, such as "mutex acquire". A server has to have all of
// them for a user who may not use EVAL.
func Every() map[string]*driver.Script { return maps.Clone(loaded) }

// assemble returns the script of a kind's operation, whose name is the operation's. It
// is what every script begins with, and the operation's file, in which a comment of
// this form stands where it needs pieces of a library:
//
//	-- from LIBRARY: PIECE, PIECE
//
// Nothing else is sent: neither other pieces, nor comments that have a line of their
// own. A server that executes a script builds each function that it comes by, called
// or not; so the pieces stand behind the common case, where there is one.
func assemble(kind, operation string) *driver.Script {
	a := assembly{there: map[*string]bool{}}
	a.add(source("frame"))
	a.add(source(kind + "_" + operation))
	return driver.NewScript(operation, a.text.String())
}

func source(name string) string {
	text, err := files.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded, or the package does not work at all
	}
	return string(text)
}

// from is a line that asks for pieces.
var from = regexp.MustCompile(`^( *)-- from (\w+): (.+)$`)

// assembly is a script that is being put together.
type assembly struct {
	text  strings.Builder
	there map[*string]bool // the pieces that it has
}

func (a *assembly) add(text string) {
	for line := range strings.Lines(text) {
		code := strings.TrimSpace(line)
		var wanted []string
		if strings.HasPrefix(code, "-- from ") { // to try every line would take most of the time in which a program starts
			wanted = from.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		}
		switch {
		case wanted != nil && wanted[1] != "":
			// Inside a block, so the rest of the script does not see them.
			block := assembly{there: map[*string]bool{}}
			for piece := range a.there {
				block.there[piece] = true
			}
			block.addPieces(wanted[2], wanted[3])
			for line := range strings.Lines(block.text.String()) {
				a.text.WriteString(wanted[1] + line)
			}
		case wanted != nil:
			a.addPieces(wanted[2], wanted[3])
		case code != "" && !strings.HasPrefix(code, "--"):
			a.text.WriteString(line)
		}
	}
}

// addPieces adds those that are not there yet, each behind those that it needs.
func (a *assembly) addPieces(library, names string) {
	pieces := piecesOf(library)
	for name := range strings.SplitSeq(names, ", ") {
		piece, found := pieces[name]
		if !found {
			panic("there is no " + name + " in lua/" + library + ".lua")
		}
		if !a.there[piece] {
			a.there[piece] = true
			a.add(*piece)
		}
	}
}

// piecesOf returns the pieces of a library by what they define: its paragraphs.
func piecesOf(library string) map[string]*string {
	if known, found := libraries[library]; found {
		return known
	}
	pieces := map[string]*string{}
	for paragraph := range strings.SplitSeq(source(library), "\n\n") {
		paragraph += "\n"
		for _, found := range defined.FindAllStringSubmatch(paragraph, -1) {
			for name := range strings.SplitSeq(found[1], ", ") {
				pieces[name] = &paragraph
			}
		}
	}
	libraries[library] = pieces
	return pieces
}

// defined are the names that a paragraph of a library defines.
var defined = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)

// libraries are those that have been read.
var libraries = map[string]map[string]*string{}
