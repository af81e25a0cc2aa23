// Package manual writes the manual page of the tool. It comes from the grammar, so it has every
// command and flag that there is.
package manual

import (
	"fmt"
	"io"
	"slices"
	"strings"

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

// Write writes the page in roff, with the macros of man(7).
func (p Page) Write(w io.Writer, app *kong.Application) error {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line(`.TH %s 1 "" "%s %s" "User Commands"`, strings.ToUpper(app.Name), app.Name, text(p.Version))
	line(".nh\n.ad l") // names and flags are not to be hyphenated, nor lines stretched
	line(".SH NAME\n%s \\- %s", app.Name, text(strings.ToLower(p.About[:1])+strings.TrimSuffix(p.About[1:], ".")))
	line(".SH SYNOPSIS\n.nf")
	line(".B %s", text(p.Usages[""]))
	line(".fi\n.SH COMMANDS")
	for _, node := range app.Children {
		if node.Hidden {
			continue
		}
		line(".SS %s", text(p.Usages[node.Name]))
		line("%s", text(node.Help))
		out.WriteString(detail(node.Detail))
		for _, positional := range node.Positional {
			out.WriteString(item("<"+positional.Name+">", positional.Help))
		}
		out.WriteString(flags(node.Flags, ""))
	}
	line(".SH OPTIONS\nThese are good for every command.")
	out.WriteString(flags(app.Flags, ""))
	for _, group := range groups(app.Flags) {
		line(".SS %s", text(strings.TrimSuffix(group.Title, ":")))
		out.WriteString(flags(app.Flags, group.Key))
	}
	line(".SH EXIT STATUS")
	for _, row := range exit.Table {
		out.WriteString(item(row.Code, row.Means+"."))
	}
	line(".PP\nBut for these, holdfast run exits as the command that it runs.")
	line(".SH ENVIRONMENT")
	for _, f := range app.Flags {
		for _, name := range f.Envs {
			out.WriteString(item(name, "As --"+f.Name+"."))
		}
	}
	names := make([]string, 0, len(p.Variables))
	for name := range p.Variables {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out.WriteString(item(name, p.Variables[name]))
	}
	_, err := io.WriteString(w, out.String())
	return err
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

// flags are those of a group. "" has those that are in none.
func flags(all []*kong.Flag, group string) string {
	var out strings.Builder
	for _, f := range all {
		in := ""
		if f.Group != nil {
			in = f.Group.Key
		}
		if f.Hidden || in != group {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() && !f.IsCounter() {
			name += "=" + f.FormatPlaceHolder()
		}
		out.WriteString(item(name, f.Help))
	}
	return out.String()
}

// item is a paragraph with a title.
func item(title, about string) string {
	return ".TP\n.B " + text(title) + "\n" + text(about) + "\n"
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
