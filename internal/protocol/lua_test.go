package protocol

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longest is how many lines a function in Lua may have.
const longest = 40

// What still breaks the two rules below. A kind that moves to the operations that all kinds share takes its files off these lists;
// nothing is added.
var (
	tooLong = map[string]int{"permits serve": 70}
	doubled = map[string][]string{
		"free":  {"permits", "semaphore"},
		"wrong": {"permits", "semaphore"},
	}
)

// No function in Lua is longer than a screen.
func TestFunctionsAreShort(t *testing.T) {
	found := map[string]int{}
	for _, file := range fileNames(t) {
		lines := strings.Split(lua.read(file), "\n")
		for i, line := range lines {
			begins := function.FindStringSubmatch(line)
			if begins == nil {
				continue
			}
			if length := 1 + slices.Index(lines[i:], begins[1]+"end"); length > longest {
				found[file+" "+begins[2]] = length
			}
		}
	}
	for name, length := range found {
		if length > tooLong[name] {
			t.Errorf("%s has %d lines, want %d at most", name, length, max(longest, tooLong[name]))
		}
	}
	for name := range tooLong {
		if found[name] == 0 {
			t.Errorf("%s has at most %d lines: take it off the list", name, longest)
		}
	}
}

// A name means one thing: it is defined in one library, or in the file of every kind, with the same arguments. What a kind that is like
// another one has in the place of a piece of that kind, or of the waitlist, has the same arguments, too.
func TestNamesAreDefinedOnce(t *testing.T) {
	kinds := map[string]bool{} // those that share their operations
	for name := range Every() {
		if kind, operation, _ := strings.Cut(name, " "); lua.operation(kind, operation) == operation && lua.like(kind) == "" {
			kinds[kind] = true
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
	found := map[string][]string{}
	for name, files := range where {
		if len(arguments[name]) > 1 {
			t.Errorf("%s is defined with different arguments: %q", name, arguments[name])
		}
		if len(files) > 1 && !slices.Equal(files, slices.Sorted(maps.Keys(kinds))) {
			found[name] = files
		}
	}
	if !reflect.DeepEqual(found, doubled) {
		t.Errorf("names that are defined more than once: %q, want %q", found, doubled)
	}
}

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
