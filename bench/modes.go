package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// A mode is what the program does.
type mode struct {
	flag  string // that asks for it; empty if it needs none
	run   func(*job, context.Context) error
	fits  string // other flags that have a meaning in it
	smoke bool   // it is part of --quick without a mode
}

var modes = []mode{
	{
		flag: "", run: (*job).compare, smoke: true,
		fits: "redisson redis duration rounds timeout lease pool json report waiters only workloads cpuprofile memprofile quick",
	},
	{
		flag: "held", run: (*job).held, smoke: true,
		fits: "redis holds waiters timeout lease pool json only cpuprofile memprofile quick",
	},
	{
		flag: "check", run: (*job).check,
		fits: "redisson redis timeout lease pool json cpuprofile memprofile",
	},
	{
		flag: "scripts", run: (*job).compareScripts, smoke: true,
		fits: "redis rounds lease json quick",
	},
	{
		flag: "scale", run: (*job).scale,
		fits: "redis duration rounds holds timeout lease pool json only cpuprofile memprofile quick",
	},
}

// choose sets the modes that the flags ask for, and says what does not go together.
func (o *options) choose(f *flag.FlagSet) (err error) {
	for _, m := range modes {
		if set := f.Lookup(m.flag); set != nil && set.Value.String() == "true" {
			o.modes = append(o.modes, m)
		}
	}
	switch {
	case len(o.modes) > 0:
		return o.modes[0].goesWith(f) // not with another mode either
	case o.quick:
		o.modes = slices.DeleteFunc(slices.Clone(modes), func(m mode) bool { return !m.smoke })
	default:
		o.modes = modes[:1]
	}
	return modes[0].goesWith(f)
}

func (m mode) goesWith(f *flag.FlagSet) (err error) {
	f.Visit(func(set *flag.Flag) {
		if set.Name != m.flag && !slices.Contains(strings.Fields(m.fits), set.Name) {
			if m.flag == "" {
				err = fmt.Errorf("--%s does not go with the comparison", set.Name)
			} else {
				err = fmt.Errorf("--%s does not go with --%s", set.Name, m.flag)
			}
		}
	})
	return err
}

// all runs them, with a line between.
func (j *job) all(ctx context.Context) error {
	for i, m := range j.modes {
		if i > 0 {
			if _, err := fmt.Fprintln(j.stdout); err != nil {
				return err
			}
		}
		if err := m.run(j, ctx); err != nil {
			return err
		}
	}
	return nil
}
