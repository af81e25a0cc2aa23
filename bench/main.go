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

	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// main exits with 64 for bad usage, and with 1 if a run failed, holdfast let two
// into one lock, or a goal was missed by far.
func main() {
	if workloads.Member() {
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
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return places.WithServer(o.redis, func(addr string) error {
		j := &job{options: o, addr: addr, stdout: stdout, progress: stderr}
		return j.run(ctx)
	})
}
