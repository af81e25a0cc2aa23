package source

import (
	"strings"
	"testing"
	"testing/fstest"
)

// tree indexes files that are given by name and text.
func tree(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for file, text := range files {
		fsys[file] = &fstest.MapFile{Data: []byte(text)}
	}
	read, err := Library(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

var example = map[string]string{
	"lock.go": "package holdfast\n\n// Lock is documented.\nfunc (l *Lock) Lock() { wait() }\n\n" +
		"// wait is documented.\nfunc wait() {}\n\n// sleep, too.\nconst (\n\t// long is one of two.\n\tlong = 3\n\tshort, none = 1, 0\n)\n\n" +
		"type Lock struct {\n\tcount int\n\tinner struct{ deep int }\n}\n",
	"lock_test.go":                     "package holdfast\n\nfunc inTest() {}\n",
	"internal/list/list.go":            "package list\n\nfunc (l List[T]) Push() {}\n\nfunc (p Pair[A, B]) Push() {}\n\ntype Walker interface{ Walk(step int) }\n",
	"internal/protocol/lua/common.lua": "local function take_token()\nend\n",
	"memdriver/go.mod":                 "module m\n",
	"memdriver/mem.go":                 "package memdriver\n\nfunc Open() {}\n",
	"test/go.mod":                      "module t\n",
	"test/helper.go":                   "package test\n\nfunc helper() {}\n",
	".cache/x.go":                      "package x\n\nfunc cached() {}\n",
}

func TestFind(t *testing.T) {
	files := tree(t, example)
	for name, want := range map[string]struct{ whole, file, text string }{
		"wait":                        {"holdfast.wait", "lock.go", "func wait() {}"},
		"Lock.Lock":                   {"holdfast.Lock.Lock", "lock.go", "func (l *Lock) Lock() { wait() }"},
		"long":                        {"holdfast.long", "lock.go", "long = 3"},
		"none":                        {"holdfast.none", "lock.go", "short, none = 1, 0"},
		"List.Push":                   {"holdfast/internal/list.List.Push", "internal/list/list.go", "func (l List[T]) Push() {}"},
		"internal/list.Pair.Push":     {"holdfast/internal/list.Pair.Push", "internal/list/list.go", "func (p Pair[A, B]) Push() {}"},
		"list.Walker":                 {"holdfast/internal/list.Walker", "internal/list/list.go", "Walker interface{ Walk(step int) }"},
		"Open":                        {"holdfast/memdriver.Open", "memdriver/mem.go", "func Open() {}"},
		"common.lua":                  {"holdfast/internal/protocol/lua/common.lua", "internal/protocol/lua/common.lua", example["internal/protocol/lua/common.lua"]},
		"holdfast/memdriver.Open":     {"holdfast/memdriver.Open", "memdriver/mem.go", "func Open() {}"},
		"holdfast/internal/list.List": {},
	} {
		found, err := files.Find(name)
		if want.whole == "" {
			if err == nil {
				t.Errorf("%s is %s", name, found.Name)
			}
			continue
		}
		if err != nil || found.Name != want.whole || found.File != want.file || found.Text != want.text {
			t.Errorf("%s: %v %v", name, found, err)
		}
		if found.With(found.Text) != example[found.File] {
			t.Errorf("%s: the file is another one", name)
		}
	}
}

// A name that stands for two declarations, or for none, is refused, and the error says what there is.
func TestFindNot(t *testing.T) {
	files := tree(t, example)
	for name, says := range map[string]string{
		"Push":      "2 declarations: holdfast/internal/list.List.Push in internal/list/list.go, holdfast/internal/list.Pair.Push in",
		"Lock":      "holdfast.Lock.Lock in lock.go, holdfast.Lock in lock.go",
		"List.Pusj": "nothing is called \"List.Pusj\"; near: holdfast/internal/list.List.Push, ",
		"Ring.Push": "near: holdfast/internal/list.List.Push, holdfast/internal/list.Pair.Push",
		"commn.lua": "near: holdfast/internal/protocol/lua/common.lua",
		"ait":       "nothing is called",
		"":          "nothing is called",
		"inTest":    "nothing is called", // in a test
		"helper":    "nothing is called", // in a module that is no part of the library
		"cached":    "nothing is called",
		"count":     "nothing is called", // a field
	} {
		if found, err := files.Find(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v %v", name, found.Name, err)
		}
	}
}

// What has moved to another file, or to another package, is found there.
func TestFindMoved(t *testing.T) {
	const text = "func (l *Lock) giveBack() {}"
	for file, whole := range map[string]string{
		"lock.go":                 "holdfast.Lock.giveBack",
		"release.go":              "holdfast.Lock.giveBack",
		"internal/engine/lock.go": "holdfast/internal/engine.Lock.giveBack",
		"driver/driverkit/x.go":   "holdfast/driver/driverkit.Lock.giveBack",
	} {
		found, err := tree(t, map[string]string{file: "package p\n\n" + text + "\n"}).Find("giveBack")
		if err != nil || found.Name != whole || found.File != file || found.Text != text {
			t.Error(file, found, err)
		}
	}
}

func TestCount(t *testing.T) {
	files := tree(t, example)
	for name, want := range map[string]int{
		"wait": 1, "Lock": 2, "Push": 2, "common.lua": 1,
		"Lock.count": 1, "deep": 1, "Walker.Walk": 1, "take_token": 1, "common.lua.take_token": 1,
		"step": 0, "inTest": 0, "token": 0, "": 0,
	} {
		if got := files.Count(name); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
}

func TestRead(t *testing.T) {
	fsys := fstest.MapFS{}
	for file, text := range example {
		fsys[file] = &fstest.MapFile{Data: []byte(text)}
	}
	read, err := Read(fsys, true, ".", "internal", "test")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"inTest": 1, "List.Push": 1, "helper": 1, "Open": 0, "cached": 0} {
		if got := read.Count(name); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
}
