package protocol

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// Every script is one of a kind, or of those that all kinds share: a kind's rights are those of its scripts.
func TestEveryScriptIsOfAKind(t *testing.T) {
	left := Every()
	for _, k := range Kinds {
		maps.DeleteFunc(left, func(_ string, s *driver.Script) bool { return slices.Contains(k.scripts(), s) })
	}
	for _, name := range []string{"client write", "client read", "object expire", "object delete"} {
		delete(left, name)
	}
	for name := range left {
		t.Errorf("no kind has the script %q", name)
	}
}

// Every command that a script calls is one that the rights know of: it is named where it is called. A message is published with the
// command in ARGV[3].
func TestEveryCallIsNamed(t *testing.T) {
	call := regexp.MustCompile(`\b(?:redis\.p?call|even_if_full)\(([^,)]*)`)
	named := regexp.MustCompile(`^('[A-Z]+'|ARGV\[3\])$`)
	for name, s := range Every() {
		for _, found := range call.FindAllStringSubmatch(s.Source(), -1) {
			if command := found[1]; !named.MatchString(command) && command != "remove" { // in even_if_full
				t.Errorf("%s calls %s", name, command)
			}
		}
	}
}

// What a kind is said to do without is in its scripts.
func TestSparedCommands(t *testing.T) {
	for _, v := range Variants() {
		for _, command := range v.Spared {
			if !slices.Contains(v.Commands().Own, command) {
				t.Errorf("%s: no script calls %s", v.Name, command)
			}
		}
		for _, command := range v.Needs {
			if !slices.Contains(v.Spared, command) {
				t.Errorf("%s: the kind does not do without %s anyway", v.Name, command)
			}
		}
	}
}
