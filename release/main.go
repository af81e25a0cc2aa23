package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var errUsage = errors.New(`usage: release pin|check VERSION
       release make|build|image|verify VERSION DIR
VERSION is written as v1.2.3 or v1.2.3-rc.1`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

// directories maps each command to the number of its arguments after the version.
var directories = map[string]int{"pin": 0, "check": 0, "make": 1, "build": 1, "image": 1, "verify": 1}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	command, version, rest := args[0], args[1], args[2:]
	if n, ok := directories[command]; !ok || len(rest) != n {
		return errUsage
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	repo, err := open(ctx, ".")
	if err != nil {
		return err
	}
	key := os.Getenv("RELEASE_KEY")
	switch command {
	case "pin":
		return repo.pin(version)
	case "check":
		return repo.check(ctx, version, key)
	case "make":
		return repo.make(ctx, version, rest[0], key, targets)
	case "build":
		return repo.build(ctx, version, rest[0], targets)
	case "image":
		return repo.build(ctx, version, rest[0], systems([]string{linux}, archs))
	default:
		return repo.verify(ctx, version, rest[0])
	}
}
