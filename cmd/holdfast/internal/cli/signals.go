package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// untilSignal returns a context that ends with SIGINT or SIGTERM, and what tells by which of them: an error with
// its exit code, nil if it has not ended so. stop gives the signals their own effects again.
func untilSignal() (ctx context.Context, ended func() error, stop func()) {
	untilTerm, stopTerm := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx, stopInt := signal.NotifyContext(untilTerm, os.Interrupt)
	ended = func() error {
		switch {
		case untilTerm.Err() != nil:
			return bySignal(syscall.SIGTERM)
		case ctx.Err() != nil:
			return bySignal(syscall.SIGINT)
		}
		return nil
	}
	return ctx, ended, func() { stopInt(); stopTerm() }
}

// bySignal is the error of a command that a signal has ended.
func bySignal(s syscall.Signal) error { return exit.Silently(exit.Signal + int(s)) }
