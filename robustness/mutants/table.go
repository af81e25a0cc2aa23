package main

// The dirs of tests.
const (
	watchdog  = "internal/watchdog"
	inMemory  = "test"
	simulated = "robustness"
)

// mutants are all, by what they break.
//
//nolint:goconst // a function has several
var mutants = []mutant{
	// Renewal, and trust.
	{
		name: "renewal: goes on after unlock", in: "endWatch", suite: simulation("mutex", "-class", "a"),
		old: "watch.Remove(s.entry)",
		new: "watch.Deadline(s.entry) > 0",
	},
	{
		name: "renewal: not repeated after an error", in: "Watchdog.answered", suite: tests(watchdog, "TestTransientErrorsAreBorne"),
		old: "mono.Of(now).Add(pause(e.Lease))",
		new: "0",
	},
	{
		name: "renewal: a full batch forgets the next one", in: "look", suite: tests(watchdog, "TestMoreThanABatch"),
		old: "members[n:]",
		new: "members[min(n+1, len(members)):]",
	},
	{
		name: "renewal: a short lease hurries long ones", in: "collect", suite: tests(watchdog, "TestShortLeasesDoNotHurryLongOnes"),
		old: "uint64(d.patience(e))",
		new: "0",
	},
	{
		name: "renewal: sent too late", in: "plan", suite: tests(watchdog, "TestRenewsAtAThirdOfTheLease"),
		old: "e.Lease / 3",
		new: "e.Lease * 2 / 3",
	},
	{
		name: "renewal: asks for half of the lease", in: "ttl", suite: tests(watchdog, "TestMoreThanABatch"),
		old: "e.Lease",
		new: "e.Lease / 2",
	},
	{
		name: "renewal: who does not hold the lock is renewed", in: "sendTogether", suite: tests(inMemory, "TestDeletedKeyIsNoticedAtTheNextRenewal"),
		old: "count > 0",
		new: "count >= 0",
	},
	{
		name: "renewal: shortens what was promised", in: "common.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('PTTL', key) < tonumber(ttl)",
		new: "tonumber(ttl) > 0",
	},
	{
		name: "renewal: leaves out the reads of a reader", in: "read_renew.lua", suite: simulation("readwrite", "-class", "a"),
		old: "keep_reads(key, prefix, owner, count, count, ttl)", //nolint:dupword // it is so
		new: "",
	},
	{
		name: "renewal: permits are not renewed", in: "permits_renew.lua", suite: simulation("semaphore", "-class", "a"),
		old: "'ZADD', key,",
		new: "'ZADD', key, 'NX',",
	},
	{
		name: "renewal: late ones have an effect", in: "frame.lua", suite: tests(inMemory, "TestLateRenewalsDoNotOutliveTrust"),
		old: "at - ARGV[1] > 0",
		new: "at - ARGV[1] > 3600000",
	},
	{
		name: "trust: counts from the receipt", in: "granted", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "watch(h, res.Sent)",
		new: "watch(h, now)",
	},
	{
		name: "trust: a renewal counts from its receipt", in: "Watchdog.answered", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "raise(e, sent,",
		new: "raise(e, time.Now(),",
	},
	{
		name: "trust: moved by a renewal without an answer", in: "Watchdog.answered", suite: tests(watchdog, "TestUnansweredRenewalsEndAtTheDeadline"),
		old: "== Unknown:",
		new: "== Unknown: d.raise(e, sent, now, m.ttl)",
	},
	{
		name: "trust: a late answer lifts the semaphore's end", in: "learnEnd", suite: tests(inMemory, "TestLateAnswersDoNotMoveTheEnd"),
		old: "mono.Of(sent) < s.endsKnownAt",
		new: "false",
	},
	{
		name: "trust: ignores that the host was suspended", in: "awake", suite: tests(watchdog, "TestSuspendedHostLosesItsHolds"),
		old: "suspended > jump",
		new: "suspended > time.Hour",
	},
	{
		name: "trust: an answer that comes too late", in: "untrusted", suite: tests(inMemory, "TestLeaseShorterThanTheWay"),
		old: "deadline <= mono.Of(now)",
		new: "deadline < 0",
	},
	{
		name: "trust: a nested hold begins the time of WithMaxHold anew", in: "acquisition.watch", suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "s.maxHoldEnd.IsZero() && ",
		new: "",
	},
	{
		name: "trust: a nested hold is trusted beyond WithMaxHold", in: "Watch", suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "d.reach(e, sent",
		new: "d.Trust(sent",
	},
	{
		name: "trust: a nested hold is handed out when WithMaxHold is over", in: "untrusted", suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "!a.state.maxHoldEnd.IsZero()",
		new: "false",
	},
	{
		name: "trust: beyond WithMaxHold", in: "ttl", suite: tests(watchdog, "TestUntilBoundsRenewal"),
		old: "min(ttl,",
		new: "max(ttl,",
	},

	// Acquiring, and cleaning up.
	{
		name: "acquire: the limit is ignored", in: "frame.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "ARGV[1] ~= '0'",
		new: "ARGV[1] == 'never'",
	},
	{
		name: "acquire: an increment in place of a state", in: "mutex_acquire.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "'HSET', KEYS[1], ARGV[5], ARGV[7]",
		new: "'HINCRBY', KEYS[1], ARGV[5], 1",
	},
	{
		name: "acquire: an unknown one is not cleaned up", in: "acquisition.conclude", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "unknown: a.unknown, stood: ch.to, ",
		new: "",
	},
	{
		name: "acquire: an earlier one comes behind a later release", in: "clear", suite: tests(inMemory, "TestAttemptBehindALaterRelease"),
		old: "a.outlastEarlier()",
		new: "error(nil)",
	},
	{
		name: "acquire: cleaned up once, and not after the limit", in: "reconcileInBackground", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "!asked.Before(end)",
		new: "!asked.Before(end) || ran",
	},
	{
		name: "acquire: the attempts before the granted one are forgotten", in: "granted", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "deferCleanup(cleanup{unknown: a.unknown, ",
		new: "deferCleanup(cleanup{",
	},
	{
		name: "acquire: a waiter forgets its unanswered attempts", in: "queued.refused", suite: tests(inMemory, "TestRefusedWaiterRemembersItsSends"),
		old: "Before(res.Sent)",
		new: "After(time.Time{})",
	},
	{
		name: "acquire: a limit is over too early", in: "Clock.Expiry", suite: tests("internal/servertime", "TestDoubt"),
		old: " + r.doubt + Slack",
		new: "",
	},
	{
		name: "acquire: cancelled, and nobody gives it back", in: "Caller.once", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "res.Unknown = []*Attempt{a}",
		new: "",
	},
	{
		name: "acquire: replicas are not counted", in: "untrusted", suite: tests(inMemory, "TestReplicaAck"),
		old: "a.client.config.replicas",
		new: "0",
	},
	{
		name: "acquire: an overwritten key is taken for free", in: "mutex_acquire.lua", suite: tests(inMemory, "TestOtherKindOfLock"),
		old: "foreign(holders[1], holders[2])",
		new: "holders[9]",
	},

	// Release.
	{
		name: "release: announces nothing", in: "common.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.pcall(ARGV[3], ARGV[2], ARGV[4])",
		new: "0",
	},
	{
		name: "release: a partial one frees the lock", in: "mutex_release.lua", suite: simulation("mutex", "-class", "a"),
		old: "to > 0",
		new: "to > 9",
	},
	{
		name: "release: frees another's lock", in: "mutex_release.lua", suite: simulation("mutex", "-class", "a"),
		old: "count == '0'",
		new: "count == 'never'",
	},
	{
		name: "release: an unanswered one is not repeated", in: "giveBack", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "cleanup{unknown: res.Unknown, release: true}",
		new: "cleanup{}",
	},
	{
		name: "release: one that was not sent may have been carried out", in: "ownerState.released", suite: tests(inMemory, "TestUnlockBehindAReleaseThatWasNotSent"),
		old: "if len(res.Unknown) > 0",
		new: "if res.Err != nil",
	},
	{
		name: "release: repeated for too short a time", in: "releaseSurplus", suite: tests(inMemory, "TestReleaseIsRepeatedForTheWholeLease"),
		old: "s.keyGoneBy()",
		new: "mono.Now()",
	},
	{
		name: "release: the owner's turn is not given back", in: "reconcile", suite: simulation("mutex", "-class", "a"),
		old: "s.freeChangeSem()\n\t\treturn",
		new: "return",
	},
	{
		name: "release: MinHold keeps nobody out", in: "ownerState.release", suite: tests(inMemory, "TestMinHoldEnds"),
		old: "rest > 0",
		new: "rest < 0",
	},
	{
		name: "release: Close keeps what is held", in: "evict", suite: tests(inMemory, "TestCloseEndsEverything"),
		old: "s.releaseLater()",
		new: "",
	},

	// Reentrancy, and owners.
	{
		name: "owner: a former holder re-enters", in: "ownerIn", suite: simulation("mutex", "-class", "a"),
		old: "errors.Is(err, ErrLost) {\n\t\t\treturn claim{owner: held.owner, hold: held.hold, lost: err",
		new: "!errors.Is(err, nil) {\n\t\t\treturn claim{owner: held.owner, fresh: true",
	},
	{
		name: "owner: NonReentrant nests", in: "acquisition.run", suite: tests(inMemory, "TestMutexOptions"),
		old: "ch.to > 1",
		new: "ch.to > 2",
	},
	{
		name: "owner: a hold's context is of all locks", in: "heldContext.Value", suite: tests(inMemory, "TestHoldsContextIsOfOneLock"),
		old: "lock.sameLock(c.kind)",
		new: "lock.client == c.kind.client",
	},
	{
		name: "owner: an inner unlock gives back all", in: "surplus", suite: simulation("mutex", "-class", "a"),
		old: "to: needed, confirmed: s.confirmed",
		new: "to: 0",
	},
	{
		name: "owner: nested in nothing", in: "mutex_acquire.lua", suite: tests(inMemory, "TestNestedIntoNothingIsLost"),
		old: "elseif count ~= ARGV[7]",
		new: "elseif count == 'never'",
	},
	{
		name: "owner: an undisclosed one is used by whoever read it", in: "claimed", suite: tests(inMemory, "TestHandOverLeaving"),
		old: "!s.undisclosed",
		new: "true",
	},

	// Fencing tokens.
	{
		name: "token: follows the clock alone", in: "common.lua", suite: simulation("fenced", "-class", "b"),
		old: "math.max(last + 1, us)",
		new: "us",
	},
	{
		name: "token: only counts", in: "common.lua", suite: simulation("fenced", "-class", "b", "-faults", "lose data"),
		old: "math.max(last + 1, us)",
		new: "last + 1",
	},
	{
		name: "token: a nested hold takes one of its own", in: "wantsToken", suite: simulation("fenced", "-class", "a"),
		old: " && !a.state.hasToken()",
		new: "",
	},
	{
		name: "token: an adopted hold has none", in: "mutex_adopt.lua", suite: simulation("fenced", "-class", "a"),
		old: "if KEYS[2]",
		new: "if KEYS[3]",
	},
	{
		name: "token: that of the run of holds before", in: "granted", suite: simulation("fair", "-class", "a"),
		old: "a.kind.permitIDs == nil && (ch.from == 0 || err == nil && token > 0)",
		new: "err != nil && token > 0",
	},

	// Read-write locks.
	{
		name: "read-write: a read hold counts twice", in: "read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "count, to, lease",
		new: "count, to + 1, lease",
	},
	{
		name: "read-write: a reader beside the writer", in: "read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "count == 0 and not",
		new: "count == 0 and mode ~= 'write' and not",
	},
	{
		name: "read-write: a writer beside readers", in: "write_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "reader) > 0",
		new: "reader) > 9",
	},
	{
		name: "read-write: readers starve a writer", in: "write_acquire.lua", suite: tests(inMemory, "TestL15_WritersFirst"),
		old: "ARGV[9] ~= '0'",
		new: "ARGV[9] == 'never'",
	},
	{
		name: "read-write: the last reader wakes nobody", in: "read_release.lua", suite: tests(inMemory, "TestReadLockAfterTheLongestReader"),
		old: "not seen or lives - longest > 1000",
		new: "ARGV[6] == 'never'",
	},
	{
		name: "read-write: a reader that leaves ends the others' lock", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "longest == 0",
		new: "longest >= 0",
	},
	{
		name: "read-write: dead readers keep writers out", in: "rw.lua", suite: tests(inMemory, "TestP6_CrashedReadersAreDropped"),
		old: "count = 0\n",
		new: "ttl = 1\n",
	},
	{
		name: "read-write: a lost writer stays beside its longer read", in: "ownerState.forget", suite: simulation("readwrite", "-class", "a"),
		old: "mono.Now() < s.otherEnd",
		new: "false",
	},
	{
		name: "read-write: a writer that Redis does not take back is left beside its read", in: "reconcile", suite: tests(inMemory, "TestRefusedReleaseBesideARead"),
		old: "s.standsBesideOtherSide()",
		new: "false",
	},
	{
		name: "read-write: a late answer ends the owner's next hold", in: "loseWrites", suite: tests(inMemory, "TestLateAnswerAboutAnEarlierWrite"),
		old: "writes.Value.lose(a.writes,",
		new: "state.onOtherSide().lose(nil,",
	},
	{
		name: "read-write: a second read is nested in nothing", in: "read_acquire.lua", suite: tests(inMemory, "TestReadNestedInALostWrite"),
		old: "ARGV[9] and count ~= to",
		new: "ARGV[9] and count == 0",
	},
	{
		name: "read-write: a downgrade that is answered too late loses the write hold", in: "notDowngraded", suite: tests(inMemory, "TestDowngradeAnsweredTooLate"),
		old: "errors.Is(err, ErrLost)",
		new: "false",
	},
	{
		name: "owner: Lock asks anew while an attempt is on its way", in: "anew", suite: tests(inMemory, "TestLateAttemptBehindAnExpiredHold"),
		old: "a.outlastEarlier()",
		new: "error(nil)",
	},
	{
		name: "owner: Shutdown does not end a Lock that asks anew", in: "bindToShutdown", suite: tests(inMemory, "TestShutdownEndsALockThatAskedAnew"),
		old: "a.shutdown != shutdown",
		new: "a.shutdown == nil",
	},
	{
		name: "owner: a Lock that asks anew waits before it looks at Shutdown", in: "anew", suite: tests(inMemory, "TestShutdownBeforeALockOutlastsItsAttempts"),
		old: "a.bindToShutdown()",
		new: "error(nil)",
	},
	{
		name: "read-write: Shutdown does not end a read whose write has ended", in: "changed", suite: tests(inMemory, "TestShutdownEndsAReadWhoseWriteEnded"),
		old: "err = a.bindToShutdown()",
		new: "a.writes, a.writesEnd = a.writesIn()",
	},
	{
		name: "owner: a lost write is told as a closed client", in: "changed", suite: tests(inMemory, "TestReadWhoseWriteIsLostDuringShutdown"),
		old: "a.loseWrites()",
		new: "cmp.Or(a.loseWrites(), a.bindToShutdown())",
	},
	{
		name: "owner: Shutdown ends a Lock that has something to nest in by now", in: "acquisition.takeChangeSem", suite: tests(inMemory, "TestShutdownLetsTheOwnersNextLockNest"),
		old: "case <-draining:\n\t\tcase <-again:\n\t\tcase <-ctx.Done():\n\t\t\tif a.caller.Err() != nil || a.shutdown.Err() == nil",
		new: "case <-again:\n\t\tcase <-ctx.Done():\n\t\t\tif _ = draining; true",
	},
	{
		name: "acquire: one attempt more during Shutdown", in: "acquisition.bound", suite: tests(inMemory, "TestShutdownBeforeTheNextAttempt"),
		old: "a.shutdown.Err() != nil",
		new: "false",
	},
	{
		name: "errors: what another call came to is taken for this one's", in: "timeIsUp", suite: tests(inMemory, "TestAContextEndsWithAnotherCallsError"),
		old: "isOwnBound(context.Cause(ctx))",
		new: "errors.Is(context.Cause(ctx), call.ErrNoAnswer)",
	},
	{
		name: "errors: a client's own error is taken for the end of another's time", in: "forUser", suite: tests(inMemory, "TestAContextEndsWithAnotherCallsError"),
		old: "isOwnBound(err)",
		new: "false",
	},
	{
		name: "calls: another client's end is taken for this one's", in: "mayHaveRun", suite: tests("internal/call", "TestADriversErrorThatWrapsErrClosed"),
		old: "err == nil",
		new: "err == nil || errors.Is(err, ErrClosed)",
	},
	{
		name: "owner: a Lock that waits for its turn during Shutdown is not ended with what it was to be nested in", in: "acquisition.takeChangeSem", suite: tests(inMemory, "TestShutdownEndsALockThatHasNothingToNestInAnyMore"),
		old: "draining, again = nil, time.After(recheckNesting)",
		new: "draining = nil",
	},
	{
		name: "owner: Shutdown lets a Lock nest in what is lost", in: "bindToShutdown", suite: tests(inMemory, "TestShutdownEndsALockThatHasNothingToNestInAnyMore"),
		old: "a.state.live() > 0",
		new: "a.state.hasHolds()",
	},
	{
		name: "owner: a TryLock that begins anew has a time of its own", in: "askBriefly", suite: tests(inMemory, "TestTryLockThatBeginsAnewInTime"),
		old: "a.timeLimit()",
		new: "a.config.wait",
	},
	{
		name: "errors: one who waits for its owner's turn says that Redis is silent", in: "acquisition.takeChangeSem", suite: tests(inMemory, "TestErrorBehindAnEarlierCallOfTheOwner"),
		old: "a.last = a.state.busyError()",
		new: "",
	},
	{
		name: "multi-lock: with its first client closed, the caller gives the parts back", in: "rollback", suite: tests(inMemory, "TestMultiLockWhoseFirstClientIsClosed"),
		old: "c.goUncounted(",
		new: "c.firstClient.tasks.GoUncounted(",
	},
	{
		name: "downgrade: the end of its context is taken for that of the hold", in: "notDowngraded", suite: tests(inMemory, "TestDowngradeUnderAContextThatHasEnded"),
		old: "outer.Err() != nil",
		new: "false",
	},
	{
		name: "downgrade: WithMaxHold begins anew", in: "fitLease", suite: tests(inMemory, "TestDowngradeKeepsToMaxHold"),
		old: "= a.writesEnd",
		new: "= 0",
	},
	{
		name: "read-write: a write hold that has ended bounds a read that is nested in nothing", in: "fitLease", suite: tests(inMemory, "TestReadAfterTheWriteHoldEnded"),
		old: "ch.from == 0",
		new: "ch.from == 0 && !a.writesEnd.IsZero()",
	},
	{
		name: "multi-lock: a part is refused for what WithMaxHold leaves", in: "tryPart", suite: tests(inMemory, "TestMultiLockOfBothSidesWithMaxHold"),
		old: "cuts = true",
		new: "cuts = false",
	},
	{
		name: "downgrade: a fixed lease is refused for what WithMaxHold leaves", in: "Downgrade", suite: tests(inMemory, "TestDowngradeOfAFixedLeaseThatHasToWait"),
		old: "cuts: true",
		new: "cuts: false",
	},
	{
		name: "errors: a renewal without an answer is told as the caller's deadline", in: "holdfast.New", suite: tests(inMemory, "TestALossIsNotTheCallersDeadline"),
		old: "Silence: call.ErrNoAnswer, ",
		new: "",
	},
	{
		name: "owner: a Lock that asks anew is trusted as briefly as the hold before", in: "fitLease", suite: tests(inMemory, "TestLeaseOfALockThatAskedAnew"),
		old: "a.lease = a.wantedLease()",
		new: "",
	},
	{
		name: "owner: the next hold hides from Unlock that the lock was taken", in: "lostBefore", suite: tests(inMemory, "TestUnlockOfWhatWasTakenBesideTheNextHold"),
		old: "left.run.taken",
		new: "s.run.taken",
	},
	{
		name: "read-write: each refused release is tried again by itself", in: "releaseAgain", suite: tests(inMemory, "TestOneReleaseAgain"),
		old: "begun ||",
		new: "begun && false ||",
	},
	{
		name: "owner: Unlock of what was taken says nothing", in: "ownerState.released", suite: tests(inMemory, "TestUnlockOfWhatWasTaken"),
		old: "ch.confirmed == 0",
		new: "ch.confirmed >= 0",
	},
	{
		name: "read-write: the last of those who share gives nothing back", in: "leaveShared", suite: simulation("readwrite", "-class", "a"),
		old: "s.sharers() < 2",
		new: "s.sharers() < 1",
	},
	{
		name: "read-write: readers join for ever", in: "acquisition.join", suite: tests(inMemory, "TestWritersFirst_ReadersWhoShare"),
		old: ", now > open.until",
		new: "",
	},

	// Fair locks.
	{
		name: "fair: a cancelled waiter stays in line", in: "leaving", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "a.kind.requests.Leave(a.state.owner.String())",
		new: "script.Request{}",
	},
	{
		name: "fair: the next in line is not told", in: "fair_release.lua", suite: simulation("fair", "-class", "a"),
		old: "tell(head, ARGV[4])",
		new: "",
	},
	{
		name: "fair: who leaves does not tell the next", in: "fair_leave.lua", suite: tests(inMemory, "TestL5_WhoLeavesPassesTheMessageOn"),
		old: "\n    tell(head, ARGV[4])",
		new: "\n",
	},

	// Semaphores.
	{
		name: "permits: given back twice", in: "permits_release.lua", suite: simulation("semaphore", "-class", "a"),
		old: "KEYS[1], '1'",
		new: "KEYS[1], '2'",
	},
	{
		name: "permits: one more than there are", in: "permits_acquire.lua", suite: simulation("semaphore", "-class", "a"),
		old: "free - missing <",
		new: "free - missing + 1 <",
	},
	{
		name: "permits: who wants more than there are blocks all", in: "permits_acquire.lua", suite: tests(inMemory, "TestImpossibleNumberBlocksNobody"),
		old: " and n <= free + held",
		new: "",
	},

	// Latches.
	{
		name: "latch: a count down that found zero is forgotten", in: "latch_down.lua", suite: simulation("latch", "-class", "a"),
		old: "remember(KEYS[2], ARGV[4], ARGV[5])",
		new: "if count > 0 then remember(KEYS[2], ARGV[4], ARGV[5]) end",
	},

	// The hand-over inside a process.
	{
		name: "hand-over: the giver's context goes on", in: "passOn", suite: tests(inMemory, "TestHandOver"),
		old: "h.cancel(nil)",
		new: "",
	},

	// Calls that leave together.
	{
		name: "gathering: an outcome that comes late is not told", in: "Call.End", suite: tests("driver/driverkit", "TestGivenUp"),
		old: "late != nil",
		new: "late != nil && err != nil",
	},
	{
		name: "gathering: a withdrawn call is sent", in: "Group.withdraw", suite: tests("driver/driverkit", "TestGivenUp", "TestQueuedBehindSilence"),
		old: "g.queue.Remove(&c.place)",
		new: "",
	},
	{
		name: "gathering: a call that was sent counts as unsent", in: "Group.await", suite: tests("driver/driverkit", "TestGivenUp"),
		old: "ctx.Err(), false",
		new: "ctx.Err(), true",
	},
	{
		name: "gathering: one reply for two calls", in: "Group.await", suite: tests("driver/driverkit", "TestLeftIsNotReused"),
		old: "err :=",
		new: "g.unused.Put(c); err :=",
	},

	// Waiting.
	{
		name: "waiting: a resubscription wakes nobody", in: "Hub.deliver", suite: simulation("mutex"),
		old: "s.confirmed = s",
		new: "if s.confirmed && e.Kind == driver.Subscribed { return }; s.confirmed = s",
	},
	{
		name: "waiting: who leaves wakes nobody", in: "Waiter.Leave", suite: simulation("mutex"),
		old: "q.promote()",
		new: "",
	},
	{
		name: "waiting: for messages alone", in: "longestSleep", suite: tests(inMemory, "TestL1_LostMessageCostsLittle"),
		old: "3 * time.Second",
		new: "time.Hour",
	},
	{
		name: "waiting: longer than the key lasts", in: "queued.refused", suite: tests(inMemory, "TestWaitsNoLongerThanTheKeyLasts"),
		old: "min(sleep, retry)",
		new: "max(sleep, 0)",
	},
	{
		name: "waiting: a whole crowd asks at once", in: "crowded", suite: tests(inMemory, "TestCrowd", "TestCrowdThatWaits"),
		old: "fewEnough",
		new: "1000000",
	},
	{
		name: "waiting: a try keeps its slot", in: "freeSlot", suite: simulation("mutex", "-class", "a"),
		old: "\n\tq.waiter.Done()",
		new: "",
	},
	{
		name: "waiting: an outage ends it", in: "outageTimeouts", suite: tests(inMemory, "TestWaitersBearAnOutage"),
		old: "10",
		new: "0",
	},

	// Transfer, force, and who a client is.
	{
		name: "transfer: while an attempt is under way", in: "awaitQuiet", suite: tests(inMemory, "TestTransferWaitsForWhatIsOnItsWay"),
		old: "!s.outlastDeferred(ctx)",
		new: "ctx.Err() != nil",
	},
	{
		name: "transfer: a detached owner locks again", in: "has", suite: tests(inMemory, "TestTransferRefused", "TestLockDuringDetach"),
		old: "len(r.until) > 0",
		new: "false",
	},
	{
		name: "transfer: the giver's owner stays", in: "mutex_adopt.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('HDEL', KEYS[1], ARGV[6])",
		new: "",
	},
	{
		name: "force: hits the next holder", in: "mutex_force.lua", suite: tests(inMemory, "TestDelayedForceUnlockDoesNotHitTheWaiter"),
		old: "'HEXISTS', KEYS[1], ARGV[i]",
		new: "'EXISTS', KEYS[1]",
	},
	{
		name: "force: the holder is not told", in: "ownerState.listen", suite: tests(inMemory, "TestForcedUnlockIsToldAtOnce"),
		old: `channel != ""`,
		new: `channel == ""`,
	},
	{
		name: "identity: a closed client is still named", in: "Presence.next", suite: tests(inMemory, "TestIdentityInRedis"),
		old: "p.leaving && p.written:",
		new: "p.leaving && !p.written:",
	},
	{
		name: "identity: a client that lives is forgotten", in: "fullAfter", suite: tests(inMemory, "TestIdentityInRedis"),
		old: "/ 3",
		new: "* 3",
	},

	// Fair locks, permits, latches, locks of several parts.
	{
		name: "read-write: a downgrade gives the lock away", in: "rw.lua", suite: tests(inMemory, "TestDowngradeOfANestedHold", "TestDowngradeAfterAnotherWrote"),
		old: "_, ttl = reading(key, prefix, owner)\n  if ttl == 0",
		new: "_, ttl = reading(key, prefix, owner)\n  if ttl >= 0",
	},
	{
		name: "fair: who comes overtakes the line", in: "fair_acquire.lua", suite: tests(inMemory, "TestNobodyOvertakesTheLine"),
		old: "free and first(me, head, more)",
		new: "free",
	},
	{
		name: "fair: the last come first", in: "fair_acquire.lua", suite: tests(inMemory, "TestL8_StoppedAndRestartedServer"),
		old: "'RPUSH'",
		new: "'LPUSH'",
	},
	{
		name: "fair: a dead waiter is not dropped", in: "fair.lua", suite: tests(inMemory, "TestKilledWaiterKeepsNobodyOut"),
		old: "math.max(ms, 0)",
		new: "math.max(ms, 1)",
	},
	{
		name: "fair: live waiters are dropped after a silence", in: "fair.lua", suite: tests(inMemory, "TestL8_SilenceOfTheServerCostsNobodyHisPlace"),
		old: "grace = at + GRACE",
		new: "grace = 0",
	},
	{
		name: "fair: who is granted stays in line", in: "fair_acquire.lua", suite: simulation("fair", "-class", "a"),
		old: "survey(gone + 1, me)",
		new: "survey(gone, 'nobody')",
	},
	{
		name: "permits: expired ones are not free", in: "permits.lua", suite: tests(inMemory, "TestA8_ExpiredPermitsAreBack"),
		old: "give_back(expired)",
		new: "give_back(0)",
	},
	{
		name: "permits: a repeated acquire takes more", in: "permits_acquire.lua", suite: tests(inMemory, "TestPermitsHaveOneEffect"),
		old: "KEYS[1], missing",
		new: "KEYS[1], n",
	},
	{
		name: "permits: who wants many is overtaken for ever", in: "permits_acquire.lua", suite: tests(inMemory, "TestManyAreNotStarvedByOnes"),
		old: "ARGV[5] == '1'",
		new: "ARGV[5] == 'never'",
	},
	{
		name: "permits: release by id of what is not held", in: "permits_release.lua", suite: tests(inMemory, "TestPermitsByID"),
		old: "give_back(#found)",
		new: "give_back(#ARGV - 5)",
	},
	{
		name: "semaphore: what a cancelled caller took stays taken", in: "awaitWithoutHooks", suite: tests(inMemory, "TestCancelledSemaphoreCallersTakeNothing"),
		old: "\n\tundo(a, unsafe)",
		new: "",
	},
	{
		name: "semaphore: undone twice", in: "semaphore_undo.lua", suite: tests(inMemory, "TestUndoingHasOneEffect"),
		old: "remembers(KEYS[2], ARGV[7])",
		new: "ARGV[7] == 'never'",
	},
	{
		name: "semaphore: a call has its effect twice", in: "calls.lua", suite: tests(inMemory, "TestPermitSettingsHaveOneEffect", "TestLatchHasOneEffect"),
		old: "redis.call('ZSCORE', key, id)",
		new: "false",
	},
	{
		name: "latch: what was refused is set later", in: "Caller.Do", suite: simulation("latch", "-class", "a"),
		old: "request.Once && res",
		new: "!request.Once && res",
	},
	{
		name: "latch: a waiter misses that it was zero", in: "latch_await.lua", suite: tests(inMemory, "TestL14_SetAnewBeforeTheWaiterLooks", "TestL14_SetAnewBeforeTheNextInLineLooks"),
		old: "since > 0",
		new: "since < 0",
	},
	{
		name: "latch: one that has expired keeps its waiters", in: "latch_set.lua", suite: tests(inMemory, "TestL14_SetAnewAfterItHasExpired"),
		old: "note_zero(KEYS[3])",
		new: "local _ = note_zero",
	},
	{
		name: "latch: zero is not announced", in: "latch_down.lua", suite: tests(inMemory, "TestLatchAnnouncements"),
		old: "count == 1 then\n  publish",
		new: "count < 0 then\n  publish",
	},
	{
		name: "multi: keeps what it has when one is refused", in: "tryInOrder", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiLockOfOtherLockers"),
		old: "a.left = !c.rollback(bound) || a.left",
		new: "",
	},
	{
		name: "multi: lives without one part", in: "NewMultiLock", suite: tests(inMemory, "TestMultiLockEndsWithAnyPart"),
		old: "m.need = len(m.parts)",
		new: "m.need = max(1, len(m.parts)-1)",
	},
	{
		name: "multi: one script takes some", in: "multi_acquire.lua", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiLockWaitsInTurn"),
		old: "return {0, at, redis.call('PTTL', key), holders[1], i}",
		new: "if i == 1 then return {0, at, redis.call('PTTL', key), holders[1], i} end",
	},
	{
		name: "multi: locks in the order in which they are given", in: "NewMultiLock", suite: tests(inMemory, "TestMultiStress", "TestMultiLockWaitsInTurn"),
		old: "slices.SortStableFunc(m.parts, part.compare)",
		new: "",
	},
	{
		name: "multi: holds up the Unlock of one lock for another's", in: "acquireAllWithoutHooks", suite: tests(inMemory, "TestMultiLockLeavesTheOthersToUnlock"),
		old: "started, false",
		new: "started, true",
	},
	{
		name: "multi: a part that is lost is not noticed", in: "composite.join", suite: tests(inMemory, "TestMultiLockEndsWithAnyPart"),
		old: "part.whenEnded(func() { c.partEnded(m) })",
		new: "",
	},
	{
		name: "RedLock: half is enough", in: "NewRedLock", suite: tests(inMemory, "TestRedLockWithoutAQuorum", "TestRedLockEndsWithItsQuorum"),
		old: "/2+1",
		new: "/2",
	},
	{
		name: "RedLock: trusts the longest of its leases", in: "reachedBy", suite: tests(inMemory, "TestRedLockDeadlineIsTheQuorums"),
		old: "len(each)-need",
		new: "len(each)-1",
	},
	{
		name: "RedLock: what is granted late is kept", in: "composite.join", suite: tests(inMemory, "TestGrantedTooLate"),
		old: "_ = part.Unlock()",
		new: "",
	},
	{
		name: "hand-over: when the lease is nearly over", in: "lastsFor", suite: tests(inMemory, "TestNotHandedOver", "TestHandedOverAtTheDeadline"),
		old: "left > lease-lease/4",
		new: "left != lease",
	},
	{
		name: "hand-over: of a hold whose owner is known", in: "mayPass", suite: tests(inMemory, "TestNotHandedOver", "TestOwnerFromPart"),
		old: "!s.undisclosed, ",
		new: "",
	},
	{
		name: "hand-over: while an attempt is not answered", in: "mayPass", suite: tests(inMemory, "TestNotHandedOverAfterLostReply"),
		old: "s.deferred != nil, s.expected > 0, ",
		new: "",
	},

	// More: the hand-over, transfers, locks of several parts.
	{
		name: "hand-over: past its time", in: "mayPass", suite: tests(inMemory, "TestHandOverIsBounded", "TestHandOver"),
		old: "s.cohort == nil && now > h.since.Add(slice), s.cohort != nil && now > s.cohort.until",
		new: "now < 0",
	},
	{
		name: "hand-over: to a waiter that has left", in: "Waiter.Leave", suite: tests("internal/waitqueue", "TestHandOverInOrder", "TestLeaveHolding", "TestOpen"),
		old: "w.state == received",
		new: "false",
	},
	{
		name: "hand-over: others have no turn after it", in: "cohort.released", suite: tests(inMemory, "TestHandOverIsBounded"),
		old: "min(max(minHoldBack, holdBack*time.Since(res.Sent)), maxHoldBack)",
		new: "0",
	},
	{
		name: "waiting: a leaving waiter takes the wake-up with it", in: "queued.await", suite: tests(inMemory, "TestWakeUpOfOneWhoLeavesDuringATry"),
		old: "<-ctx.Done():\n\t}\n\tq.waiter.Notify()",
		new: "<-ctx.Done():\n\t}",
	},
	{
		name: "transfer: adopts what nobody holds", in: "mutex_adopt.lua", suite: tests(inMemory, "TestTransferRefused"),
		old: "mine == 0 and held",
		new: "ARGV[6] == 'never' and held",
	},
	{
		name: "multi: a repeated acquire counts again", in: "multi_acquire.lua", suite: tests(inMemory, "TestS13_FaultsOfAMultiLockHaveNoSecondEffect"),
		old: "'HSET', key, ARGV[4], ARGV[3 * i + 4]",
		new: "'HINCRBY', key, ARGV[4], 1",
	},
	{
		name: "multi: another's lock counts as free", in: "multi_acquire.lua", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiStress"),
		old: "'EXISTS', key) == 1",
		new: "'EXISTS', key) == 2",
	},
	{
		name: "multi: passes those who wait", in: "inOneScript", suite: tests(inMemory, "TestMultiLockDoesNotPassTheLine"),
		old: "!a.config.oneTry && any",
		new: "false && any",
	},
	{
		name: "multi: a part that joins late keeps its own lease", in: "composite.join", suite: tests(inMemory, "TestLateServersJoinAFixedLease"),
		old: "lease > 0",
		new: "lease < 0",
	},
	{
		name: "multi: cancelled, and what it got stays", in: "rollback", suite: tests(inMemory, "TestS27_CancelledMultiLocksLeaveNothing"),
		old: "errs = sideBySide(parts, (*Hold).Unlock)",
		new: "",
	},
	{
		name: "RedLock: one server that is left is enough", in: "checkQuorum", suite: tests(inMemory, "TestRedLockEndsWithItsQuorum"),
		old: "c.live >= c.need",
		new: "c.live > 0",
	},
	{
		name: "RedLock: two locks of one server count twice", in: "addServer", suite: tests(inMemory, "TestRedLockOfBadInput"),
		old: "other.kind.client == p.kind.client",
		new: "other.kind == p.kind",
	},
	{
		name: "RedLock: an outage ends the wait", in: "MultiLock.bears", suite: tests(inMemory, "TestRedLockBearsAnOutage"),
		old: "outageTimeouts*m.timeout()",
		new: "0",
	},
	{
		name: "multi: what may be left had no effect", in: "compositeAcquire.acquire", suite: tests(inMemory, "TestPartsThatAreLeft"),
		old: "ok && a.left",
		new: "ok && false",
	},
	{
		name: "RedLock: one refusal stands for servers that are silent", in: "composite.failures", suite: tests(inMemory, "TestRedLockWithOneRefusal"),
		old: "unavailable = f.silent",
		new: "unavailable = 0",
	},
	{
		name: "an old refusal hides a newer one", in: "acquisition.failure", suite: tests(inMemory, "TestTheLastRefusalIsTold"),
		old: " && !res.HasReason()",
		new: "",
	},
	{
		name: "multi: forgets what an earlier try has left", in: "compositeAcquire.try", suite: tests(inMemory, "TestPartsOfAnEarlierTryThatAreLeft"),
		old: "a.tries++",
		new: "a.tries++; a.left = false",
	},
	{
		name: "RedLock: that others had it hides that Redis refuses now", in: "composite.failure", suite: tests(inMemory, "TestRedLockTellsThePresent"),
		old: " && f.withReason <= spare",
		new: "",
	},
	{
		name: "RedLock: parts without enough replicas had no effect", in: "mayBeHeld", suite: tests(inMemory, "TestRedLockWithTooFewReplicas"),
		old: "errors.Is(err, ErrNotReplicated) || ",
		new: "",
	},
	{
		name: "drivers: an error shows the password that the server repeats", in: "ServerError", suite: tests("driver", "TestServerErrorThatRepeatsAPassword"),
		old: "err = redact.Arguments(err)",
		new: "_ = redact.Arguments",
	},
}
