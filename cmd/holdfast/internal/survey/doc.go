// Package survey reads how locks, semaphores and latches stand in Redis, those of
// holdfast and of Redisson: one of a name ([Read]), or all of them ([Scan]). It writes nothing,
// runs no scripts, and takes no lock. The commands that show locks stand on it.
//
// # What is a lock
//
// A hash with owners in its fields is a lock. An integer is a semaphore or a latch only if something
// else speaks for it: permits that are held, somebody who waits, or a key of holdfast's
// beside it. Otherwise it is a [Number], and nobody can say what it is. recognise.go decides that,
// and nothing else does.
//
// # What a snapshot is
//
// A [Lock] is read in four steps, each a pipeline of small commands: what type the key is; its value
// and what stands beside it; the read holds and the clients; who listens. Each command is atomic, and
// those of one step follow each other at once. Between the steps, and between locks, things go on. So
//
//   - the holders, their counts and the time to live are of one step, as are the permits that
//     are available and those that are held, and the line. Another client's script may run between two
//     commands of a step all the same: a sum may be off by what it has done;
//   - a lock that is given back between the first two steps shows as free, or not at all, though
//     the next holder may have it by then;
//   - Waiting and Listeners are a moment younger than the rest, and a guess where said;
//   - At is the time of the first step. On a cluster it is the clock of one node, whichever;
//     a difference between nodes' clocks stands in HeldFor and in permits' times.
//
// It never shows a state that two moments a few round trips apart cannot have made.
//
// # What a scan finds
//
// Scan goes through the keys of each primary with SCAN, once for hashes and once for what stands beside
// locks (and once for strings with All), and never with KEYS. It finds what is there from its beginning to its end at least once, and
// tells of it exactly once (by a hash of 64 bits of the name: of a million locks, two share one with
// a chance of 1 in 37 million). What comes or goes meanwhile, and what a cluster moves
// from node to node, may be missed.
// It asks for the channels on which somebody waits for semaphores and latches, too (PUBSUB CHANNELS).
//
// Memory does not grow with the keys in Redis: a page of 1,000 keys and a batch of 100 locks a node,
// and some 70 bytes for each lock that was found. Nor does it grow with what anybody has written: a name longer than a lock's may be is
// counted and not read, of other texts the beginning is kept, and of many holders and waiters the first ones. But SCAN, HSCAN and
// ZRANGE return texts whole, so the client's connections should be those of connect.Bounded. What grows without one is the reply to PUBSUB CHANNELS,
// by as many channels as clients listen on.
//
// # Rights
//
// A read that Redis refuses for lack of a right is a [*RightError], which names the command. Nothing is left
// out silently. docs/acl.md has the list.
//
// # Names
//
// Names, owners and what clients say of themselves come from Redis and may hold any bytes, control
// characters included. Whoever shows them makes them harmless first. MarshalJSON does so only by JSON's rules, which leave U+009B as it is.
//
// # Goroutines
//
// On a cluster, Scan and Read have one goroutine for each primary while they run, and return when all have
// ended. scan.mu guards what these share, and is held while the caller's functions run.
package survey
