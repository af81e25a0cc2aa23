// Package trials runs the programs of package program in client processes, against real Redis servers, under
// faults, and checks the histories. It has tests alone; README.md says how to run them and what they have found.
//
// # States
//
// A world is one topology of servers, and one proxy for each client's place and each server. It is started once, and runs many
// trials, one after the other, whose locks have names of their own.
//
// A trial goes through these states, in the test's goroutine: drawn (all comes from the seed), running (members
// and faults), healed (every fault is undone, the servers agree again), stopped (members end what they have begun, give
// back what they hold, and exit), checked (their histories are read from files).
//
// A member is a process with a client: it runs, is paused (SIGSTOP, or since the machine does not run it), is
// killed, or exits. One that is killed is followed by another one in the same place, with another number.
//
// # Clock
//
// All moments are of CLOCK_MONOTONIC, which is one for all processes of a machine, less what it was when the trial
// began. Servers' clocks are not asked, but that
// what a server says of itself in class a bears its own: the machine's, since none is set there.
//
// # What is trusted
//
// A hold is trusted until its release is invoked or its context is seen to end, whichever is first, as in the simulation. A process that
// does not run cannot act, and cannot note the end of its context. So each member has a goroutine that looks at
// the clock every few milliseconds and notes when it has not been run for longer; members run on one processor, so
// that then nothing else has run. A lost hold is trusted until its deadline if its process did not run, but for
// [slack], from then until it noted the loss. How many overlaps that takes away is counted: they are the class b fault "the holder stopped past its
// lease", which a loaded machine has on its own. Of a process that is killed the file with the moment of its last
// look is read: its holds are trusted until then.
//
// # Goroutines and processes
//
//   - Servers are processes of redistest, and belong to the world.
//   - Members belong to the trial; redistest has a goroutine that waits for each. They die with the test.
//   - Each place of a member has two goroutines of the trial, one for the faults of its process and one for those of its network; the
//     servers have one, or one each if they know nothing of each other. Each undoes its fault before it begins
//     the next one, and ends when the trial is healed. The trial waits for them.
//   - The store has one goroutine that accepts, which ends when its listener is closed, and one a connection, which
//     ends with the member's process.
//   - In class a each server has a goroutine that notes down what it does, as MONITOR says it, until the members have stopped. The trial
//     waits for it.
//   - In a member: actors as in package program; one that looks at the clock; one that waits for the end of the standard
//     input, which says that the trial is over.
//
// # Locks
//
// trial.mu guards the counts of faults, and what is known of members' processes. place.mu guards the present member
// of a place: a place's faults exclude each other. store.mu guards the tokens, and the detached holds. monitor.mu guards what
// servers have said.
//
// # When calls fail
//
// A fault that cannot be inflicted, or not undone, fails the trial; so does a member that does not exit, or exits
// with an error. A write whose answer is lost has an unknown outcome. A history that cannot be read fails, except
// that the last line of a process that was killed may be cut off.
package trials
