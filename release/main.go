package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: release pin VERSION
       release check VERSION
       release build VERSION DIR
       release tag VERSION
VERSION is as v1.2.3 or v1.2.3-rc.1.`

var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	command, version, rest := args[0], args[1], args[2:]
	if err := checkVersion(version); err != nil {
		return err
	}
	repo, err := open(ctx, ".")
	if err != nil {
		return err
	}
	switch {
	case command == "pin" && len(rest) == 0:
		return repo.pin(version)
	case command == "check" && len(rest) == 0:
		return repo.check(ctx, version)
	case command == "build" && len(rest) == 1:
		return repo.build(ctx, version, rest[0], targets)
	case command == "tag" && len(rest) == 0:
		return repo.tag(ctx, version)
	}
	return errUsage
}
