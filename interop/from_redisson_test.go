package interop

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/typecheck"
)

// section is one of docs/from-redisson.md about types of Redisson.
type section struct {
	title string
	// types are those whose public methods, with those of the interfaces that they
	// extend, must have a row: here, or in a section of such an interface.
	types []string
	// classes are implementations, whose methods must be known here or in the
	// sections of below.
	classes []string
	// below are sections whose methods these types have as well, so that their names
	// may stand here, too.
	below []string
	// some: the page has only the methods that matter for locks.
	some bool
}

// sections are all of the page that have types. A type's Async, Reactive and Rx
// counterparts belong to its section.
var sections = []section{
	{title: "RedissonClient", types: []string{
		"org.redisson.api.RedissonClient", "org.redisson.Redisson",
		"org.redisson.api.options.CommonOptions", "org.redisson.api.options.InvocationOptions",
	}},
	{title: "RLock", types: []string{"org.redisson.api.RLock", "org.redisson.api.RObservable", "java.util.concurrent.locks.Lock"}},
	{title: "RFencedLock", types: []string{"org.redisson.api.RFencedLock"}, below: []string{"RLock"}},
	{title: "Spin lock and LockOptions", types: []string{
		"org.redisson.api.LockOptions", "org.redisson.api.LockOptions$BackOff", "org.redisson.api.LockOptions$BackOffPolicy",
		"org.redisson.api.LockOptions$ConstantBackOff", "org.redisson.api.LockOptions$ExponentialBackOff",
	}, classes: []string{"org.redisson.RedissonSpinLock"}, below: []string{"RLock"}, some: true},
	{title: "Fair lock", classes: []string{"org.redisson.RedissonFairLock"}, below: []string{"RLock", "RObject and RExpirable"}},
	{title: "Non-reentrant locks", classes: []string{
		"org.redisson.RedissonNonReentrantLock", "org.redisson.RedissonNonReentrantFairLock",
	}, below: []string{"RLock"}},
	{title: "RReadWriteLock", types: []string{
		"org.redisson.api.RReadWriteLock", "java.util.concurrent.locks.ReadWriteLock",
	}, classes: []string{"org.redisson.RedissonReadLock", "org.redisson.RedissonWriteLock"}, below: []string{"RLock"}},
	{title: "RedissonMultiLock", types: []string{"org.redisson.RedissonMultiLock"}},
	{title: "RedissonRedLock", types: []string{"org.redisson.RedissonRedLock"}, below: []string{"RedissonMultiLock"}},
	{title: "RedissonFasterMultiLock", types: []string{"org.redisson.RedissonFasterMultiLock"}, below: []string{"RLock"}, some: true},
	{title: "RSemaphore", types: []string{"org.redisson.api.RSemaphore"}},
	{title: "RPermitExpirableSemaphore", types: []string{"org.redisson.api.RPermitExpirableSemaphore"}},
	{title: "RCountDownLatch", types: []string{"org.redisson.api.RCountDownLatch"}},
	{title: "RObject and RExpirable", types: []string{"org.redisson.api.RObject", "org.redisson.api.RExpirable"}, some: true},
	{title: "Config", some: true, types: []string{
		"org.redisson.config.Config", "org.redisson.config.BaseConfig", "org.redisson.config.SingleServerConfig",
		"org.redisson.config.BaseMasterSlaveServersConfig", "org.redisson.config.ClusterServersConfig", "org.redisson.config.SentinelServersConfig",
		"org.redisson.config.MasterSlaveServersConfig", "org.redisson.config.ReplicatedServersConfig",
	}},
}

// marks say in the page that only one version has a name.
var marks = map[string]string{"4.7.0": " (4.7)", "3.52.0": " (3.52)"}

// Every public method of every type, in both versions, has a row in docs/from-redisson.md, but for sections with some;
// and every Java name there is one of theirs, and marked if one version lacks it.
// The page is not in this module, so go test does not see that it has changed: use
// -count=1.
func TestFromRedissonJava(t *testing.T) {
	page := readPage(t)
	java := map[string]map[string]*javaType{}
	for _, version := range Versions {
		java[version] = askJavap(t, version)
	}
	for _, s := range sections {
		t.Run(s.title, func(t *testing.T) {
			mentioned := page.java(s.title)
			if len(mentioned) == 0 {
				t.Fatalf("docs/from-redisson.md has no section %q with a table", s.title)
			}
			has := map[string]map[string]bool{} // name -> versions
			for _, version := range Versions {
				for name, where := range s.names(java[version]) {
					if has[name] == nil {
						has[name] = map[string]bool{}
					}
					has[name][version] = true
					if _, ok := mentioned[name]; !ok && where != "" && !s.some {
						t.Errorf("no row for `%s` of %s in Redisson %s", name, where, version)
					}
				}
			}
			for name, text := range mentioned {
				checkMark(t, name, text, has[name])
			}
			for _, version := range Versions {
				for _, of := range s.types {
					if found := java[version][of]; found != nil && !s.some {
						checkOverloads(t, found, page.overloads(s.title))
					}
				}
			}
		})
	}
}

// checkMark checks that a name exists, and is marked if only one version has it.
func checkMark(t *testing.T, name, text string, has map[string]bool) {
	t.Helper()
	if len(has) == 0 {
		t.Errorf("`%s` is no method or setting of Redisson's that belongs here", name)
	}
	for version, mark := range marks {
		only := len(has) == 1 && has[version]
		if marked := strings.HasPrefix(text, mark); marked != only {
			t.Errorf("`%s`: marked as%s is %v; that only this version has it is %v", name, mark, marked, only)
		}
	}
}

// checkOverloads checks that a type's methods are there with every number of
// parameters; a class has the Async ones, too.
func checkOverloads(t *testing.T, of *javaType, mentioned map[string]bool) {
	t.Helper()
	for found := range of.overloads {
		if !mentioned[found] && !strings.Contains(found, "Async/") {
			t.Errorf("no row for %s of %s: a name, and how many parameters", found, of.name)
		}
	}
}

// No interface of a section extends one that the page does not know, and whatever
// the Async, Reactive and Rx interfaces have has a row where the plain ones have
// theirs: that is why one section is enough for all of them.
func TestFromRedissonVariants(t *testing.T) {
	page := readPage(t)
	if len(page.java("Async, Reactive and RxJava")) == 0 {
		t.Error("there is no section about the variants")
	}
	for _, version := range Versions {
		java := askJavap(t, version)
		home := map[string]section{}
		for _, s := range sections {
			for _, name := range s.types {
				home[name] = s
			}
		}
		for name, s := range home {
			found := java[name]
			if found == nil {
				t.Errorf("Redisson %s has no %s", version, name)
				continue
			}
			for _, super := range found.supers {
				if _, known := home[plain(super)]; !known {
					t.Errorf("%s of Redisson %s extends %s, about which the page says nothing", name, version, super)
				}
			}
			for _, variant := range []string{"Async", "Reactive", "Rx"} {
				if java[name+variant] == nil {
					continue
				}
				for method := range java[name+variant].methods {
					if _, ok := page.java(s.title)[strings.TrimSuffix(method, "Async")]; !ok && !s.some {
						t.Errorf("no row for `%s` of %s%s in Redisson %s", method, name, variant, version)
					}
				}
			}
		}
	}
}

// plain takes off what makes a variant of a type's name.
func plain(name string) string {
	if strings.HasPrefix(name, "org.redisson.api.") {
		for _, variant := range []string{"Async", "Reactive", "Rx"} {
			name = strings.TrimSuffix(name, variant)
		}
	}
	return name
}

// names are the methods and settings that may stand in the section. Those that
// must come with where they are from.
func (s section) names(java map[string]*javaType) map[string]string {
	names := map[string]string{}
	for _, below := range s.below {
		for _, b := range sections {
			if b.title == below {
				for name := range b.names(java) {
					names[name] = ""
				}
			}
		}
	}
	for _, class := range s.classes {
		if java[class] != nil {
			for name := range java[class].methods {
				name = strings.TrimSuffix(name, "Async")
				if _, known := names[name]; !known {
					names[name] = class
				}
			}
		}
	}
	for _, of := range s.types {
		names[of[strings.LastIndexAny(of, ".$")+1:]] = "" // its constructor, or the type itself
		if java[of] != nil {
			for name := range java[of].settings() {
				if !strings.HasPrefix(of, "org.redisson.api.") { // a class has the variants, too
					name = strings.TrimSuffix(name, "Async")
				}
				names[name] = of
			}
		}
	}
	return names
}

// javaType is what javap says of one.
type javaType struct {
	name    string
	supers  []string
	methods map[string]bool
	// overloads are its methods with how many parameters they have: lock/2.
	overloads map[string]bool
}

func (j *javaType) isConfig() bool { return strings.HasPrefix(j.name, "org.redisson.config.") }

// settings are the methods, with setX as the setting x, and without its getters.
func (j *javaType) settings() map[string]bool {
	names := map[string]bool{}
	for name := range j.methods {
		property := strings.TrimPrefix(strings.TrimPrefix(name, "get"), "is")
		setter, isSetter := strings.CutPrefix(name, "set")
		switch {
		case !j.isConfig():
			names[name] = true
		case isSetter:
			names[strings.ToLower(setter[:1])+setter[1:]] = true
		case property == name || !j.methods["set"+property]:
			names[name] = true
		}
	}
	return names
}

var (
	javaHead   = regexp.MustCompile(`^(?:public |abstract |final )*(?:class|interface) ([\w.$]+)(?:<.*?>)?((?: extends| implements| ).*)? \{`)
	javaMethod = regexp.MustCompile(`^  public ([^(]*) (\w+)\(`)
	javaLocks  = regexp.MustCompile(`\.(R\w*(Lock|Semaphore|CountDownLatch)|Redisson(Rx|Reactive)?Client)$`)
	javaParams = regexp.MustCompile(`<[^<>]*>`)
)

// askJavap returns the types of all sections in a version of Redisson, and their
// variants.
func askJavap(t *testing.T, version string) map[string]*javaType {
	t.Helper()
	if _, err := exec.LookPath("javap"); err != nil {
		t.Fatalf("this test asks javap for Redisson's methods; it comes with a JDK: install openjdk-17-jdk-headless: %v", err)
	}
	ctx, cancel := context.WithTimeout(background, 5*time.Minute)
	defer cancel()
	target, err := build(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	jar := filepath.Join(target, "lib", "redisson-"+version+".jar")
	if _, err := os.Stat(jar); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-public", "-cp", jar}
	for _, s := range sections {
		for _, name := range slices.Concat(s.types, s.classes) {
			arguments = append(arguments, name)
			if strings.HasPrefix(name, "org.redisson.api.R") {
				arguments = append(arguments, name+"Async", name+"Reactive", name+"Rx")
			}
		}
	}
	// javap fails if one type is not there, as many variants are not, and tells of
	// the others all the same.
	text, err := exec.CommandContext(ctx, "javap", arguments...).CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return parseJavap(string(text))
}

func parseJavap(text string) map[string]*javaType {
	all := map[string]*javaType{}
	var current *javaType
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		bare := line
		for javaParams.MatchString(bare) {
			bare = javaParams.ReplaceAllString(bare, "")
		}
		if head := javaHead.FindStringSubmatch(bare); head != nil {
			current = &javaType{name: head[1], methods: map[string]bool{}, overloads: map[string]bool{}}
			all[current.name] = current
			_, supers, isInterface := strings.Cut(bare, " extends ")
			if isInterface && strings.Contains(bare, "interface ") {
				current.supers = strings.Split(strings.TrimSuffix(supers, " {"), ",")
			}
			continue
		}
		method := javaMethod.FindStringSubmatch(bare)
		if method == nil || current == nil {
			continue
		}
		returns := method[1][strings.LastIndex(method[1], " ")+1:]
		if current.name == "org.redisson.Redisson" && !strings.Contains(method[1], "static") {
			continue // of class Redisson, what the interface does not have
		}
		if strings.HasSuffix(current.name, ".RedissonClient") && !javaLocks.MatchString(returns) &&
			(strings.HasPrefix(returns, "org.redisson.api.") || returns == "T") {
			continue // the client makes other things than locks, too
		}
		current.methods[method[2]] = true
		_, parameters, _ := strings.Cut(bare, "(")
		current.overloads[overload(method[2]+"("+parameters)] = true
	}
	return all
}

// overload makes lock/2 of lock(leaseTime, unit).
func overload(signature string) string {
	name, rest, _ := strings.Cut(signature, "(")
	parameters, _, _ := strings.Cut(rest, ")")
	if parameters == "" {
		return name + "/0"
	}
	return fmt.Sprintf("%s/%d", name, strings.Count(parameters, ",")+1)
}

// page is docs/from-redisson.md.
type page struct {
	tables []table
	blocks []string // of Go
	spans  []string // of code, wherever they are, outside of blocks
}

// table is one of a section.
type table struct {
	title string
	head  []string
	rows  [][]string
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func readPage(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "from-redisson.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{}
	title, language, previous := "", "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && language == "":
			language = fence
			p.blocks = append(p.blocks, "")
		case isFence:
			if language != "go" {
				p.blocks = p.blocks[:len(p.blocks)-1]
			}
			language = ""
		case language != "":
			p.blocks[len(p.blocks)-1] += line + "\n"
		case strings.HasPrefix(line, "## "):
			title = line[3:]
		case strings.HasPrefix(line, "|"):
			p.addRow(title, line, strings.HasPrefix(previous, "|"))
		}
		if language == "" {
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				p.spans = append(p.spans, span[1])
			}
		}
		previous = line
	}
	return p
}

func (p *page) addRow(title, line string, goesOn bool) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	switch {
	case !goesOn:
		p.tables = append(p.tables, table{title: title, head: cells})
	case cells[0] != "---":
		last := &p.tables[len(p.tables)-1]
		last.rows = append(last.rows, cells)
	}
}

// java returns the Java names in a section's first column, each with the text
// that follows it.
func (p *page) java(title string) map[string]string {
	names := map[string]string{}
	for _, t := range p.tables {
		if t.title != title || t.head[0] != "Redisson" {
			continue
		}
		for _, row := range t.rows {
			for _, at := range codeSpan.FindAllStringSubmatchIndex(row[0], -1) {
				name, _, _ := strings.Cut(row[0][at[2]:at[3]], "(")
				name = name[strings.LastIndexAny(name, ". ")+1:]
				if !strings.HasPrefix(name, "…") {
					names[name] = row[0][at[1]:]
				}
			}
		}
	}
	return names
}

// overloads returns the methods in a section's first column with how many
// parameters they have.
func (p *page) overloads(title string) map[string]bool {
	found := map[string]bool{}
	for _, t := range p.tables {
		if t.title == title && t.head[0] == "Redisson" {
			for _, row := range t.rows {
				for _, span := range codeSpan.FindAllStringSubmatch(row[0], -1) {
					name, _, _ := strings.Cut(span[1], "(")
					found[overload(span[1][strings.LastIndexAny(name, ". ")+1:])] = true
				}
			}
		}
	}
	return found
}

// Every Go expression in the page can be compiled, with the page's own table of
// variables, and so can its blocks of Go; and each row has one, or says "nothing".
func TestFromRedissonGo(t *testing.T) {
	p := readPage(t)
	c := newChecker(t, p)
	for _, tab := range p.tables {
		column := slices.IndexFunc(tab.head, func(h string) bool { return h == "Go" || h == "holdfast" })
		if column < 0 {
			continue
		}
		for _, row := range tab.rows {
			spans := codeSpan.FindAllStringSubmatch(row[column], -1)
			if len(row) != len(tab.head) || len(spans) == 0 && row[column] != "nothing" {
				t.Errorf("%s: %q: neither an expression nor \"nothing\", or too many cells", tab.title, row)
			}
			for _, span := range spans {
				if err := c.check(span[1]); err != nil {
					t.Errorf("%s: %s: `%s`: %v", tab.title, row[0], span[1], err)
				}
			}
		}
	}
	for _, span := range p.spans {
		first, _, dotted := strings.Cut(strings.TrimPrefix(span, "*"), ".")
		if dotted && c.known(first) && !strings.Contains(first, "/") {
			if err := c.check(span); err != nil {
				t.Errorf("`%s`: %v", span, err)
			}
		}
	}
	if len(p.blocks) == 0 {
		t.Error("there is no block of Go")
	}
	for _, block := range p.blocks {
		if _, _, err := c.compile("func work(context.Context) error { return nil }\n" + block); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
}

// packages are those that the page writes with their last name, each with a
// module of ours that requires it.
var packages = map[string]string{
	"github.com/holdfast-go/holdfast":               ".",
	"github.com/holdfast-go/holdfast/goredisdriver": ".",
	"github.com/redis/go-redis/v9":                  ".",
	"context":                                       ".",
	"errors":                                        ".",
	"fmt":                                           ".",
	"net":                                           ".",
	"time":                                          ".",
	"github.com/holdfast-go/holdfast/rueidisdriver": "../rueidisdriver",
	"github.com/redis/rueidis":                      "../rueidisdriver",
}

// checker type-checks expressions.
type checker struct {
	files    *token.FileSet
	importer types.Importer
	pkg      *types.Package
	inside   token.Pos
}

func newChecker(t *testing.T, p *page) *checker {
	t.Helper()
	modules := []typecheck.Module{{Dir: "."}, {Dir: "../rueidisdriver"}}
	for path, in := range packages {
		for i := range modules {
			if modules[i].Dir == in {
				modules[i].Paths = append(modules[i].Paths, path)
			}
		}
	}
	c := &checker{files: token.NewFileSet()}
	c.importer = typecheck.Importer(t, c.files, modules...)
	var text strings.Builder
	for _, tab := range p.tables {
		if tab.head[0] == "variable" {
			for _, row := range tab.rows {
				fmt.Fprintln(&text, "var", strings.ReplaceAll(row[0]+" "+row[1], "`", ""))
			}
		}
	}
	text.WriteString("func inside() {\n}\n")
	pkg, file, err := c.compile(text.String())
	if err != nil {
		t.Fatalf("the table of variables: %v", err)
	}
	c.pkg, c.inside = pkg, file.End()-2
	return c
}

// compile type-checks declarations.
func (c *checker) compile(text string) (*types.Package, *ast.File, error) {
	var head strings.Builder
	head.WriteString("package guide\n")
	for path := range packages {
		fmt.Fprintf(&head, "import %q\n", path)
	}
	file, err := parser.ParseFile(c.files, "guide.go", head.String()+text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	config := types.Config{Importer: c.importer, DisableUnusedImportCheck: true}
	pkg, err := config.Check("guide", c.files, []*ast.File{file}, nil)
	return pkg, file, err
}

// known reports whether a name is one of the packages or variables.
func (c *checker) known(name string) bool {
	_, object := c.pkg.Scope().Innermost(c.inside).LookupParent(name, c.inside)
	return object != nil
}

// check type-checks an expression, or finds the field of a struct type.
func (c *checker) check(text string) error {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return err
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	err = types.CheckExpr(c.files, c.pkg, c.inside, expr, info)
	field, ok := expr.(*ast.SelectorExpr)
	if err == nil || !ok {
		return err
	}
	info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if types.CheckExpr(c.files, c.pkg, c.inside, field.X, info) != nil || !info.Types[field.X].IsType() {
		return err
	}
	if found, _, _ := types.LookupFieldOrMethod(info.Types[field.X].Type, true, c.pkg, field.Sel.Name); found == nil {
		return err
	}
	return nil
}
