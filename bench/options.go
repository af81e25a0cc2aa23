package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
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
	holds     int
	waiters   int
	json      string
	only      string
	workloads string
	profile   profile

	modes []mode // to run
}

func (o *options) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "a smoke run of the mode that is asked for; of the comparison, --held and --scripts if there is none (default: off)")
	f.BoolVar(&o.held, "held", false, "in place of the comparison: what locks cost while they are held, and while they are waited for (default: off)")
	f.BoolVar(&o.check, "check", false, "in place of the comparison: fail if holdfast is only half as good as a goal says (default: off)")
	f.IntVar(&o.holds, "holds", 100_000, "with --held, the largest `number` of holds")
	f.IntVar(&o.waiters, "waiters", 10_000, "with --held, the largest `number` of waiters, ten for each lock")
	f.BoolVar(&o.scripts, "scripts", false, "in place of the comparison: the server time of holdfast's scripts beside scripts that do what Redisson's do (default: off)")
	f.BoolVar(&o.redisson, "redisson", false, "Redisson itself takes part, in a JVM; needs a JDK and Maven: tools/need-jvm (default: off)")
	f.StringVar(&o.redis, "redis", "", "use the server at this `address`, host:port, on which nothing else may run meanwhile "+
		"(default: start one)")
	f.DurationVar(&o.duration, "duration", time.Second, "the `time` that each contender runs in each round")
	f.IntVar(&o.rounds, "rounds", 5, "the `number` of rounds")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "the longest `time` that one pair of lock and unlock may take")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "the lease of every lock, a `time`")
	f.IntVar(&o.pool, "pool", 10*runtime.GOMAXPROCS(0), "the `number` of connections of each go-redis client")
	f.StringVar(&o.json, "json", "", "write all figures to this `file`, JSON, an object a line; \"-\": to the standard output, "+
		"in place of the tables (default: no file)")
	f.StringVar(&o.only, "only", "", "only contenders whose name contains one of these `words`, with commas between (default: all)")
	f.StringVar(&o.workloads, "workloads", "", "only these `workloads`, with commas between: "+strings.Join(workloadIDs(), ", ")+
		" (default: all; with --quick, no herds above 100)")
	f.StringVar(&o.profile.cpu, "cpuprofile", "", "write a CPU profile of the run to this `file` (default: none)")
	f.StringVar(&o.profile.mem, "memprofile", "", "write a profile of all allocations to this `file` (default: none)")
	return f
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := o.flags(stderr)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
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
		"rounds":   func() { o.rounds = 2 },
		"timeout":  func() { o.timeout = 2 * time.Second },
		"holds":    func() { o.holds = cpuFrom },
		"waiters":  func() { o.waiters = 10 * waitersALock },
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
