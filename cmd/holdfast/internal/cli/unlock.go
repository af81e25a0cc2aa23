package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

type unlockCommand struct {
	Name  string `arg:"" type:"name" help:"Name of the lock: the Redis key."`
	Force bool   `help:"Needed: it takes the lock away from whoever holds it, and that may still be at work."`
	Yes   bool   `short:"y" help:"Do not ask. Needed where there is no terminal."`
	JSON  bool   `name:"json" help:"Print one JSON object: name, kind, unlocked, and before, which is the lock as show prints it."`
}

const unlockHelp = `It says whom it hits, asks, and takes the lock away; of a semaphore, all permits that are held:
  holdfast unlock --force orders:42

Those who wait are told. A holder of holdfast's learns of it within 100 ms, or at its next renewal
if it has held for less than a second; Redisson does not tell its own. Until then two may believe
that they hold it. It exits with 66 if nobody does.`

// Run is called by kong.
func (c *unlockCommand) Run(s streams, flags redisFlags) error {
	if !c.Force {
		return exit.Because(exit.Usage, "unlock takes a lock away from whoever holds it, so it wants --force: %s", texts[unlockName].usage)
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, _ *connect.Target) error {
		before, err := c.read(ctx, rdb)
		if err != nil {
			return err
		}
		s.sayf("%s", force.Victims(before))
		switch {
		case c.Yes:
		case !term.IsTerminal(os.Stdin.Fd()):
			return exit.Because(exit.Usage, "unlock asks before it takes %q away, and there is no terminal to ask on: --yes (-y) takes it without asking", c.Name)
		default:
			if err := c.ask(ctx, s); err != nil {
				return err
			}
		}
		done, err := force.Unlock(ctx, rdb, before)
		var changed *force.ChangedError
		switch {
		case errors.As(err, &changed):
			return exit.Because(exit.Failed, "%w", err)
		case errors.Is(err, holdfast.ErrUntold):
			s.sayf("%q was taken away, but those who wait for it were not told and find out later: %s", c.Name, unprefixed(err))
		case err != nil:
			return unreadable(c.Name, err)
		case !done:
			return c.nobody()
		}
		if c.JSON {
			return present.JSON(s.stdout, map[string]any{"name": c.Name, "kind": before.Kind, "unlocked": true, "before": before})
		}
		s.sayf("%q was taken away", c.Name)
		return nil
	})
}

func (c *unlockCommand) nobody() error { return exit.Because(exit.NoLock, "nobody holds %q", c.Name) }

// read reads the lock; it is an error if there is nobody to take it from.
func (c *unlockCommand) read(ctx context.Context, rdb redis.UniversalClient) (survey.Lock, error) {
	lock, err := survey.Read(ctx, rdb, c.Name)
	switch {
	case err != nil:
		return lock, unreadable(c.Name, err)
	case lock.Kind == survey.Number:
		return lock, exit.Because(exit.OtherKind, "%q is a number, of which Redis does not say whether it is a lock, so there is nobody to take it from", c.Name)
	case !force.Possible(lock):
		return lock, exit.Because(exit.OtherKind, "%q is a %s: Redis does not say who holds it, so there is nobody to take it from", c.Name, lock.Kind)
	case lock.State != survey.Held:
		return lock, c.nobody()
	}
	return lock, nil
}

// ask returns nil if whoever sits at the terminal agrees.
func (*unlockCommand) ask(ctx context.Context, s streams) error {
	if _, err := fmt.Fprintf(s.stderr, "Take it away? [y/N] "); err != nil {
		return exit.Because(exit.Failed, "the terminal cannot be written: %v", err)
	}
	answer := make(chan string, 1)
	go func() { // ends with the program if nobody answers
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- line
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(s.stderr)
		return ctx.Err()
	case line := <-answer:
		if line = strings.ToLower(strings.TrimSpace(line)); line != "y" && line != "yes" {
			return exit.Because(exit.Failed, "nothing was done")
		}
	}
	return nil
}
