package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/watch"
)

// shortestInterval keeps watch from asking without a pause.
const shortestInterval = 100 * time.Millisecond

type watchCommand struct { //nolint:recvcheck // kong asks the value for its help and the pointer to run
	Pattern  string        `arg:"" optional:"" help:"Names to show, as Redis has patterns: * is any text, ? any byte, [a-c] one of a set. Quote it for the shell. The default is all."`
	Kind     []string      `placeholder:"KIND" enum:"${surveyed}" help:"Show only these kinds, with commas between: ${surveyed}."`
	Held     bool          `help:"Show only what somebody holds."`
	Sort     string        `default:"name" enum:"${orders}" placeholder:"BY" help:"Sort by name, held (held longest first), left (ends first) or waiting (most wait first). The default is ${default}; the key s changes it."`
	Interval time.Duration `default:"2s" placeholder:"TIME" help:"Pause between two looks, from 100ms on; it is as long as a look takes if that is longer. The default is ${default}."`
}

// Help is shown by kong below the usage.
func (watchCommand) Help() string {
	return `The locks of orders, as they are, the longest held first:
  holdfast watch --sort held 'orders:*'

Keys: the arrows move, enter shows one lock, u takes it away if you then say y, s sorts, / filters, q
quits. Each look goes through all keys as ls does, so think of the interval where there are many.`
}

// Run is called by kong.
func (c *watchCommand) Run(s streams, flags redisFlags) error {
	if c.Interval < shortestInterval {
		return exit.Because(exit.Usage, "an interval of %v is too short; the least is %v", c.Interval, shortestInterval)
	}
	if terminalWidth(s.stdout) == 0 || !term.IsTerminal(os.Stdin.Fd()) || dumb() {
		return exit.Because(exit.Usage, "watch needs a terminal that it can draw on; otherwise there is holdfast ls, and ls --json")
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, target *connect.Target) error {
		err := watch.Run(ctx, os.Stdin, s.stdout, watch.Config{
			Redis: rdb, Server: target.String(), Interval: c.Interval, Order: present.Order(c.Sort),
			Options: survey.Options{Match: c.Pattern, Kinds: kindsOf(c.Kind), Held: c.Held},
			Explain: func(err error) string { return explain(err, target).Error() },
		})
		if errors.Is(err, watch.ErrInterrupted) {
			return bySignal(syscall.SIGINT)
		}
		return err
	})
}
