// Package manual writes the manual page of the tool. It comes from the grammar, so it has every
// command and flag that there is.
package manual

import (
	_ "embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Page is what the grammar does not say.
type Page struct {
	Version string
	About   string            // the tool, in a sentence
	Usages  map[string]string // how each command is written; that of the tool itself is under ""
	// Variables are those of the environment that no flag stands for, and what they are.
	Variables map[string]string
}

//go:embed page.tmpl
var page string

// Write writes the page in roff, with the macros of man(7).
func (p Page) Write(w io.Writer, app *kong.Application) error {
	functions := template.FuncMap{
		"text": text, "detail": detail, "groups": groups, "in": in, "written": written, "upper": strings.ToUpper,
		"title": func(group *kong.Group) string { return strings.TrimSuffix(group.Title, ":") },
	}
	t, err := template.New("page").Funcs(functions).Parse(page)
	if err != nil {
		return err
	}
	about := strings.ToLower(p.About[:1]) + strings.TrimSuffix(p.About[1:], ".")
	return t.Execute(w, map[string]any{"App": app, "Page": p, "About": about, "Statuses": exit.Table})
}

// groups are those that the flags stand in.
func groups(all []*kong.Flag) (found []*kong.Group) {
	for _, f := range all {
		if f.Group != nil && !slices.ContainsFunc(found, func(g *kong.Group) bool { return g.Key == f.Group.Key }) {
			found = append(found, f.Group)
		}
	}
	return found
}

// in are the flags of a group that are shown. "" has those that are in none.
func in(group string, all []*kong.Flag) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(all), func(f *kong.Flag) bool {
		return f.Hidden || f.Group == nil && group != "" || f.Group != nil && f.Group.Key != group
	})
}

// written is a flag as it can be written.
func written(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	if !f.IsBool() && !f.IsCounter() {
		name += "=" + f.FormatPlaceHolder()
	}
	return name
}

// detail is a longer help: paragraphs, and indented lines that stay as they are.
func detail(help string) string {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(help), "\n\n") {
		if paragraph == "" {
			continue
		}
		out.WriteString(".PP\n")
		asIs := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			if indented := strings.HasPrefix(line, "  "); indented != asIs {
				asIs = indented
				out.WriteString(map[bool]string{true: ".RS 4\n.nf\n", false: ".fi\n.RE\n"}[indented])
			}
			out.WriteString(text(strings.TrimPrefix(line, "  ")) + "\n")
		}
		if asIs {
			out.WriteString(".fi\n.RE\n")
		}
	}
	return out.String()
}

// text is a line that roff takes for nothing but text.
func text(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "…", "...").Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
