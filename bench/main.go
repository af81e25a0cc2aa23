package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// main exits with 64 for bad usage, and with 1 if a run failed, holdfast let two
// into one lock, or a goal was missed by far.
func main() {
	if os.Getenv(memberEnv) != "" {
		memberMain()
		return
	}
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

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	j := &job{options: o, stdout: stdout, progress: stderr}
	if j.records, err = newRecords(o.json, stdout); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.records.close()) }()
	if o.json == toStdout {
		j.stdout = io.Discard
	}
	return withServer(ctx, o.redis, func(addr string) error {
		j.addr = addr
		return o.profile.around(func() error { return j.run(ctx) })
	})
}
