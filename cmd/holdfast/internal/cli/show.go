package cli

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

type showCommand struct { //nolint:recvcheck // kong asks the value for its help and the pointer to run
	Name string `arg:"" type:"name" help:"Name of the lock: the Redis key."`
	JSON bool   `name:"json" help:"Print one JSON object instead. docs/cli.md lists what it has."`
}

// Help is shown by kong below the usage.
func (showCommand) Help() string {
	return `Who holds a lock, since when and for how much longer, and who waits for it:
  holdfast show orders:42

It exits with 66 if there is no such lock, which is so of most kinds when nobody
holds it or waits for it.`
}

// Run is called by kong.
func (c *showCommand) Run(s streams, flags redisFlags) error {
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, _ *connect.Target) error {
		lock, err := survey.Read(ctx, rdb, c.Name)
		if err != nil {
			return unreadable(c.Name, err)
		}
		if c.JSON {
			return printJSON(s.stdout, lock)
		}
		return printLines(s.stdout, present.Details(lock, terminalWidth(s.stdout))...)
	})
}
