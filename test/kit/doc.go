// Package kit has what several packages of tests need. The tests that need a driver are a module of
// their own, so that the root module requires nothing.
//
// # Where a test stands
//
// A test stands in the package of what it needs, and of what it is about.
//
// Under fake time, on the server in memory: these take no time, and compute on one processor.
//
//	hold      one hold: its lease, its loss, its end; what a call that failed has left
//	owner     what one owner may do, nested and in other goroutines; clients, hooks, identities
//	handover  what is handed over, and shared, inside a process
//	line      who waits, in which order, for all kinds but the fair lock
//	fair      the fair lock
//	rw        the read-write lock
//	permits   the semaphores and the latch
//	multi     several locks as one, and the RedLock
//	stress    random programs of one kind
//	scale     a thousand processes
//
// On real servers, in real time:
//
//	servers   every kind on every driver, real faults, other processes
//	topology  clusters, slots that move, replicas, Sentinel, TLS
//	scripts   the scripts of the line, each asked directly; on the server in memory, too
//	rights    what a user of Redis must be allowed, and hostile input
//	neighbours  what a tenant that shares the server can do to others, and a hostile server to its clients
//
// On the text of the repository:
//
//	docs      pages, and the programs in them
//
// Of one module or program:
//
//	gocronlock  that module, on a real server
//	otel        that module, on the server in memory
//	shortway    how much code a free Lock passes through
//
// What the others are for: quickstart is the README's program, fencing has resources that check tokens, and
// pictures is a command that takes the pictures in docs/looks.
//
// # Which helper
//
//   - [Fake] runs a test under fake time, with a [World]; [FakeKinds] does so for each kind of lock, and
//     [FakeNesting] for each kind that nests. [World.Client] makes a client, [World.Do] asks the server.
//   - Most packages have a stage, in stage_test.go: the World, and what is common to their tests. Its heldByOther has another
//     client hold the lock. [World.Must], [World.Unlock] and [World.Lost] check a hold.
//   - [Must], [Fails], [OK], [WantError] and [Took] check a call; [NoError] and [Turn] do so in any goroutine. [Waiting], [Begin]
//     and [Aside] make one beside others, and [Nothing] checks that nothing has come of it.
//   - [Next], [Every], [All] and [Away] make calls fail; [Count] and [Spy] look at them.
//   - [Several] are several servers under one fake time. [World.WaitAs] returns when somebody stands in line, and [TakeTurns] when
//     all who contend have had the lock.
//   - [ForKinds] runs a suite for each kind in real time. A [Platform] is a server as one adapter reaches it, and [Both] are
//     those of both adapters; package redistest starts servers, and has a proxy that loses, delays and swallows.
//   - [Limited] is a server as a user with few rights reaches it.
//
// A helper that one package needs alone stands in that package.
//
// # What a test must not do
//
//   - Pass whatever the code does: break the code once, and watch the test fail.
//   - Sleep until something has happened in real time, or run again until it passes. [WaitFor] asks.
//   - Be parallel under fake time; see package faketime. On real servers a test is parallel.
//   - Leave a key, a subscription or a goroutine behind. Under fake time that fails the test.
//   - Renew a lease of less than 6 s on a real server: a busy machine may stand still for 3 s.
//
// A test of a weak spot has the tag of the spot in its name (S1, L3, ...); docs/internals/weak-spots.md explains them.
package kit
