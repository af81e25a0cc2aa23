package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
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
	scripts   bool
	check     bool
	held      bool
	scale     bool
	holds     int
	waiters   int
	json      string
	report    string // file
	only      string
	workloads string
	profile   profile

	modes      []mode // to run
	shortLease bool   // --held measures for a lease, which is to be short
	fewTurns   bool   // --scripts has as many turns as rounds, and no more
	helpFailed error
	args       []string // those that were given, but for where else to write to
}

func (o *options) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { o.helpFailed = usage(f, stderr) }
	f.BoolVar(&o.check, "check", false, "fail if holdfast is only half as good as a goal says")
	f.BoolVar(&o.held, "held", false, "what locks cost while they are held, and while they are waited for")
	f.BoolVar(&o.scale, "scale", false, "what limits one server, and clusters of one to three primaries, which it starts: Redis 7.0 or newer")
	f.BoolVar(&o.scripts, "scripts", false, "the server's time for holdfast's scripts, beside scripts that do what Redisson's do")
	f.BoolVar(&o.quick, "quick", false, "see that it runs: as short as can be, but for what other flags say; without another of these flags, the comparison, "+
		"--held and --scripts")
	f.StringVar(&o.workloads, "workloads", "", "only these `ids`, with commas between, of "+strings.Join(workloadIDs(), ", ")+
		" (default: all; with --quick, no herds above 100)")
	f.StringVar(&o.only, "only", "", "only contenders whose name contains one of these `words`, with commas between (default: all)")
	f.BoolVar(&o.redisson, "redisson", false, "Redisson itself takes part, in a JVM; needs a JDK and Maven: tools/need-jvm")
	f.IntVar(&o.holds, "holds", 100_000, "with --held and --scale, the largest `number` of holds")
	f.IntVar(&o.waiters, "waiters", 10_000, "with --held, the largest `number` of waiters, ten for each lock")
	f.StringVar(&o.redis, "redis", "", "the server's `address`, host:port; nothing else may use it meanwhile (default: start one)")
	f.IntVar(&o.rounds, "rounds", 5, "the `number` of rounds; medians over them are shown")
	f.DurationVar(&o.duration, "duration", time.Second, "the `time` that each contender runs in each round")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "the longest `time` that one pair of lock and unlock may take, and that a contender may stand still")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "the lease of every lock, a `time`")
	f.IntVar(&o.pool, "pool", 10*runtime.GOMAXPROCS(0), "the `number` of connections of each go-redis client")
	f.StringVar(&o.json, "json", "", "write all figures of every round to this `file`, JSON, an object a line; \"-\": to the standard output, "+
		"in place of the tables (default: no file)")
	f.StringVar(&o.report, "report", "", "write the comparison as a page to this `file`, Markdown, with charts in a directory beside it (default: no page)")
	f.StringVar(&o.profile.cpu, "cpuprofile", "", "write a CPU profile of the run to this `file` (default: none)")
	f.StringVar(&o.profile.mem, "memprofile", "", "write a profile of all allocations to this `file` (default: none)")
	return f
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := o.flags(stderr)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, errors.Join(err, o.helpFailed)
	} else if err != nil {
		return o, errUsage
	}
	f.Visit(func(set *flag.Flag) {
		if !slices.Contains(strings.Fields(flagSections[len(flagSections)-1].flags), set.Name) || set.Name == "report" {
			o.args = append(o.args, "--"+set.Name+"="+set.Value.String())
		}
	})
	if o.quick {
		o.beQuick(f)
	}
	if err := cmp.Or(o.choose(f), o.valid(f)); err != nil {
		_, said := fmt.Fprintln(stderr, "bench:", err)
		return o, errors.Join(errUsage, said)
	}
	return o, nil
}

// quickLease is the lease with --quick and --held.
const quickLease = 1500 * time.Millisecond

// beQuick makes everything as short as it can be, but for what was given.
func (o *options) beQuick(f *flag.FlagSet) {
	given := map[string]bool{}
	f.Visit(func(set *flag.Flag) { given[set.Name] = true })
	for name, shorten := range map[string]func(){
		"duration": func() { o.duration = 50 * time.Millisecond },
		"rounds":   func() { o.rounds, o.fewTurns = 2, true },
		"timeout":  func() { o.timeout = 2 * time.Second },
		"holds":    func() { o.holds = cpuFrom },
		"waiters":  func() { o.waiters = 10 * waitersALock },
		"lease":    func() { o.shortLease = true },
	} {
		if !given[name] {
			shorten()
		}
	}
}

func (o *options) valid(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return errors.New("it takes flags only")
	case o.duration <= 0 || o.rounds < 1 || o.timeout < 10*time.Millisecond || o.pool < 1 || o.holds < 1 || o.waiters < 1:
		return errors.New("counts and times must be above zero")
	case o.lease <= o.timeout:
		return errors.New("the lease must be longer than the timeout")
	case o.unknownWorkload() != "":
		return fmt.Errorf("there is no workload %q; there are %s", o.unknownWorkload(), strings.Join(workloadIDs(), ", "))
	}
	return nil
}
