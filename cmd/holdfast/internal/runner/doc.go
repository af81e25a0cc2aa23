// Package runner runs a command while a lock is held, and stops it before the
// lock can be somebody else's.
//
// # Time
//
// The key of the lock lives for a lease after each renewal. Counted back from
// its end there are two pieces of time: the reserve, in which a killed command
// is reaped, and before it the grace, between SIGTERM and SIGKILL. Both together
// are the margin of the hold (holdfast.WithMargin). So
//
//	last renewal      deadline: SIGTERM    SIGKILL    reaped   the key expires
//	     |------------------|-----------------|---------·---------|
//	                              grace            reserve
//
// A runner that notices its loss late, because it or the whole machine was
// suspended, has less than the grace left, or nothing: SIGKILL then comes
// earlier, or at once.
//
// # Signals
//
// The command has a separate process group. The runner passes signals on to the whole group. After SIGINT, SIGTERM, SIGHUP and
// SIGQUIT it also sends SIGCONT, because a suspended process acts on SIGKILL only; so it does after the SIGTERM of a stop.
//
// The runner itself is never suspended while its command runs, except by SIGSTOP, because then nobody would renew the
// lock or stop the command at its end.
//
// # The terminal
//
// Only the foreground group of the controlling terminal may read from it. The kernel suspends another group that reads
// (SIGTTIN) or changes the terminal's modes (SIGTTOU). Which group is in front:
//
//	the command, from the start     standard input and output are the terminal: no other program of a pipeline
//	                                shares the terminal with us, and the command may ask whether it is in front
//	ours                            otherwise: the other programs of our group can use the terminal, Ctrl-C
//	                                reaches them and us, and we pass it on
//	the command, from then on       SIGTTIN or SIGTTOU has suspended it while our group was in front, or the
//	                                group of the run around us: it is put in front, and continued
//	another                         we are in the background: the command stays suspended, which is said once. It is put
//	                                in front as soon as our group is (fg), for which glance looks
//
// Our group gets the terminal back when the command has ended, with SIGCONT, since a program of it may have been
// suspended; and when SIGSTOP suspends the command, so that Ctrl-C reaches us. The runner ignores SIGTTIN
// and SIGTTOU from the start of the command on. Nothing here depends on standard input: a program may open /dev/tty.
//
// Ctrl-Z suspends neither the command nor our group: whichever is in front is continued.
//
// A Ctrl-C that ends a command in front would have reached our group without us, so it is sent on to it, and the runner
// ends by SIGINT, too: a shell takes an exit code for a sign that Ctrl-C was handled, and goes on with its script.
//
// Without a controlling terminal none of this happens. If the terminal hangs up, the kernel sends SIGHUP to the group in
// front, and requests to the terminal fail: the command is then treated as one in the background.
//
// # Goroutines
//
// Run works in the goroutine that calls it, the main one, locked to its thread:
// Linux ends the command when the thread that started it ends. Four others help.
// One waits in Lock and is awaited by acquire. One says meanwhile for whom we
// wait, and is awaited there, too. One waits for the command to
// change its state; it ends with the command, which Run always waits for. One, the
// teller, writes to standard error and the status, which may block for ever; Run
// waits for a second for it, and then it ends with the program.
//
// # A run inside a run
//
// A run inside a run of the same name becomes the command (execve), without a hold of its own. It is in the process group of the outer run's
// command then, which the outer run passes signals on to and kills at the end of the lock, so nothing is watched twice. Until then our
// signals are collected; deafen gives them their usual effect back, and one that has come before it is looked for after it.
//
// That there is an outer run is what the environment says, and anybody can set that: a stale file of variables, a script, a customer. So the
// command runs without a hold of its own only if all of this is proven:
//
//	the environment is whole     HOLDFAST_LOCK comes with HOLDFAST_OWNER and HOLDFAST_RUNNER, and each value is one that a run sets, also
//	                             of HOLDFAST_PERMIT and HOLDFAST_TOKEN                  otherwise an error (64), whatever the lock
//	it is about this lock        HOLDFAST_LOCK is our name                              otherwise a hold of our own
//	the outer run lives          HOLDFAST_RUNNER is the process of a run of that name, by its program and its command line
//	                                                                                    otherwise a hold of our own, and a notice
//	it stops us at a loss        it is the parent of the leader of our process group, which has not ended: not after setsid, nor once
//	                             the outer run or its command has ended                 likewise
//	it holds the lock            Redis has the lock, or the permit, under that owner, now; not kept by MinHold after the end of a run;
//	                             in our Redis, database and prefix                      likewise; an error if Redis cannot be asked
//	the hold is its own          the owner is one of holdfast's, whose client says that it is that process on this host, or says nothing
//	                                                                                    likewise
//	it can give what we want     a token for --fenced, which is the last one of the lock; no reader for a writer
//	                                                                                    otherwise an error (64)
//
// A hold of our own is always safe: at worst we wait for the outer run. Off Linux all that is known of HOLDFAST_RUNNER is that such a process
// lives.
package runner
