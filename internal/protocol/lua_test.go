package protocol

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longest is how many lines a function in Lua may have.
const longest = 40

// No function in Lua is longer than a screen.
func TestFunctionsAreShort(t *testing.T) {
	for _, file := range fileNames(t) {
		lines := strings.Split(lua.read(file), "\n")
		for i, line := range lines {
			begins := function.FindStringSubmatch(line)
			if begins == nil {
				continue
			}
			if length := 1 + slices.Index(lines[i:], begins[1]+"end"); length > longest {
				t.Errorf("%s %s has %d lines, want %d at most", file, begins[2], length, longest)
			}
		}
	}
}

// A name means one thing: it is defined in one library, or, if an operation takes it from the kind, in the files of kinds, with the same
// arguments. What a kind that is like another one has in the place of a piece of that kind, or of the waitlist, has the same arguments, too.
func TestNamesAreDefinedOnce(t *testing.T) {
	kinds, taken := map[string]bool{}, map[string]bool{} // the kinds that share their operations; the names that are taken from kinds
	for name := range Every() {
		if kind, operation, _ := strings.Cut(name, " "); lua.operation(kind, operation) == operation && lua.like(kind) == "" {
			kinds[kind] = true
		}
	}
	for _, file := range fileNames(t) {
		for _, wanted := range ofKinds.FindAllStringSubmatch(lua.read(file), -1) {
			for name := range strings.SplitSeq(wanted[1], ", ") {
				taken[name] = taken[name] || !kinds[file]
			}
		}
	}
	where, arguments := map[string][]string{}, map[string][]string{}
	for _, file := range fileNames(t) {
		replaced := map[string]string{}
		if base := lua.like(file); base != "" {
			replaced = definitions("waitlist")
			maps.Copy(replaced, definitions(base))
		}
		for name, args := range definitions(file) {
			if want, found := replaced[name]; found {
				if args != want {
					t.Errorf("%s has %s(%s) in the place of %s(%s)", file, name, args, name, want)
				}
				continue
			}
			where[name] = append(where[name], file)
			if kinds[file] && !slices.Contains(arguments[name], args) {
				arguments[name] = append(arguments[name], args)
			}
		}
	}
	for name, files := range where {
		if len(arguments[name]) > 1 {
			t.Errorf("%s is defined with different arguments: %q", name, arguments[name])
		}
		if len(files) > 1 && !(taken[name] && !slices.ContainsFunc(files, func(file string) bool { return !kinds[file] })) {
			t.Errorf("%s is defined more than once, in %q", name, files)
		}
	}
}

// ofKinds is a line that asks for pieces of the kind's file.
var ofKinds = regexp.MustCompile(`(?m)^ *-- from kind: (.+)$`)

// function is the first line of one in Lua.
var function = regexp.MustCompile(`^( *)local function (\w+)\((.*)\)$`)

// definitions returns the names that a file defines for others, and its functions, each with its arguments.
func definitions(file string) map[string]string {
	all := map[string]string{}
	for paragraph := range strings.SplitSeq(lua.read(file), "\n\n") {
		for line := range strings.SplitSeq(paragraph, "\n") {
			if found := function.FindStringSubmatch(line); found != nil {
				all[found[2]] = found[3]
			}
		}
		if lua.libraries[file] == nil || strings.HasPrefix(paragraph, fast) { // what it defines is for itself
			continue
		}
		for _, found := range defined.FindAllStringSubmatch(paragraph, -1) {
			for name := range strings.SplitSeq(found[1], ", ") {
				all[name] += ""
			}
		}
	}
	return all
}

// Every paragraph of a library is in a script.
func TestLibrariesAreLean(t *testing.T) {
	var sent strings.Builder
	for _, s := range Every() {
		for line := range strings.Lines(s.Source()) {
			sent.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	for library := range lua.libraries {
		for name, piece := range lua.library(library) {
			for line := range strings.Lines(*piece) {
				if code := strings.TrimSpace(line); !strings.HasPrefix(code, "--") && !strings.Contains(sent.String(), code+"\n") {
					t.Errorf("%s.lua: nothing takes %s", library, name)
					break
				}
			}
		}
	}
}
