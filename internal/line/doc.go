// Package line is where the waiters of one process stand for one lock.
//
// Waiters for a lock form one line, first come, first served. Only its head
// talks to Redis, so a process has one subscription and one outstanding try for
// a lock, however many goroutines wait for it.
//
//	Enter ──▶ in line ──(those before have left)──▶ head ──▶ Leave
//	             └────────────(gives up)────────────────────▶ Leave
//
// What the head has learnt belongs to the line and outlives the head: the
// subscription, the bell, and when to ask again without being rung. So a head
// that leaves can take no wake-up with it: what it has not used is still there
// for the next, and what it has used up without getting an answer it gives back
// ([Place.Ring]).
//
// A try needs the line's token. Whoever abandons a try under way leaves the
// token with it until it is answered or has timed out.
//
// There is no goroutine here: waiters run on their own. Lines.mu guards the map,
// the lines and the places; it is held for a few instructions, never during I/O.
// A line exists while it has places or its token is taken.
package line
