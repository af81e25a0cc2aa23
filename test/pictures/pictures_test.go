//go:build unix

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docs = "../../docs"

// TestDraw writes colours as classes, text that reads back, and nothing for what it does not know.
func TestDraw(t *testing.T) {
	t.Parallel()
	picture, err := draw("\x1b[1m\x1b[32mok\x1b[0m a < b\n\x1b[7m> x\x1b[27m \x1b[2my\n\x1b[22mz", 20, "a & b")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>a &amp; b</title>", `<tspan x="14" textLength="16.8" class="c2 bold">ok</tspan>`, ` a &lt; b</tspan>`,
		`<rect class="back" x="14" y="32" width="25.2" height="18"/>`, ` class="reverse">&gt; x</tspan>`, ` class="faint">y</tspan>`, `textLength="8.4">z</tspan>`,
	} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("no %s in\n%s", want, picture)
		}
	}
	for _, unknown := range []string{"\x1b[38;5;200mx", "\x1b[2Jx", "\x1b[41mx"} {
		if _, err := draw(unknown, 20, ""); err == nil {
			t.Errorf("%q was drawn", unknown)
		}
	}
}

// TestPage has each picture on the page, small, well-formed, and without anything of the machine that it was taken on.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(docs, "looks.md"))
	if err != nil {
		t.Fatal(err)
	}
	var linked, taken []string
	for _, m := range regexp.MustCompile(`\]\(looks/([a-z-]+)\.svg\)`).FindAllStringSubmatch(string(page), -1) {
		linked = append(linked, m[1])
	}
	foreign := regexp.MustCompile(`/(work|home|root|tmp|Users)/|@(vm|localhost)\b`)
	if host, err := os.Hostname(); err == nil && len(host) > 3 {
		foreign = regexp.MustCompile(foreign.String() + `|@` + regexp.QuoteMeta(host) + `\b`)
	}
	for _, p := range all {
		taken = append(taken, p.name)
		picture, err := os.ReadFile(filepath.Join(docs, "looks", p.name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(picture) > 60_000 {
			t.Errorf("%s has %d bytes", p.name, len(picture))
		}
		if found := foreign.Find(picture); found != nil {
			t.Errorf("%s has %q", p.name, found)
		}
		for decoder := xml.NewDecoder(bytes.NewReader(picture)); err == nil; {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	slices.Sort(linked)
	slices.Sort(taken)
	if !slices.Equal(linked, taken) {
		t.Errorf("on the page: %q, taken: %q", linked, taken)
	}
}
