//go:build unix

package runner

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// ending are the signals that are passed on to the command, and that end a program which does not handle them. SIGWINCH
// is passed on, too, and ends nothing.
var ending = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// continuing lists the ending signals that also continue a suspended command, which would not act on them otherwise. The other
// signals do not: an operator may have suspended the command on purpose.
var continuing = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// listen begins to collect the signals to pass on.
//
// SIGHUP stays ignored, here and in the command, if we were started to ignore it, as by nohup.
// SIGINT does not: a script's shell starts each background command with SIGINT ignored, unasked, and
// a user who sends SIGINT wants the run to end. SIGPIPE is collected and ignored, because a
// closed standard error must not end a runner whose command still runs.
func listen() (signals, resized <-chan os.Signal, stop func()) {
	c, winch, pipe := make(chan os.Signal, 64), make(chan os.Signal, 1), make(chan os.Signal, 1)
	for _, s := range ending {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	if !signal.Ignored(syscall.SIGWINCH) {
		signal.Notify(winch, syscall.SIGWINCH)
	}
	signal.Notify(pipe, syscall.SIGPIPE)
	return c, winch, func() {
		signal.Stop(c)
		signal.Stop(winch)
		signal.Stop(pipe)
	}
}

// endedBy is the exit of a program that a signal has ended.
func endedBy(s os.Signal) *exit.Error {
	n, _ := s.(syscall.Signal) // every signal of a Unix is one
	return exit.Silently(exit.Signal + int(n))
}

// dieInterrupted ends the program by SIGINT, as Ctrl-C does, so that a shell ends the loop or script in which it is: an exit code
// would tell it that Ctrl-C was handled. It returns only if SIGINT is ignored.
func dieInterrupted() {
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
}

// giveBack returns a lock for which a signal leaves no use.
func (r *run) giveBack(s os.Signal) *exit.Error {
	if err := r.hold.Unlock(); err != nil {
		r.sayNotGivenBack(err)
	}
	return endedBy(s)
}

// ended is a signal that has come and ends us, or nil.
func (r *run) ended() os.Signal {
	select {
	case s := <-r.signals:
		return s
	default:
		return nil
	}
}
