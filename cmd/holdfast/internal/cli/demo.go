package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

type demoCommand struct {
	Kind  string `arg:"" optional:"" default:"mutex" enum:"${shows}" help:"What to show, one of those above. The default is ${default}."`
	Plain bool   `help:"Print plain lines also on a terminal. So does a NO_COLOR in the environment, TERM=dumb, and output to a file or pipe."`
}

// demoHelp lists the kinds.
func demoHelp() string {
	var text strings.Builder
	text.WriteString("It shows one of these kinds, in less than 20 seconds:\n")
	for _, show := range demo.Shows {
		fmt.Fprintf(&text, "\n  %-10s %s", show.Name, show.About)
	}
	return text.String()
}

// Run is called by kong.
func (c *demoCommand) Run(s streams, redis redisFlags) error {
	show, _ := demo.Find(c.Kind) // the parser has seen to it that there is one
	if show.Servers != "" {
		redis = redisFlags{}
	}
	cfg, done, err := setting(redis)
	if err != nil {
		return err
	}
	defer done()
	if cfg.Show = show; show.Servers != "" {
		cfg.Server = show.Servers
	}
	ctx, ended, stop := untilSignal()
	defer stop()
	play := func(ctx context.Context, stage demo.Stage) error {
		cfg.Stage = stage
		return demo.Run(ctx, cfg)
	}
	if width, ok := c.livePicture(s); ok {
		err = demo.OnTerminal(ctx, s.stdout.Beneath(), width, play)
	} else {
		err = play(ctx, demo.NewPlain(s.stdout))
	}
	if signalled := ended(); signalled != nil {
		return signalled
	}
	if errors.Is(err, demo.ErrInterrupted) {
		return bySignal(syscall.SIGINT)
	}
	return err
}

// livePicture says whether standard output is a terminal that can show one, and
// how wide it is.
func (c *demoCommand) livePicture(s streams) (width int, ok bool) {
	if c.Plain || plainWanted() {
		return 0, false
	}
	width = terminalWidth(s.stdout)
	return width, width > 0
}

// setting is where the demo plays: on the Redis of the flags, or on a server of
// its own.
func setting(redis redisFlags) (cfg demo.Config, done func(), err error) {
	if redis.Redis != "" {
		if cfg.Target, err = redis.target(); err != nil {
			return cfg, nil, err
		}
		cfg.Server, cfg.Holder = "the Redis at "+cfg.Target.String(), redis.holder(cfg.Target)
		return cfg, func() {}, nil
	}
	server, err := demo.StartServer()
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Target, err = server.Target(); err != nil { // what else the flags say is of another server
		server.Close()
		return cfg, nil, err
	}
	cfg.Server, cfg.Holder = "a Redis server inside this process", redisFlags{Redis: server.URL()}.holder(cfg.Target)
	return cfg, server.Close, nil
}

// holder starts this program once more, to hold a lock and be killed. It gets
// what is secret through its environment.
func (f redisFlags) holder(target *connect.Target) func(ctx context.Context, kind, name string, lease time.Duration) (*demo.Holder, error) {
	return func(ctx context.Context, kind, name string, lease time.Duration) (*demo.Holder, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("this program does not find itself: %w", err)
		}
		args := []string{"demo-holder", kind, name, lease.String()}
		if f.InsecureSkipVerify {
			args = append(args, "--insecure-skip-verify")
		}
		command := exec.CommandContext(ctx, self, args...) //nolint:gosec // it runs itself
		command.Args[0] = "holdfast"
		command.Env = append(withoutConnection(os.Environ()), f.environment(target)...)
		command.Stderr = os.Stderr
		return demo.StartHolder(command)
	}
}

// holderCommand is the process that the demo kills.
type holderCommand struct {
	Kind  string        `arg:"" enum:"mutex,semaphore"`
	Name  string        `arg:""`
	Lease time.Duration `arg:""`
}

// Run is called by kong.
func (c *holderCommand) Run(s streams, redis redisFlags) error {
	target, err := redis.target()
	if err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is for the process that shows the demo
	rdb := target.Client(target.Dial)
	return errors.Join(demo.Hold(context.Background(), rdb, target.ClientOptions(), c.Kind, c.Name, c.Lease, os.Stdin, s.stdout), rdb.Close())
}
