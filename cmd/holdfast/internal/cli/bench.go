package cli

import (
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
)

type benchCommand struct {
	Kind            string        `default:"mutex" enum:"${benched}" placeholder:"KIND" help:"Kind of the locks: ${benched}. The default is ${default}."`
	Goroutines      int           `default:"64" placeholder:"N" help:"How many goroutines lock and unlock, all on one client: 1 to 100,000. The default is ${default}."`
	Locks           int           `default:"1" placeholder:"N" help:"How many locks they are divided among: 1 to the number of goroutines. The default is ${default}: all of them want the same."`
	Hold            time.Duration `default:"0s" placeholder:"TIME" help:"How long each holds the lock before it unlocks: 0s to 24h. The default is ${default}."`
	Duration        time.Duration `default:"10s" placeholder:"TIME" help:"How long to measure, each time: 1ms to 24h. The default is ${default}. Ctrl-C ends it early."`
	Lease           time.Duration `default:"30s" placeholder:"TIME" help:"The lease of each lock, 100ms to 24h: how long it would stay if this program were killed. The default is ${default}."`
	WithoutHandOver bool          `help:"Have each pair go through Redis. By default an unlock passes a mutex on to the next goroutine that waits, for a millisecond or a few until other processes have their turn, and goroutines that read share one hold."`
	Prefix          string        `default:"holdfast-bench" placeholder:"TEXT" help:"What the names of the locks begin with; a random word follows. The default is ${default}."`
	JSON            bool          `name:"json" help:"Print one JSON object instead, with times in nanoseconds."`
}

const benchHelp = `It loads the server, so think before you run it where others work. The locks have names of
their own, and nothing is left behind.

64 goroutines that want one lock, or one each:
  holdfast bench
  holdfast bench --locks 64

If goroutines of this process can hand a lock over, or share a read hold, it measures twice: with
that, and with every pair through Redis, as between processes. The second alone:
  holdfast bench --without-hand-over

As much as one goroutine can do alone:
  holdfast bench --goroutines 1 --duration 3s`

// Run is called by kong.
func (c *benchCommand) Run(s streams, redis redisFlags) error {
	target, err := redis.target()
	if err != nil {
		return err
	}
	ctx, ended, stop := untilSignal()
	defer stop()
	config := bench.Config{
		Target: target, Kind: bench.Kind(c.Kind), Goroutines: c.Goroutines, Locks: c.Locks,
		Duration: c.Duration, Hold: c.Hold, Lease: c.Lease, Prefix: c.Prefix,
		WithoutHandOver: c.WithoutHandOver,
	}
	wipe := func() {}
	if canRedraw(s.stderr) {
		config.Progress, wipe = progress(s.stderr, c.Duration)
	}
	result, err := bench.Run(ctx, config)
	wipe()
	if result != nil {
		err = errors.Join(err, c.print(s, result))
	}
	if err != nil {
		return err
	}
	return ended()
}

func (c *benchCommand) print(s streams, result *bench.Result) error {
	if !c.JSON {
		return result.Print(s.stdout, terminalWidth(s.stdout))
	}
	return present.JSONLines(s.stdout, result)
}

// progress draws a bar on a terminal until wipe is called.
func progress(out *printer.Printer, all time.Duration) (tell func(time.Duration, int64), wipe func()) {
	shown := bar{out: out}
	tell = func(elapsed time.Duration, pairs int64) {
		label := strconv.FormatInt(pairs, 10) + " pairs, " + (all - elapsed).Round(time.Second).String() + " left"
		shown.draw(label, elapsed.Milliseconds(), all.Milliseconds())
	}
	return tell, shown.wipe
}
