// Package ledger keeps the account of one owner at one lock: how many holds are handed out,
// how many counts may stand in Redis, and whether the holds can be trusted. It is a state
// machine: what has happened goes in, what is to be done comes out. It has no clock, no
// lock and no I/O; the engine calls it with its own mutex held.
//
// # Sides
//
// An [Account] has one [Side] for each count in Redis: one, or two for a read-write lock,
// whose sides share a key. Three numbers say how a side stands:
//
//	wanted     as many counts as the holds need that are handed out
//	confirmed  counts that Redis certainly had when it answered last
//	possible   counts that may stand in Redis, and never fewer than do stand
//
// # States of a side
//
//	          Granted                     Dropped, others are left
//	  Free ───────────────▶ Held ─────────────────────────────────▶ Surplus
//	   ▲ ▲                  │  ▲                                     │  │
//	   │ │                  │  └────────────── Released ─────────────┘  │
//	   │ │      Dropped the │                        Dropped the last   │
//	   │ │         last     ▼                                           │
//	   │ └─── Released ─── Owed ◀───────────────────────────────────────┘
//	   │                    ▲
//	   │          Dropped the last,
//	   │          Forget while the key may live
//	   │                    │
//	   └── Forget ───────  Lost ◀── Lose ── Held, Surplus
//
//	Free     nothing is handed out, and nothing may stand
//	Held     holds are handed out, and just their counts stand
//	Surplus  holds are handed out, and more counts may stand than they need
//	Owed     nothing is handed out, but counts may stand: they are to be given back
//	Lost     holds are handed out that are not trusted any more, whatever stands
//
// [Side.Stood] says that a late attempt has raised the count: Free becomes Owed, and Held
// becomes Surplus.
//
// # Changes
//
// Redis is asked to go from one count to another, a [Change]. One change is under way for
// an account at a time: who asks for one has the owner's turn. An attempt that was not
// answered stays open: it may have its effect later, until its limit. An open acquire does
// nothing while at least as many counts stand as it sets, so a hold may be handed out
// beside it. An open release would take what is acquired after it. So the turn is free
// again only if [Account.Harmless].
//
// # Leaving
//
// Redis may keep an entry, a reservation or a grant for a waiter that has given up: its side
// is listed. A leave request removes all three, and so it would release a hold of the same
// owner. It is due once the side is Free, and while it is due, Harmless is false.
//
//	          MarkListed             the side is Free
//	Unlisted ────────────▶ Listed ◀──────────────────▶ Leave due
//	   ▲ ▲ ▲               │        or not Free        │    │
//	   │ │ └─ ClearListed ─┘                           │    │ StartLeave, an acquire is open
//	   │ └─── StartLeave, none is open ────────────────┘    ▼
//	   └───── StartLeave, none is open ─────────────────── Left
//
// An open acquire may list its waiter again, however late it runs. So a leave that is sent
// beside one is not the last: the side has Left, and another leave is due at once. It is
// also due if the side is Owed since: what stands was granted to the same waiter. An account
// that is detached does not leave (ClearListed): its hold stands.
//
// # Runs
//
// The holds of a side from one that is not nested to the last are a [Run]. A run is lost as
// a whole. Whoever brings news of an older run is recognised by it.
package ledger
