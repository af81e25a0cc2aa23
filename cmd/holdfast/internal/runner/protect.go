//go:build unix

package runner

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// glance is how often to check whether the command is frozen, or can have the terminal that it waits for.
const glance = time.Second

// result is what came of the command.
type result struct {
	started   bool
	lost      bool        // the lock was lost while it ran
	stillRuns bool        // a process of its group, which cannot be stopped
	end       string      // how it ended, in words
	failure   *exit.Error // nil if it ended with 0
}

// watch is the command while it runs under the lock.
type watch struct {
	*run
	child *child

	warned   bool      // that the command cannot be stopped
	trusted  time.Time // until when the lock could be trusted when we last looked
	lost     bool
	timedOut bool
	stopping bool
	refused  bool // a signal, by somebody in the command's group
	killAt   time.Time
	kill     *time.Timer
	awaits   bool             // the command is suspended until it can have the terminal
	suspends <-chan os.Signal // Ctrl-Z, while we are in the terminal's foreground group
}

// protect runs the command for as long as the lock is held.
func (r *run) protect() result {
	warned := changesUser(r.path)
	if warned {
		r.warn("may run as another user; if it does, ")
	}
	suspends := make(chan os.Signal, 1)
	signal.Notify(suspends, syscall.SIGTSTP)
	defer signal.Stop(suspends)
	var c *child
	err := execute(r.path, r.Command, func(path string, argv []string) (err error) {
		c, err = start(path, argv, r.environment())
		return err
	})
	if err != nil {
		return result{failure: cannotRun(r.Command[0], err)}
	}
	w := &watch{run: r, child: c, warned: warned, trusted: r.hold.Deadline(), kill: time.NewTimer(time.Hour), suspends: suspends}
	w.kill.Stop()
	defer w.kill.Stop()
	defer c.process.Release() //nolint:errcheck // it only frees memory
	r.happened(event{Event: "started", PID: c.process.Pid})
	r.detailf("the command runs as process %d", c.process.Pid)
	w.untilExit()
	status := c.reap(w.stopping, w.reserve()/2)
	r.interrupted = c.interrupted
	return w.result(status, (w.stopping || w.refused) && c.outOfReach())
}

// warn says that the command cannot be stopped, or may be one that cannot.
func (r *run) warn(because string) {
	r.noticef("the command %q %sholdfast can neither stop it when the %s is lost, nor pass signals on to it; %s", r.Command[0], because, r.what(), remedy)
}

// remedy is what to do about a command that cannot be stopped.
const remedy = "start holdfast itself as that user (sudo holdfast run …)"

// environment is ours, with what the command may want to know of this lock, nothing of one that
// we run under ourselves, and no passwords.
func (r *run) environment() []string {
	own := claim{lock: r.Name, owner: r.hold.Owner().String(), runner: os.Getpid()}
	if r.Kind == Permits {
		own.permit = r.hold.PermitIDs()[0].String()
	}
	if r.Fenced {
		own.token = r.hold.Token()
	}
	return append(r.withoutSecrets(), own.environment()...)
}

// withoutSecrets is our environment without what is said of Redis, unless the command is to have
// that, of the dashboard, and of locks. What else is there is the user's, also if it is a secret.
func (r *run) withoutSecrets() []string {
	ours := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "HOLDFAST_REDIS") || name == "HOLDFAST_DASHBOARD_TOKEN" || slices.Contains(ofLock, name)
	})
	return append(ours, r.Redis...)
}

// untilExit returns when the command has ended.
func (w *watch) untilExit() {
	var limit <-chan time.Time
	if w.MaxRun > 0 {
		timer := time.NewTimer(w.MaxRun)
		defer timer.Stop()
		limit = timer.C
	}
	// The deadline moves with each renewal, three times a lease.
	look := time.NewTicker(max(w.Lease/20, time.Millisecond))
	defer look.Stop()
	glances := time.NewTicker(glance)
	defer glances.Stop()
	lost := w.hold.Context().Done()
	for {
		select {
		case <-w.child.exited:
			return
		case s := <-w.signals:
			w.signal(s.(syscall.Signal)) //nolint:forcetypeassert // every signal of a Unix is one
		case <-w.resized:
			w.child.signal(syscall.SIGWINCH)
		case by := <-w.child.stopped:
			w.suspended(by)
		case <-w.suspends:
			_ = syscall.Kill(0, syscall.SIGCONT) // the other programs of our pipeline, which Ctrl-Z has suspended
			w.notSuspended()
		case <-glances.C:
			w.glance()
		case <-look.C:
			w.look()
		case <-limit:
			w.timedOut = true
			w.stop(*w.Grace)
		case <-lost:
			lost = nil
			w.lose()
		case <-w.kill.C:
			w.signal(syscall.SIGKILL)
		}
	}
}

// look notes until when the lock can be trusted, and whether the command has become another user's.
func (w *watch) look() {
	if deadline := w.hold.Deadline(); !deadline.IsZero() {
		w.trusted = deadline
	}
	if !w.warned && w.child.foreign() {
		w.warned = true
		w.warn("runs as another user, so ")
	}
}

// signal sends a signal to the command, and reports it if it is refused.
func (w *watch) signal(s syscall.Signal) {
	taken := w.child.signal(s)
	if slices.Contains(continuing, s) {
		w.child.goOn()
	}
	if taken {
		return
	}
	w.refused = true
	reason := fmt.Sprintf("signal %d (%v) was refused: the command, or a process that it has started, runs as another user", int(s), s)
	w.happened(event{Event: "refused", Signal: int(s), Reason: reason})
	w.Log("%s; it works on, and holdfast cannot stop it; %s", reason, remedy)
}

// lose does what is to be done when the lock is lost.
func (w *watch) lose() {
	w.lost = true
	switch w.OnLost {
	case Ignore:
	case Kill:
		w.stop(0)
	default:
		w.stop(min(*w.Grace, w.left()-w.reserve()))
	}
	reason := w.reason(context.Cause(w.hold.Context()))
	w.happened(event{Event: "lost", Reason: reason})
	say := w.noticef
	if w.refused { // the run may last for long yet
		say = w.Log
	}
	say("the %s is lost: %s; %s", w.what(), reason, w.fate())
}

// fate describes, for the report of a loss, what happens to the command.
func (w *watch) fate() string {
	switch {
	case !w.stopping:
		return "the command goes on (--on-lost ignore)"
	case w.refused:
		return "the command works on, since holdfast cannot stop it"
	}
	if rest := time.Until(w.killAt); rest > 0 {
		return fmt.Sprintf("the command was sent SIGTERM, and is killed after %v", rest.Round(time.Millisecond))
	}
	return "the command is killed (SIGKILL)"
}

// left is the time until the lock can be somebody else's.
func (w *watch) left() time.Duration {
	w.look() // the host may have been suspended
	return time.Until(w.trusted.Add(w.margin()))
}

// stop ends the command: with SIGTERM, and after the grace with SIGKILL. If it
// is being stopped already, the shorter grace counts.
func (w *watch) stop(grace time.Duration) {
	killAt := time.Now().Add(grace)
	if w.stopping && w.killAt.Before(killAt) {
		return
	}
	if !w.stopping && grace > 0 {
		w.signal(syscall.SIGTERM)
	}
	w.stopping, w.killAt = true, killAt
	w.kill.Reset(max(0, grace))
}

// suspended deals with a command that a signal has suspended.
func (w *watch) suspended(by syscall.Signal) {
	switch {
	case by == syscall.SIGTTIN || by == syscall.SIGTTOU:
		w.giveTerminal()
	case by == syscall.SIGTSTP && w.child.foreground():
		// First it goes on, and then we say so: the signal takes back a Ctrl-Z that
		// has not been delivered yet, and that one would go unanswered.
		w.child.goOn()
		w.notSuspended()
	default:
		w.child.terminal.retake(w.child.process.Pid, true) // Ctrl-C comes to us, then, and we pass it on
		w.noticef("the command has been suspended%s", w.kept())
	}
}

// kept says that the lock is kept while the command is suspended, unless it is lost.
func (w *watch) kept() string {
	if w.lost {
		return ""
	}
	return fmt.Sprintf("; the %s is kept meanwhile", w.what())
}

// notSuspended says that Ctrl-Z has no effect: the lock would be lost, or block the others for as long as the command
// sleeps.
func (w *watch) notSuspended() {
	w.noticef("a command that holds a lock cannot be suspended from the terminal, so it goes on")
}

// giveTerminal gives the terminal to a command that is suspended because it wants to use it. If we do not have the terminal, it
// reports once how the command can get it.
func (w *watch) giveTerminal() {
	if w.child.terminal.give(w.child.process.Pid) {
		w.awaits = false
		w.child.goOn()
		return
	}
	if !w.awaits {
		w.awaits = true
		w.noticef("the command is suspended, because it wants the terminal and holdfast is not in the foreground; bring holdfast there (fg), or end it "+
			"(kill %d) and give the command its input in another way%s", os.Getpid(), w.kept())
	}
}

// glance checks whether the command can have the terminal that it waits for, or is frozen.
func (w *watch) glance() {
	front := w.child.foreground()
	switch {
	case !front && !w.child.terminal.available():
	case w.awaits:
		w.giveTerminal()
	case !w.child.frozen():
	case front:
		w.suspended(syscall.SIGTSTP)
	default: // another process of its group wants to read
		w.giveTerminal()
	}
}

// result puts into words and a code how the command ended.
func (w *watch) result(status syscall.WaitStatus, stillRuns bool) result {
	r := result{started: true, lost: w.lost, stillRuns: stillRuns, end: fmt.Sprintf("the command ended with exit code %d", status.ExitStatus())}
	code := status.ExitStatus()
	if status.Signaled() {
		code = exit.Signal + int(status.Signal())
		r.end = fmt.Sprintf("the command ended by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	w.happened(event{Event: "exited", ExitCode: &code})
	w.detailf("%s", r.end)
	if stillRuns {
		r.end += ", but a process that it has started still runs: it is another user's, and could not be stopped"
	}
	switch {
	case stillRuns:
		r.failure = exit.Because(exit.StillRuns, "%s", r.end)
	case w.timedOut && w.refused:
		r.failure = exit.Because(exit.TimedOut, "the command ran for more than %v, and could not be stopped; %s", w.MaxRun, r.end)
	case w.timedOut:
		r.failure = exit.Because(exit.TimedOut, "the command was stopped because it ran for %v; %s", w.MaxRun, r.end)
	case code != 0:
		r.failure = exit.Silently(code)
	}
	return r
}
