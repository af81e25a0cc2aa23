package completion

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

//go:embed *.tmpl
var templates embed.FS

// Shells are those that there is a script for.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Write writes the script of a shell.
func Write(w io.Writer, shell string, app *kong.Application) error {
	if !slices.Contains(Shells(), shell) {
		return fmt.Errorf("there is no completion for %s; there is one for %s", shell, strings.Join(Shells(), ", "))
	}
	functions := template.FuncMap{"words": words, "quote": quote, "inSpec": inSpec, "written": written}
	name := shell + ".tmpl"
	script, err := template.New(name).Funcs(functions).ParseFS(templates, name)
	if err != nil {
		return err
	}
	return script.Execute(w, grammarOf(app))
}

// grammar is what can be written, as far as it can be completed.
type grammar struct {
	Name     string
	Flags    []flag // good for every command
	Names    []string
	Commands []command
}

type command struct {
	Name, About string
	Flags       []flag
	Arguments   []argument
	Runs        bool // has another command behind --
}

type argument struct {
	Name   string
	Values []string // nil: anything
}

type flag struct {
	Name, About string
	Words       []string // as it can be written
	Short       string   // "" if there is none
	Value       string   // what the value is called; "" if the flag has none
	Values      []string
	File        bool // the value is a file
}

func grammarOf(app *kong.Application) grammar {
	shown := slices.DeleteFunc(slices.Clone(app.Children), func(node *kong.Node) bool { return node.Hidden })
	g := grammar{Name: app.Name, Flags: flagsOf(app.Node)}
	for _, node := range shown {
		g.Names = append(g.Names, node.Name)
	}
	for _, node := range shown {
		c := command{Name: node.Name, About: brief(node.Help), Flags: flagsOf(node)}
		for _, positional := range node.Positional {
			switch {
			case positional.PassthroughMode != kong.PassThroughModeNone:
				c.Runs = true
			case positional.Name == "command":
				c.Arguments = append(c.Arguments, argument{positional.Name, g.Names})
			default:
				c.Arguments = append(c.Arguments, argument{positional.Name, enum(positional)})
			}
		}
		g.Commands = append(g.Commands, c)
	}
	return g
}

func flagsOf(node *kong.Node) (all []flag) {
	for _, f := range node.Flags {
		if f.Hidden {
			continue
		}
		one := flag{Name: f.Name, About: brief(f.Help), Words: []string{"--" + f.Name}, Values: enum(f.Value)}
		if f.Short != 0 {
			one.Short = string(f.Short)
			one.Words = append(one.Words, "-"+one.Short)
		}
		if !f.IsBool() && !f.IsCounter() {
			one.Value, one.File = f.FormatPlaceHolder(), f.PlaceHolder == "FILE"
		}
		all = append(all, one)
	}
	return all
}

// enum are the values that there are, if there are only so many.
func enum(value *kong.Value) []string {
	if value.Enum == "" {
		return nil
	}
	return value.EnumSlice()
}

// brief is the beginning of a help text, up to where it goes into details.
func brief(help string) string {
	end := len(help)
	for _, stop := range []string{". ", ": ", "; ", " ("} {
		if at := strings.Index(help, stop); at >= 0 {
			end = min(end, at)
		}
	}
	return strings.TrimSuffix(help[:end], ".")
}

// words are some words for a list of a shell's.
func words(all []string) string { return strings.Join(all, " ") }

// quote is a text in single quotes: bash, zsh and fish all end them, and begin them again.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// inSpec is a text for a part of what zsh's _arguments and _describe take.
func inSpec(text string) string {
	return strings.NewReplacer("'", `'\''`, `\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(text)
}

// written are flags as they can be written.
func written(flags []flag) string {
	var all []string
	for _, f := range flags {
		all = append(all, f.Words...)
	}
	slices.Sort(all)
	return words(all)
}
