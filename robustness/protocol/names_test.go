package protocol

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/robustness/internal/source"
)

// sources are those of the library, and of the models.
func sources(t *testing.T) (library, models *source.Tree) {
	t.Helper()
	fsys := os.DirFS(filepath.Join("..", ".."))
	library, err := source.Library(fsys)
	if err != nil {
		t.Fatal(err)
	}
	models, err = source.Read(fsys, false, "robustness/protocol")
	if err != nil {
		t.Fatal(err)
	}
	return library, models
}

// What README.md says that a step stands for, or that keeps a rule, is one thing of the library, and the page has each rule.
func TestPageNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	library, models := sources(t)
	rules := map[string][]string{} // by column
	ofLibrary := 0
	for _, span := range source.Spans(string(page)) {
		switch column := span.Column; {
		case column == "stands for", column == "in the code":
			ofLibrary++
			if n := library.Count(span.Text); n != 1 {
				t.Errorf("README.md:%d: the library has %d of %s", span.Line, n, span.Text)
			}
		case span.IsName() && library.Count(span.Text)+models.Count(span.Text) == 0:
			t.Errorf("README.md:%d: there is no %s", span.Line, span.Text)
		case strings.HasPrefix(column, "rule dropped"):
			rules[column] = append(rules[column], span.Text)
		}
	}
	if ofLibrary == 0 {
		t.Error("README.md does not say what anything stands for")
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Rules](), reflect.TypeFor[LineRules]()} {
		for _, rule := range reflect.VisibleFields(of) {
			if !slices.Contains(rules["rule dropped (`"+of.Name()+"`)"], rule.Name) {
				t.Errorf("README.md does not say what keeps %s of %s", rule.Name, of.Name())
			}
		}
	}
}

// symbol is a word that can only be a name: of a script, with a type or a package before it, or with a capital inside.
var symbol = regexp.MustCompile(`[A-Za-z]\w*\.lua|[A-Za-z]\w*(\.[A-Za-z]\w*)+|\b[a-z]+[A-Z]\w*`)

// What a comment of a model names is there. A name with a dot is the library's.
func TestCommentsNameWhatThereIs(t *testing.T) {
	library, models := sources(t)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range parsed.Comments {
			for _, comment := range group.List {
				for _, name := range symbol.FindAllString(comment.Text, -1) {
					n := library.Count(name)
					if !strings.Contains(name, ".") {
						n += models.Count(name)
					}
					if n == 0 && !strings.HasSuffix(name, ".md") {
						t.Errorf("%v: there is no %s", positions.Position(comment.Pos()), name)
					}
				}
			}
		}
	}
}
