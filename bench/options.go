package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/bench/workloads/scripts"
)

// errUsage is a command line that makes no sense; it has been said why.
var errUsage = errors.New("bad usage")

// options are what the command line asks for.
type options struct {
	redis     string
	duration  time.Duration
	rounds    int
	timeout   time.Duration
	lease     time.Duration
	pool      int
	quick     bool
	redisson  bool
	holds     int
	waiters   int
	report    string // file
	only      string
	workloads string

	modes     []mode        // to run
	heldLease time.Duration // of what --held and --scale hold
	turns     int           // of --scripts
	jvmWarm   time.Duration // how long a JVM runs before it is measured
	args      []string      // those that were given
}

// A mode is what the program does.
type mode struct {
	name  string // of the flag that asks for it
	does  string
	run   func(*job, context.Context) error
	fits  string // other flags that have a meaning in it
	smoke bool   // it is part of --quick without a mode
}

var modes = []mode{
	{
		name: "compare", does: "compare all libraries under all workloads; what runs without another mode", run: (*job).compare, smoke: true,
		fits: "redisson redis duration rounds timeout lease pool report waiters only workloads quick",
	},
	{
		name: "held", does: "what locks cost while they are held, and while they are waited for", run: (*job).held, smoke: true,
		fits: "redis holds waiters timeout lease pool only quick",
	},
	{
		name: "check", does: "fail if holdfast is only half as good as a goal says", run: (*job).check,
		fits: "redisson redis timeout lease pool",
	},
	{
		name: "scripts", does: "the server's time for holdfast's scripts, beside scripts that do what Redisson's do", run: (*job).compareScripts, smoke: true,
		fits: "redis rounds lease quick",
	},
	{
		name: "scale", does: "what limits one server, and clusters of one to three primaries, which it starts: Redis 7.0 or newer", run: (*job).scale,
		fits: "redis duration rounds holds timeout lease pool only quick",
	},
}

const head = `Bench compares holdfast with other lock libraries on one Redis server, which it
starts itself unless --redis names one. All take turns, so only ratios of one run
say something.

    go run ./bench                                           everything, some eight minutes
    go run ./bench --rounds 2 --duration 300ms               everything, rougher, in two
    go run ./bench --workloads one-lock,processes --rounds 1

`

func (o *options) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		_, _ = io.WriteString(stderr, head) // as the flags are written
		f.PrintDefaults()
	}
	for _, m := range modes {
		f.Bool(m.name, false, m.does+"; with "+strings.Join(strings.Fields(m.fits), ", "))
	}
	f.BoolVar(&o.quick, "quick", false, "see that it runs: as short as can be, but for what other flags say; without a mode, --compare, --held and --scripts")
	f.StringVar(&o.workloads, "workloads", "", "only these `ids`, with commas between, of "+strings.Join(workloadIDs(), ", ")+
		" (default: all; with --quick, no herds above 100)")
	f.StringVar(&o.only, "only", "", "only contenders whose name contains one of these `words`, with commas between (default: all)")
	f.BoolVar(&o.redisson, "redisson", false, "Redisson itself takes part, in a JVM; needs a JDK and Maven: tools/need-jvm")
	f.IntVar(&o.holds, "holds", 100_000, "the largest `number` of holds")
	f.IntVar(&o.waiters, "waiters", 10_000, "the largest `number` of waiters, ten for each lock")
	f.StringVar(&o.redis, "redis", "", "the server's `address`, host:port; nothing else may use it meanwhile (default: start one)")
	f.IntVar(&o.rounds, "rounds", 5, "the `number` of rounds; medians over them are shown")
	f.DurationVar(&o.duration, "duration", time.Second, "the `time` that each contender runs in each round")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "the longest `time` that one pair of lock and unlock may take, and that a contender may stand still")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "the lease of every lock, a `time`")
	f.IntVar(&o.pool, "pool", 10*runtime.GOMAXPROCS(0), "the `number` of connections of each go-redis client")
	f.StringVar(&o.report, "report", "", "write the comparison as a page to this `file`, Markdown, with charts in a directory beside it (default: no page)")
	return f
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := o.flags(stderr)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
	given := map[string]bool{}
	f.Visit(func(set *flag.Flag) {
		given[set.Name] = true
		o.args = append(o.args, "--"+set.Name+"="+set.Value.String())
	})
	o.jvmWarm = 5 * time.Second // enough to compile what is called often
	if o.quick {
		o.beQuick(given)
	}
	o.heldLease, o.turns = cmp.Or(o.heldLease, o.lease), cmp.Or(o.turns, o.rounds*scripts.TurnsARound)
	if err := cmp.Or(o.choose(given), o.valid(f)); err != nil {
		_, said := fmt.Fprintln(stderr, "bench:", err)
		return o, errors.Join(errUsage, said)
	}
	return o, nil
}

// quickLease is the lease with --quick and --held.
const quickLease = 1500 * time.Millisecond

// beQuick makes everything as short as it can be, but for what was given.
func (o *options) beQuick(given map[string]bool) {
	for name, shorten := range map[string]func(){
		"duration": func() { o.duration = 50 * time.Millisecond },
		"rounds":   func() { o.rounds, o.turns = 2, 2 },
		"timeout":  func() { o.timeout = 2 * time.Second },
		"holds":    func() { o.holds = held.CPUFrom },
		"waiters":  func() { o.waiters = 10 * held.WaitersALock },
		"lease":    func() { o.heldLease = quickLease },
	} {
		if !given[name] {
			shorten()
		}
	}
	o.jvmWarm = o.duration
}

// choose sets the modes that the flags ask for, and says what does not go together.
func (o *options) choose(given map[string]bool) error {
	for _, m := range modes {
		if given[m.name] {
			o.modes = append(o.modes, m)
		}
	}
	first := modes[0]
	switch {
	case len(o.modes) > 0:
		first = o.modes[0] // no other mode fits it
	case o.quick:
		o.modes = slices.DeleteFunc(slices.Clone(modes), func(m mode) bool { return !m.smoke })
	default:
		o.modes = modes[:1]
	}
	for name := range given {
		if name != first.name && !slices.Contains(strings.Fields(first.fits), name) {
			return fmt.Errorf("--%s does not go with --%s", name, first.name)
		}
	}
	return nil
}

func (o *options) valid(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return errors.New("it takes flags only")
	case o.duration <= 0 || o.rounds < 1 || o.timeout < 10*time.Millisecond || o.pool < 1 || o.holds < 1 || o.waiters < 1:
		return errors.New("counts and times must be above zero")
	case o.lease <= o.timeout:
		return errors.New("the lease must be longer than the timeout")
	}
	for name := range strings.SplitSeq(o.workloads, ",") {
		if o.workloads != "" && !slices.Contains(workloadIDs(), name) {
			return fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(workloadIDs(), ", "))
		}
	}
	return nil
}

// workloadIDs are the names for the command line.
func workloadIDs() (ids []string) {
	for _, w := range workloads.All() {
		ids = append(ids, w.ID)
	}
	return ids
}
