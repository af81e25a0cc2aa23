package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// usageHead stands before the flags.
const usageHead = `Bench compares holdfast with other lock libraries on one Redis server, which it
starts itself unless --redis names one. All take turns, so only ratios of one run
say something.

    go run ./bench                                           everything, some eight minutes
    go run ./bench --rounds 2 --duration 300ms               everything, rougher, in two
    go run ./bench --workloads one-lock,processes --rounds 1
`

// flagSections is the order in which flags are explained.
var flagSections = []struct{ title, flags string }{
	{"What to run (without any of these: the comparison)", "check held scale scripts quick"},
	{"Of that", "workloads only redisson holds waiters"},
	{"How", "redis rounds duration timeout lease pool"},
	{"What to write", "report json cpuprofile memprofile"},
}

// usage explains the flags.
func usage(f *flag.FlagSet, w io.Writer) error {
	var b strings.Builder
	b.WriteString(usageHead)
	for _, section := range flagSections {
		fmt.Fprintf(&b, "\n%s:\n", section.title)
		for name := range strings.FieldsSeq(section.flags) {
			b.WriteString(explain(f.Lookup(name)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// explain is a flag's entry.
func explain(f *flag.Flag) string {
	const column = 22
	what, text := flag.UnquoteUsage(f)
	if what != "" {
		what = " " + strings.ToUpper(what)
	}
	if !strings.Contains(text, "(default") && f.DefValue != "false" {
		text += " (default " + f.DefValue + ")"
	}
	indent := strings.Repeat(" ", column)
	return fmt.Sprintf("  %-*s%s\n", column-2, "--"+f.Name+what, wrapFrom(text, indent, column))
}
