package survey

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocumentedNames holds docs/cli.md to the names that programs read.
func TestDocumentedNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, doc, _ := strings.Cut(string(text), "### A lock, for programs")
	doc, _, _ = strings.Cut(doc, "### What it needs")
	for _, object := range []reflect.Type{reflect.TypeFor[lockJSON](), reflect.TypeFor[whoJSON](), reflect.TypeFor[holderJSON](), reflect.TypeFor[waiterJSON]()} {
		for i := range object.NumField() {
			name, _, _ := strings.Cut(object.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("docs/cli.md does not have `%s`", name)
			}
		}
	}
	for _, state := range []State{Held, Free, Exhausted, Closed, Open, Unknown} {
		if !strings.Contains(doc, "`"+string(state)+"`") {
			t.Errorf("docs/cli.md does not have the state `%s`", state)
		}
	}
}
