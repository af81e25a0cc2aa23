// Package linear checks histories against models of locks: is there an order of the operations, in which
// each takes effect at one moment between its invocation and its return, that a lock of its kind
// could have gone through? It uses porcupine.
//
// # What is not certain
//
// A hold that was lost, crashed, forced, given back by the end of its client, or whose release was not answered, ends at some moment after
// that, and nobody sees when. So it stands until an operation needs it to be gone, and this operation
// takes effect later than the loss.
//
// An acquire that was not answered may take the lock for some time, in which others are refused, and so may one that
// is given up in the moment in which it gets the lock. It has no other consequence, since nobody works under it. A
// release that was not answered may leave the lock as it was. So a refusal needs no reason while
// one of those may stand (see [history.Unanswered] and [history.Op.Until]).
//
// Which of several lost holds of permits has gone is not followed. So once one was lost, a refusal by that semaphore needs no
// reason any more.
//
// A call on a latch that was not answered takes effect at any moment after its invocation, or after all
// others, which is the same as never.
//
// # What is not checked
//
// Refusals of those who have waited: what they are told was true at the last answer from
// Redis, which may be older than their call. Refusals of those who try while others stand in line for
// a lock, or for permits, or wait to write: they are refused so that the others have their turn, and a lock
// may be granted to one who waits and does not hear of it. So may it be for some time after the wait: who was passed the
// lock inside a process has yet to leave the line.
//
// # Bounds
//
// Each lock is checked by itself. A history is cut where nothing is under way and nobody holds
// the lock, so that a long one is many short ones. A check that takes too long is reported as undecided.
package linear
