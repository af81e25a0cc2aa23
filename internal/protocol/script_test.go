package protocol

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// everyScript is every script that is sent, by its file.
func everyScript(t *testing.T) map[string]*driver.Script {
	t.Helper()
	entries, err := files.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*driver.Script{}
	for _, entry := range entries {
		// A library's name has one word, but for one.
		name := strings.TrimSuffix(entry.Name(), ".lua")
		if kind, operation, found := strings.Cut(name, "_"); found && name != "semaphore_next" {
			all[name] = assemble(kind, operation)
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d scripts", len(all))
	}
	return all
}

// TestEvery: what Every returns is what the files make.
func TestEvery(t *testing.T) {
	got := Every()
	wanted := everyScript(t)
	for file, want := range wanted {
		if s := got[strings.Replace(file, "_", " ", 1)]; s == nil || s.SHA() != want.SHA() {
			t.Errorf("%s is not among them", file)
		}
	}
	if len(got) != len(wanted) {
		t.Errorf("%d scripts, of %d files", len(got), len(wanted))
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
	for name, s := range everyScript(t) {
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
	for name, s := range everyScript(t) {
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

// Until the first success, which is that of a free lock, a script builds no function
// that it does not call.
func TestTheCommonCaseComesFirst(t *testing.T) {
	for name, want := range map[string][]string{
		"mutex_acquire":   nil,
		"mutex_release":   nil,
		"fair_acquire":    nil,
		"fair_release":    nil,
		"read_acquire":    nil,
		"read_release":    nil,
		"write_acquire":   nil,
		"permits_acquire": nil,
		"permits_release": {"publish"},
	} {
		common, _, found := strings.Cut(everyScript(t)[name].Source(), " at\n")
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
