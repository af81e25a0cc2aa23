package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// main exits with 64 for bad usage, and with 1 if a run failed or holdfast let two
// into one lock.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(64)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errUsage is a command line that makes no sense; the flag package has said why.
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
	scripts   bool
	json      string
	only      string
	workloads string
	profile   profile
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.redis, "redis", "", "use the server at this `address`, host:port, instead of one of our own")
	f.DurationVar(&o.duration, "duration", time.Second, "of each cell in each round")
	f.IntVar(&o.rounds, "rounds", 5, "how often each cell is run")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "of one lock and unlock pair")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "of every lock")
	f.IntVar(&o.pool, "pool", 10*runtime.GOMAXPROCS(0), "connections of each go-redis client")
	f.BoolVar(&o.quick, "quick", false, "a smoke run: two rounds of 50ms")
	f.BoolVar(&o.scripts, "scripts", false, "compare the server time of holdfast's scripts with that of Redisson's, and nothing else; "+
		"with --redis, on a server that executes no other scripts meanwhile")
	f.StringVar(&o.json, "json", "", "write the raw figures to this `file`")
	f.StringVar(&o.only, "only", "", "only contenders whose name contains one of these `words`, with commas between")
	f.StringVar(&o.workloads, "workloads", "", "only these `workloads`, with commas between: 1, 64, 256, 64-on-one")
	f.StringVar(&o.profile.cpu, "cpuprofile", "", "write a CPU profile of the run to this `file`")
	f.StringVar(&o.profile.mem, "memprofile", "", "write a profile of all allocations to this `file`")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
	if o.quick {
		o.duration, o.rounds, o.timeout = 50*time.Millisecond, 2, 2*time.Second
	}
	if err := o.fits(f); err != nil {
		_, said := fmt.Fprintln(stderr, "bench:", err)
		return o, errors.Join(errUsage, said)
	}
	if f.NArg() > 0 || o.duration <= 0 || o.rounds < 1 || o.timeout < 10*time.Millisecond || o.lease <= o.timeout || o.pool < 1 {
		const what = "bench: it takes no arguments, and counts and times above zero; the lease must be longer than the timeout\n"
		_, err := io.WriteString(stderr, what)
		return o, errors.Join(errUsage, err)
	}
	return o, nil
}

// fits says which of the flags has no meaning together with --scripts.
func (o options) fits(f *flag.FlagSet) (err error) {
	f.Visit(func(set *flag.Flag) {
		if o.scripts && !slices.Contains([]string{"scripts", "redis", "rounds", "quick", "lease"}, set.Name) {
			err = fmt.Errorf("--%s does not go with --scripts", set.Name)
		}
	})
	return err
}

// plan makes the plan that the options ask for.
func (o options) plan(progress io.Writer) (plan, error) {
	p := plan{
		setup: setup{addr: o.redis, pool: o.pool, lease: o.lease}, rounds: o.rounds,
		window: o.duration, limit: o.timeout, progress: progress,
	}
	for _, c := range contenders() {
		if o.only == "" || slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool {
			return strings.Contains(c.full(), word)
		}) {
			p.contenders = append(p.contenders, c)
		}
	}
	for _, w := range workloads() {
		if o.workloads == "" || slices.Contains(strings.Split(o.workloads, ","), w.id) {
			p.workloads = append(p.workloads, w)
		}
	}
	if len(p.contenders) == 0 || len(p.workloads) == 0 {
		return p, errors.New("nothing is left to run: see --only and --workloads")
	}
	return p, nil
}

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.scripts {
		return o.compareScripts(ctx, stdout, stderr)
	}
	r, err := o.measure(ctx, stderr)
	if err != nil {
		return err
	}
	if err := r.write(stdout); err != nil {
		return err
	}
	if o.json != "" {
		if err := r.save(o.json); err != nil {
			return err
		}
	}
	if names := r.overlapped(); names != nil {
		return fmt.Errorf("two were inside one lock: %s", strings.Join(names, "; "))
	}
	return nil
}

// measure runs the plan, on a server of our own unless there is another.
func (o options) measure(ctx context.Context, stderr io.Writer) (r report, err error) {
	r.plan, err = o.plan(stderr)
	if err != nil {
		return r, err
	}
	if o.redis == "" {
		s, err := startServer(ctx)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		r.plan.setup.addr = s.addr
	}
	if r.facts, err = lookUp(ctx, r.plan.setup.addr); err != nil {
		return r, err
	}
	err = o.profile.around(func() error {
		r.entries, err = r.plan.run(ctx)
		return err
	})
	return r, err
}
