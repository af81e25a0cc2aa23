//go:build unix

package runner

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// listen begins to collect the signals to forward.
//
// SIGHUP and SIGINT stay ignored, here and in the command, if we were started to ignore
// them, as by nohup or a shell with a command in the background. Of others Go does not
// tell: they are forwarded. SIGPIPE is collected, and not looked at, because a
// closed standard error must not end a runner whose command still runs.
func listen() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 64)
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}

// ends reports whether a signal ends a program that does not handle it.
func ends(s os.Signal) bool { return s != syscall.SIGWINCH }

// signalCode is the exit code of a program that a signal has ended.
func signalCode(s os.Signal) int {
	n, _ := s.(syscall.Signal) // every signal of a Unix is one
	return exit.Signal + int(n)
}

// giveBack returns a lock for which a signal leaves no use.
func (r *run) giveBack(s os.Signal) *exit.Error {
	if err := r.hold.Unlock(); err != nil {
		r.sayNotGivenBack(err)
	}
	return exit.Silently(signalCode(s))
}
