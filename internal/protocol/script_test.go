package protocol

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEvery: every file is a script that is sent, or a library, from which one takes pieces.
func TestEvery(t *testing.T) {
	used := map[string]bool{"frame": true}
	for name := range Every() {
		kind, operation, _ := strings.Cut(name, " ")
		used[lua.operation(kind, operation)] = true
	}
	for name := range lua.libraries {
		used[name] = true
	}
	for _, name := range fileNames(t) {
		if !used[name] {
			t.Errorf("nothing is made of %s.lua", name)
		}
	}
	if len(Every()) < 40 {
		t.Errorf("only %d scripts", len(Every()))
	}
}

// fileNames are the names of all Lua files.
func fileNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := embedded.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".lua"))
	}
	return names
}

// An operation's file takes from a library, and from the file of its kind, what it names, and nothing twice. Pieces of a kind that is like
// another one come first.
func TestAssemble(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"frame":      "-- Stands before every script.\nlocal at = 1\n",
		"common":     "-- A library.\n\nlocal A = 1\n\n-- b needs A.\n-- from common: A\nlocal function b()\n  return A\nend\n",
		"big":        "-- fast take\n-- from common: A\nlocal some = A\n\n-- fast give\nreturn A\n\nlocal function size()\n  return 2\nend\n",
		"small":      "-- fast take\nlocal some = 0\n\n-- from common: b\nlocal function size()\n  return b()\nend\n",
		"tiny":       "-- like small\n\nlocal A = 0\n",
		"take":       "-- take: a header.\n\n-- fast\nif some ~= 0 then\n  -- from kind: size\n  return size()\nend\n-- from common: A\nreturn A\n",
		"give":       "-- from common: A\n-- fast\n",
		"small_give": "return at\n",
		"twice":      "if at > 0 then\n  -- from common: A\n  f(A)\n  -- from common: b\n  f(b)\nend\n-- from common: A\nreturn A\n",
	} {
		files["lua/"+name+".lua"] = &fstest.MapFile{Data: []byte(text)}
	}
	s := sources{files: files, libraries: map[string]pieces{}}
	size := "if some ~= 0 then\n  local function size()\n    return 2\n  end\n  return size()\nend\n"
	nested := "if some ~= 0 then\n  local A = 1\n  local function b()\n    return A\n  end\n  local function size()\n    return b()\n  end\n  return size()\nend\n"
	for name, want := range map[string]string{
		"big take":   "local at = 1\nlocal A = 1\nlocal some = A\n" + size + "return A\n",
		"small take": "local at = 1\nlocal some = 0\n" + nested + "local A = 1\nreturn A\n",
		"big give":   "local at = 1\nlocal A = 1\nreturn A\n",
		"small give": "local at = 1\nreturn at\n",
		"any twice":  "local at = 1\nif at > 0 then\n  local A = 1\n  f(A)\n  local function b()\n    return A\n  end\n  f(b)\nend\nlocal A = 1\nreturn A\n",
		"tiny take":  "local at = 1\nlocal some = 0\n" + strings.ReplaceAll(nested, "A = 1", "A = 0") + "local A = 0\nreturn A\n",
	} {
		kind, operation, _ := strings.Cut(name, " ")
		if got := s.assemble(kind, operation); got.Source() != want || got.Name() != operation {
			t.Errorf("%s: %s is\n%s\nwant\n%s", name, got.Name(), got.Source(), want)
		}
	}
}

var (
	quoted     = regexp.MustCompile(`'[^']*'|--.*`)
	identifier = regexp.MustCompile(`(^|[^.\w])([A-Za-z_]\w*)`)
	locals     = regexp.MustCompile(`\blocal (?:function )?(\w+(?:, \w+)*)`)
	inner      = regexp.MustCompile(`\bfunction ?\w*\(([\w, .]*)\)|\bfor (\w+(?:, \w+)*)`)
	functions  = regexp.MustCompile(`(?m)^ *local function (\w+)`)
)

// known are the words of Lua, and what it and Redis define.
var known = strings.Fields("and break do else elseif end false for function if in local nil not or repeat return then true until while " +
	"redis KEYS ARGV string math table select type tonumber tostring unpack ipairs pairs")

// A name that a script uses is defined before, where it can be seen. Redis would say
// so only when it comes to that line.
func TestScriptsDefineWhatTheyUse(t *testing.T) {
	for name, s := range Every() {
		var scopes []scope
		for line := range strings.Lines(s.Source()) {
			code := quoted.ReplaceAllString(strings.TrimSuffix(line, "\n"), "''")
			indent := len(code) - len(strings.TrimLeft(code, " "))
			scopes = slices.DeleteFunc(scopes, func(s scope) bool { return s.indent > indent })
			for _, found := range locals.FindAllStringSubmatch(code, -1) {
				scopes = append(scopes, scope{indent, strings.Split(found[1], ", ")})
			}
			for _, found := range inner.FindAllStringSubmatch(code, -1) {
				scopes = append(scopes, scope{indent + 1, strings.Split(found[1]+found[2], ", ")})
			}
			for _, found := range identifier.FindAllStringSubmatch(code, -1) {
				word := found[2]
				if !slices.Contains(known, word) && !slices.ContainsFunc(scopes, func(s scope) bool { return slices.Contains(s.names, word) }) {
					t.Errorf("%s: %s is not defined: %s", name, word, strings.TrimSpace(line))
				}
			}
		}
	}
}

// scope is the names that are defined at an indentation, until a line is less indented.
type scope struct {
	indent int
	names  []string
}

// What is sent is used: every function is called, and no line is a comment.
func TestScriptsAreLean(t *testing.T) {
	for name, s := range Every() {
		for _, found := range functions.FindAllStringSubmatch(s.Source(), -1) {
			if n := len(regexp.MustCompile(`\b`+found[1]+`\b`).FindAllString(s.Source(), -1)); n < 2 {
				t.Errorf("%s: nothing calls %s", name, found[1])
			}
		}
		for line := range strings.Lines(s.Source()) {
			if code := strings.TrimSpace(line); code == "" || strings.HasPrefix(code, "--") {
				t.Errorf("%s: a line without code: %q", name, line)
			}
		}
	}
}

// The keys of read holds that a script may use are counted once: see unspent in lua/rw.lua.
func TestScriptsCountKeysOnce(t *testing.T) {
	for name, s := range Every() {
		if n := strings.Count(s.Source(), "local unspent"); n > 1 {
			t.Errorf("%s: unspent is defined %d times", name, n)
		}
	}
}

// Until the first success, which is that of a free lock, a script builds no function
// that it does not call.
func TestTheCommonCaseComesFirst(t *testing.T) {
	for name, want := range map[string][]string{
		"mutex acquire":   nil,
		"mutex release":   nil,
		"fair acquire":    nil,
		"fair release":    nil,
		"rw acquire":      nil,
		"rw release":      nil,
		"permits acquire": nil,
		"permits release": nil,
	} {
		common, _, found := strings.Cut(Every()[name].Source(), " at\n")
		if !found {
			t.Errorf("%s: no success", name)
		}
		var built []string
		for _, f := range regexp.MustCompile(`(?m)^local function (\w+)`).FindAllStringSubmatch(common, -1) {
			built = append(built, f[1])
		}
		if !slices.Equal(built, want) {
			t.Errorf("%s: builds %v, want %v", name, built, want)
		}
	}
}
