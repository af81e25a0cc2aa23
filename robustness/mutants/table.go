package main

// The files of scripts, and the dirs of tests.
const (
	lua      = "internal/protocol/lua/"
	watchdog = "internal/watchdog"
	inMemory = "test"

	simulated = "robustness"

	watchdogRun    = "internal/watchdog/run.go"
	watchdogEntry  = "internal/watchdog/entry.go"
	grantedFile    = "granted.go"
	acquireFile    = "acquire.go"
	reconcileFile  = "reconcile.go"
	waitFile       = "wait.go"
	gatherCallFile = "internal/gather/call.go"
)

// mutants are all, by what they break.
//
//nolint:goconst // a file has several
var mutants = []mutant{
	// Renewal, and trust.
	{
		name: "renewal: goes on after unlock", file: "loss.go", suite: simulation("mutex", "-class", "a"),
		old: "trusted := watch.Remove(s.entry)",
		new: "trusted := watch.Deadline(s.entry) > 0",
	},
	{
		name: "renewal: not repeated after an error", file: watchdogRun, suite: tests(watchdog, "TestTransientErrorsAreBorne"),
		old: "e.renewAt = mono.Of(now).Add(pause(e.Lease))",
		new: "e.renewAt = 0",
	},
	{
		name: "renewal: a full batch forgets the next one", file: watchdogRun, suite: tests(watchdog, "TestMoreThanABatch"),
		old: "members = members[n:]",
		new: "members = members[min(n+1, len(members)):]",
	},
	{
		name: "renewal: a short lease hurries long ones", file: watchdogRun, suite: tests(watchdog, "TestShortLeasesDoNotHurryLongOnes"),
		old: "bits.Len64(uint64(d.patience(e)))",
		new: "bits.Len64(0)",
	},
	{
		name: "renewal: sent too late", file: watchdogEntry, suite: tests(watchdog, "TestRenewsAtAThirdOfTheLease"),
		old: "every = e.Lease / 3",
		new: "every = e.Lease * 2 / 3",
	},
	{
		name: "renewal: asks for half of the lease", file: watchdogEntry, suite: tests(watchdog, "TestMoreThanABatch"),
		old: "ttl = e.Lease\n",
		new: "ttl = e.Lease / 2\n",
	},
	{
		name: "renewal: who does not hold the lock is renewed", file: "renew.go", suite: tests(inMemory, "TestDeletedKeyIsNoticedAtTheNextRenewal"),
		old: "case count > 0:\n",
		new: "case count >= 0:\n",
	},
	{
		name: "renewal: shortens what was promised", file: lua + "common.lua", suite: simulation("mutex", "-class", "a"),
		old: "if redis.call('PTTL', key) < tonumber(ttl) then",
		new: "if tonumber(ttl) > 0 then",
	},
	{
		name: "renewal: leaves out the reads of a reader", file: lua + "read_renew.lua", suite: simulation("readwrite", "-class", "a"),
		old: "keep_reads(key, prefix, owner, count, count, ttl)\n", //nolint:dupword // it is so
		new: "\n",
	},
	{
		name: "renewal: permits are not renewed", file: lua + "permits_renew.lua", suite: simulation("semaphore", "-class", "a"),
		old: "redis.call('ZADD', key, text(expiry), id)",
		new: "redis.call('ZADD', key, 'NX', text(expiry), id)",
	},
	{
		name: "renewal: late ones have an effect", file: "internal/protocol/lua/frame.lua", suite: tests(inMemory, "TestLateRenewalsDoNotOutliveTrust"),
		old: "if ARGV[1] ~= '0' and at - ARGV[1] > 0 then",
		new: "if ARGV[1] ~= '0' and at - ARGV[1] > 3600000 then",
	},
	{
		name: "trust: counts from the receipt", file: grantedFile, suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "a.watch(h, res.Sent)",
		new: "a.watch(h, now)",
	},
	{
		name: "trust: a renewal counts from its receipt", file: watchdogRun, suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "d.raise(e, sent, now, m.ttl)",
		new: "d.raise(e, time.Now(), now, m.ttl)",
	},
	{
		name: "trust: moved by a renewal without an answer", file: watchdogRun, suite: tests(watchdog, "TestUnansweredRenewalsEndAtTheDeadline"),
		old: "case answers[i] == Unknown:\n",
		new: "case answers[i] == Unknown:\n\t\t\td.raise(e, sent, now, m.ttl)\n",
	},
	{
		name: "trust: a late answer lifts the semaphore's end", file: "renew.go", suite: tests(inMemory, "TestLateAnswersDoNotMoveTheEnd"),
		old: "mono.Of(sent) < s.endsKnownAt && end != s.ends",
		new: "false",
	},
	{
		name: "trust: ignores that the host was suspended", file: "internal/watchdog/watchdog.go", suite: tests(watchdog, "TestSuspendedHostLosesItsHolds"),
		old: "suspended > jump",
		new: "suspended > time.Hour",
	},
	{
		name: "trust: an answer that comes too late", file: grantedFile, suite: tests(inMemory, "TestLeaseShorterThanTheWay"),
		old: "case deadline <= mono.Of(now):",
		new: "case deadline < 0:",
	},
	{
		name: "trust: a nested hold begins the time of WithMaxHold anew", file: grantedFile, suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "if s.maxHoldEnd.IsZero() && c.config.maxHold > 0 {",
		new: "if c.config.maxHold > 0 {",
	},
	{
		name: "trust: a nested hold is trusted beyond WithMaxHold", file: "internal/watchdog/watchdog.go", suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "e.deadline, e.lead = d.reach(e, sent, now, ttl), d.lead(now)",
		new: "e.deadline, e.lead = d.Trust(sent, now, ttl), d.lead(now)",
	},
	{
		name: "trust: a nested hold is handed out when WithMaxHold is over", file: grantedFile, suite: tests(inMemory, "TestMaxHoldOfALockInOneThatEnded"),
		old: "case !a.state.maxHoldEnd.IsZero() &&",
		new: "case false &&",
	},
	{
		name: "trust: beyond WithMaxHold", file: watchdogEntry, suite: tests(watchdog, "TestUntilBoundsRenewal"),
		old: "ttl = min(ttl, e.Until.Sub(now))",
		new: "ttl = max(ttl, e.Until.Sub(now))",
	},

	// Acquiring, and cleaning up.
	{
		name: "acquire: the limit is ignored", file: lua + "frame.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "if ARGV[1] ~= '0' and at - ARGV[1] > 0 then",
		new: "if ARGV[1] == 'never' then",
	},
	{
		name: "acquire: an increment in place of a state", file: lua + "mutex_acquire.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])\nif free",
		new: "redis.call('HINCRBY', KEYS[1], ARGV[5], 1)\nif free",
	},
	{
		name: "acquire: an unknown one is not cleaned up", file: "refused.go", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "todo := cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()}\n\tif a.received",
		new: "todo := cleanup{leave: a.leaving()}\n\tif a.received",
	},
	{
		name: "acquire: an earlier one comes behind a later release", file: acquireFile, suite: tests(inMemory, "TestAttemptBehindALaterRelease"),
		old: "if err := a.outlastEarlier(); err != nil {\n\t\treturn err\n",
		new: "if err := error(nil); err != nil {\n\t\treturn err\n",
	},
	{
		name: "acquire: cleaned up once, and not after the limit", file: reconcileFile, suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "if !ran || asked.IsZero() || !asked.Before(end) {",
		new: "if !ran || asked.IsZero() || !asked.Before(end) || ran {",
	},
	{
		name: "acquire: the attempts before the granted one are forgotten", file: grantedFile, suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "s.deferCleanup(cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()})",
		new: "s.deferCleanup(cleanup{stood: ch.to, leave: a.leaving()})",
	},
	{
		name: "acquire: a waiter forgets its unanswered attempts", file: waitFile, suite: tests(inMemory, "TestRefusedWaiterRemembersItsSends"),
		old: "return attempt.Expiry().Before(res.Sent)",
		new: "return attempt.Expiry().After(time.Time{})",
	},
	{
		name: "acquire: a limit is over too early", file: "internal/servertime/servertime.go", suite: tests("internal/servertime", "TestDoubt"),
		old: "over = r.at.Add(left + r.doubt + Slack)",
		new: "over = r.at.Add(left)",
	},
	{
		name: "acquire: cancelled, and nobody gives it back", file: "internal/call/attempt.go", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "res.Unknown = []*Attempt{a}\n\t}\n\treturn res",
		new: "}\n\treturn res",
	},
	{
		name: "acquire: replicas are not counted", file: grantedFile, suite: tests(inMemory, "TestReplicaAck"),
		old: "case res.Acknowledged < a.client.config.replicas:",
		new: "case res.Acknowledged < 0:",
	},
	{
		name: "acquire: an overwritten key is taken for free", file: lua + "mutex_acquire.lua", suite: tests(inMemory, "TestOtherKindOfLock"),
		old: "if foreign(holders[1], holders[2]) then\n      return redis.error_reply(OTHER_KIND)",
		new: "if holders[9] then\n      return redis.error_reply(OTHER_KIND)",
	},

	// Release.
	{
		name: "release: announces nothing", file: lua + "common.lua", suite: simulation("mutex", "-class", "a"),
		old: "heard = redis.pcall(ARGV[3], ARGV[2], ARGV[4])",
		new: "heard = 0",
	},
	{
		name: "release: a partial one frees the lock", file: lua + "mutex_release.lua", suite: simulation("mutex", "-class", "a"),
		old: "  if to > 0 then",
		new: "  if to > 9 then",
	},
	{
		name: "release: frees another's lock", file: lua + "mutex_release.lua", suite: simulation("mutex", "-class", "a"),
		old: "if count == '0' then",
		new: "if count == 'never' then",
	},
	{
		name: "release: an unanswered one is not repeated", file: reconcileFile, suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "s.reconcile(cleanup{unknown: res.Unknown, release: true})\n\t\treturn backendError",
		new: "s.reconcile(cleanup{})\n\t\treturn backendError",
	},
	{
		name: "release: one that was not sent may have been carried out", file: reconcileFile, suite: tests(inMemory, "TestUnlockBehindAReleaseThatWasNotSent"),
		old: "\t\tif len(res.Unknown) > 0 {\n\t\t\ts.mu.Lock()",
		new: "\t\tif res.Err != nil {\n\t\t\ts.mu.Lock()",
	},
	{
		name: "release: repeated for too short a time", file: reconcileFile, suite: tests(inMemory, "TestReleaseIsRepeatedForTheWholeLease"),
		old: "res, unknown := repeat(s.kind, s.owner, \"release\", s.keyGoneBy(), func(last",
		new: "res, unknown := repeat(s.kind, s.owner, \"release\", mono.Now(), func(last",
	},
	{
		name: "release: the owner's turn is not given back", file: reconcileFile, suite: simulation("mutex", "-class", "a"),
		old: "if len(todo.unknown) == 0 && !todo.release && todo.leave.IsZero() {\n\t\ts.freeChangeSem()\n",
		new: "if len(todo.unknown) == 0 && !todo.release && todo.leave.IsZero() {\n",
	},
	{
		name: "release: MinHold keeps nobody out", file: reconcileFile, suite: tests(inMemory, "TestMinHoldEnds"),
		old: "ch.to == 0 && rest > 0 {",
		new: "ch.to == 0 && rest < 0 {",
	},
	{
		name: "release: Close keeps what is held", file: reconcileFile, suite: tests(inMemory, "TestCloseEndsEverything"),
		old: "if n == 0 {\n\t\treturn\n\t}\n\ts.releaseLater()",
		new: "if n == 0 {\n\t\treturn\n\t}",
	},

	// Reentrancy, and owners.
	{
		name: "owner: a former holder re-enters", file: "owner.go", suite: simulation("mutex", "-class", "a"),
		old: "if err := held.hold.alive(); err == nil || errors.Is(err, ErrLost) {\n\t\t\treturn claim{owner: held.owner, hold: held.hold, lost: err}, true",
		new: "if err := held.hold.alive(); err == nil || !errors.Is(err, nil) {\n\t\t\treturn claim{owner: held.owner, fresh: true}, true",
	},
	{
		name: "owner: NonReentrant nests", file: acquireFile, suite: tests(inMemory, "TestMutexOptions"),
		old: "ch.to > 1 && a.kind.config.nonReentrant",
		new: "ch.to > 2 && a.kind.config.nonReentrant",
	},
	{
		name: "owner: a hold's context is of all locks", file: "owner.go", suite: tests(inMemory, "TestHoldsContextIsOfOneLock"),
		old: "ok && lock.sameLock(c.kind)",
		new: "ok && lock.client == c.kind.client",
	},
	{
		name: "owner: an inner unlock gives back all", file: "ownerstate.go", suite: simulation("mutex", "-class", "a"),
		old: "return change{from: s.count, to: needed, confirmed: s.confirmed}, s.count > needed",
		new: "return change{from: s.count, to: 0}, s.count > needed",
	},
	{
		name: "owner: nested in nothing", file: lua + "mutex_acquire.lua", suite: tests(inMemory, "TestNestedIntoNothingIsLost"),
		old: "elseif count ~= ARGV[7] and count ~= ARGV[6] then",
		new: "elseif count == 'never' then",
	},
	{
		name: "owner: an undisclosed one is used by whoever read it", file: "ownerstate.go", suite: tests(inMemory, "TestHandOverLeaving"),
		old: "return !s.undisclosed || by.fresh",
		new: "return true",
	},

	// Fencing tokens.
	{
		name: "token: follows the clock alone", file: lua + "common.lua", suite: simulation("fenced", "-class", "b"),
		old: "local token = math.max(last + 1, us)",
		new: "local token = us",
	},
	{
		name: "token: only counts", file: lua + "common.lua", suite: simulation("fenced", "-class", "b", "-faults", "lose data"),
		old: "local token = math.max(last + 1, us)",
		new: "local token = last + 1",
	},
	{
		name: "token: a nested hold takes one of its own", file: acquireFile, suite: simulation("fenced", "-class", "a"),
		old: "return a.kind.config.fenced && !a.state.hasToken()",
		new: "return a.kind.config.fenced",
	},
	{
		name: "token: an adopted hold has none", file: lua + "mutex_adopt.lua", suite: simulation("fenced", "-class", "a"),
		old: "if KEYS[2] then",
		new: "if KEYS[3] then",
	},
	{
		name: "token: that of the run of holds before", file: grantedFile, suite: simulation("fair", "-class", "a"),
		old: "if token, err := res.Reply.Int(0); a.kind.permitIDs == nil && (ch.from == 0 || err == nil && token > 0) {",
		new: "if token, err := res.Reply.Int(0); err != nil && token > 0 {",
	},

	// Read-write locks.
	{
		name: "read-write: a read hold counts twice", file: lua + "read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "keep_reads(key, prefix, owner, count, to, lease)",
		new: "keep_reads(key, prefix, owner, count, to + 1, lease)",
	},
	{
		name: "read-write: a reader beside the writer", file: lua + "read_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "if count == 0 and not (mode == 'write' and",
		new: "if count == 0 and mode ~= 'write' and not (mode == 'write' and",
	},
	{
		name: "read-write: a writer beside readers", file: lua + "write_acquire.lua", suite: simulation("readwrite", "-class", "a"),
		old: "      if reading(key, prefix, reader) > 0 then",
		new: "      if reading(key, prefix, reader) > 9 then",
	},
	{
		name: "read-write: readers starve a writer", file: lua + "write_acquire.lua", suite: tests(inMemory, "TestL15_WritersFirst"),
		old: "if ARGV[9] ~= '0' and (not first or first == owner) then",
		new: "if ARGV[9] == 'never' then",
	},
	{
		name: "read-write: the last reader wakes nobody", file: lua + "read_release.lua", suite: tests(inMemory, "TestReadLockAfterTheLongestReader"),
		old: "if not seen or lives - longest > 1000 then",
		new: "if ARGV[6] == 'never' then",
	},
	{
		name: "read-write: a reader that leaves ends the others' lock", file: lua + "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "if longest == 0 then\n    redis.call('DEL', key)",
		new: "if longest >= 0 then\n    redis.call('DEL', key)",
	},
	{
		name: "read-write: dead readers keep writers out", file: lua + "rw.lua", suite: tests(inMemory, "TestP6_CrashedReadersAreDropped"),
		old: "  elseif ttl == 0 then\n    count = 0\n",
		new: "  elseif ttl == 0 then\n    ttl = 1\n",
	},
	{
		name: "read-write: a lost writer stays beside its longer read", file: "loss.go", suite: simulation("readwrite", "-class", "a"),
		old: "stands := mono.Now() < s.otherEnd",
		new: "stands := false",
	},
	{
		name: "read-write: a writer that Redis does not take back is left beside its read", file: reconcileFile, suite: tests(inMemory, "TestRefusedReleaseBesideARead"),
		old: "if s.standsBesideOtherSide() {",
		new: "if false {",
	},
	{
		name: "read-write: a late answer ends the owner's next hold", file: "sides.go", suite: tests(inMemory, "TestLateAnswerAboutAnEarlierWrite"),
		old: "a.writes.Value.lose(a.writes, watchdog.NotHeld)",
		new: "a.state.onOtherSide().lose(nil, watchdog.NotHeld)",
	},
	{
		name: "read-write: a second read is nested in nothing", file: lua + "read_acquire.lua", suite: tests(inMemory, "TestReadNestedInALostWrite"),
		old: "if ARGV[9] and count ~= to and",
		new: "if ARGV[9] and count == 0 and",
	},
	{
		name: "read-write: a downgrade that is answered too late loses the write hold", file: "rwmutex.go", suite: tests(inMemory, "TestDowngradeAnsweredTooLate"),
		old: "case errors.Is(err, ErrLost): // as soon",
		new: "case false: // as soon",
	},
	{
		name: "owner: Lock asks anew while an attempt is on its way", file: acquireFile, suite: tests(inMemory, "TestLateAttemptBehindAnExpiredHold"),
		old: "if err := a.outlastEarlier(); err != nil {\n\t\treturn change{}, err\n",
		new: "if err := error(nil); err != nil {\n\t\treturn change{}, err\n",
	},
	{
		name: "owner: Shutdown does not end a Lock that asks anew", file: "acquirebounds.go", suite: tests(inMemory, "TestShutdownEndsALockThatAskedAnew"),
		old: "a.shutdown != shutdown {",
		new: "a.shutdown == nil {",
	},
	{
		name: "owner: a Lock that asks anew waits before it looks at Shutdown", file: acquireFile, suite: tests(inMemory, "TestShutdownBeforeALockOutlastsItsAttempts"),
		old: "if err := a.bindToShutdown(); err != nil { // before it waits",
		new: "if err := error(nil); err != nil {",
	},
	{
		name: "read-write: Shutdown does not end a read whose write has ended", file: acquireFile, suite: tests(inMemory, "TestShutdownEndsAReadWhoseWriteEnded"),
		old: "\terr = a.bindToShutdown()\n\t\t}\n\t\treturn ch",
		new: "\ta.writes, a.writesEnd = a.writesIn()\n\t\t}\n\t\treturn ch",
	},
	{
		name: "owner: a lost write is told as a closed client", file: acquireFile, suite: tests(inMemory, "TestReadWhoseWriteIsLostDuringShutdown"),
		old: "if err = a.loseWrites(); err == nil {",
		new: "if err = cmp.Or(a.loseWrites(), a.bindToShutdown()); err == nil {",
	},
	{
		name: "owner: Shutdown ends a Lock that has something to nest in by now", file: acquireFile, suite: tests(inMemory, "TestShutdownLetsTheOwnersNextLockNest"),
		old: "case <-draining:\n\t\tcase <-again:\n\t\tcase <-ctx.Done():\n\t\t\tif a.caller.Err() != nil || a.shutdown.Err() == nil {",
		new: "case <-again:\n\t\tcase <-ctx.Done():\n\t\t\tif _ = draining; true {",
	},
	{
		name: "acquire: one attempt more during Shutdown", file: "acquirebounds.go", suite: tests(inMemory, "TestShutdownBeforeTheNextAttempt"),
		old: "if a.shutdown.Err() != nil {\n\t\tcancel",
		new: "if false {\n\t\tcancel",
	},
	{
		name: "errors: what another call came to is taken for this one's", file: "client.go", suite: tests(inMemory, "TestAContextEndsWithAnotherCallsError"),
		old: "return isOwnBound(context.Cause(ctx))",
		new: "return errors.Is(context.Cause(ctx), call.ErrNoAnswer)",
	},
	{
		name: "errors: a client's own error is taken for the end of another's time", file: "errors.go", suite: tests(inMemory, "TestAContextEndsWithAnotherCallsError"),
		old: "if isOwnBound(err) {",
		new: "if false {",
	},
	{
		name: "calls: another client's end is taken for this one's", file: "internal/call/attempt.go", suite: tests("internal/call", "TestADriversErrorThatWrapsErrClosed"),
		old: "\tif err == nil {\n\t\treturn false",
		new: "\tif err == nil || errors.Is(err, ErrClosed) {\n\t\treturn false",
	},
	{
		name: "owner: a Lock that waits for its turn during Shutdown is not ended with what it was to be nested in", file: acquireFile, suite: tests(inMemory, "TestShutdownEndsALockThatHasNothingToNestInAnyMore"),
		old: "draining, again = nil, time.After(recheckNesting)",
		new: "draining = nil",
	},
	{
		name: "owner: Shutdown lets a Lock nest in what is lost", file: "acquirebounds.go", suite: tests(inMemory, "TestShutdownEndsALockThatHasNothingToNestInAnyMore"),
		old: "a.state.live() > 0 {",
		new: "a.state.hasHolds() {",
	},
	{
		name: "owner: a TryLock that begins anew has a time of its own", file: acquireFile, suite: tests(inMemory, "TestTryLockThatBeginsAnewInTime"),
		old: "if limit := a.timeLimit(); limit > 0 {\n\t\tif patience",
		new: "if limit := a.config.wait; limit > 0 {\n\t\tif patience",
	},
	{
		name: "errors: one who waits for its owner's turn says that Redis is silent", file: acquireFile, suite: tests(inMemory, "TestErrorBehindAnEarlierCallOfTheOwner"),
		old: "\t\t\t\ta.last = a.state.busyError()\n",
		new: "",
	},
	{
		name: "multi-lock: with its first client closed, the caller gives the parts back", file: "composite.go", suite: tests(inMemory, "TestMultiLockWhoseFirstClientIsClosed"),
		old: "if !c.goUncounted(giveBack) {",
		new: "if !c.firstClient.tasks.GoUncounted(giveBack) {",
	},
	{
		name: "downgrade: the end of its context is taken for that of the hold", file: "rwmutex.go", suite: tests(inMemory, "TestDowngradeUnderAContextThatHasEnded"),
		old: "case outer.Err() != nil:",
		new: "case false:",
	},
	{
		name: "downgrade: WithMaxHold begins anew", file: "acquirebounds.go", suite: tests(inMemory, "TestDowngradeKeepsToMaxHold"),
		old: "s.maxHoldEnd = a.writesEnd",
		new: "s.maxHoldEnd = 0",
	},
	{
		name: "read-write: a write hold that has ended bounds a read that is nested in nothing", file: "acquirebounds.go", suite: tests(inMemory, "TestReadAfterTheWriteHoldEnded"),
		old: "if ch.from == 0 {\n",
		new: "if ch.from == 0 && !a.writesEnd.IsZero() {\n",
	},
	{
		name: "multi-lock: a part is refused for what WithMaxHold leaves", file: "compositeacquire.go", suite: tests(inMemory, "TestMultiLockOfBothSidesWithMaxHold"),
		old: "c.cuts = true",
		new: "c.cuts = false",
	},
	{
		name: "downgrade: a fixed lease is refused for what WithMaxHold leaves", file: "rwmutex.go", suite: tests(inMemory, "TestDowngradeOfAFixedLeaseThatHasToWait"),
		old: "cuts: true",
		new: "cuts: false",
	},
	{
		name: "errors: a renewal without an answer is told as the caller's deadline", file: "client.go", suite: tests(inMemory, "TestALossIsNotTheCallersDeadline"),
		old: "Silence: call.ErrNoAnswer, ",
		new: "",
	},
	{
		name: "owner: a Lock that asks anew is trusted as briefly as the hold before", file: "acquirebounds.go", suite: tests(inMemory, "TestLeaseOfALockThatAskedAnew"),
		old: "\ta.lease = a.wantedLease()\n",
		new: "",
	},
	{
		name: "owner: the next hold hides from Unlock that the lock was taken", file: "reconcile.go", suite: tests(inMemory, "TestUnlockOfWhatWasTakenBesideTheNextHold"),
		old: "return left.run.taken\n",
		new: "return s.run.taken\n",
	},
	{
		name: "read-write: each refused release is tried again by itself", file: "sides.go", suite: tests(inMemory, "TestOneReleaseAgain"),
		old: "if begun ||",
		new: "if begun && false ||",
	},
	{
		name: "owner: Unlock of what was taken says nothing", file: reconcileFile, suite: tests(inMemory, "TestUnlockOfWhatWasTaken"),
		old: "(ch.confirmed == 0 || len",
		new: "(ch.confirmed >= 0 || len",
	},
	{
		name: "read-write: the last of those who share gives nothing back", file: "sharing.go", suite: simulation("readwrite", "-class", "a"),
		old: "s.sharers() < 2",
		new: "s.sharers() < 1",
	},
	{
		name: "read-write: readers join for ever", file: "sharing.go", suite: tests(inMemory, "TestWritersFirst_ReadersWhoShare"),
		old: "s.entry == nil, now > open.until:",
		new: "s.entry == nil:",
	},

	// Fair locks.
	{
		name: "fair: a cancelled waiter stays in line", file: "refused.go", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "return a.kind.requests.Leave(a.state.owner.String())",
		new: "return script.Request{}",
	},
	{
		name: "fair: the next in line is not told", file: lua + "fair_release.lua", suite: simulation("fair", "-class", "a"),
		old: "tell(head, ARGV[4])\n",
		new: "\n",
	},
	{
		name: "fair: who leaves does not tell the next", file: lua + "fair_leave.lua", suite: tests(inMemory, "TestL5_WhoLeavesPassesTheMessageOn"),
		old: "    tell(head, ARGV[4])\n",
		new: "\n",
	},

	// Semaphores.
	{
		name: "permits: given back twice", file: lua + "permits_release.lua", suite: simulation("semaphore", "-class", "a"),
		old: "redis.call('INCRBY', KEYS[1], '1')",
		new: "redis.call('INCRBY', KEYS[1], '2')",
	},
	{
		name: "permits: one more than there are", file: lua + "permits_acquire.lua", suite: simulation("semaphore", "-class", "a"),
		old: "free - missing < kept then",
		new: "free - missing + 1 < kept then",
	},
	{
		name: "permits: who wants more than there are blocks all", file: lua + "permits_acquire.lua", suite: tests(inMemory, "TestImpossibleNumberBlocksNobody"),
		old: "if ARGV[5] == '1' and n <= free + held then",
		new: "if ARGV[5] == '1' then",
	},

	// Latches.
	{
		name: "latch: a count down that found zero is forgotten", file: lua + "latch_down.lua", suite: simulation("latch", "-class", "a"),
		old: "remember(KEYS[2], ARGV[4], ARGV[5]) -- at zero, too",
		new: "if count > 0 then remember(KEYS[2], ARGV[4], ARGV[5]) end -- at zero, too",
	},

	// The hand-over inside a process.
	{
		name: "hand-over: the giver's context goes on", file: "handover.go", suite: tests(inMemory, "TestHandOver"),
		old: "\t\th.ended = leftToOthers\n\t\th.cancel(nil)\n",
		new: "\t\th.ended = leftToOthers\n",
	},

	// Calls that leave together.
	{
		name: "gathering: an outcome that comes late is not told", file: gatherCallFile, suite: tests("internal/gather", "TestGivenUp"),
		old: "case late != nil:",
		new: "case late != nil && err != nil:",
	},
	{
		name: "gathering: a withdrawn call is sent", file: "internal/gather/group.go", suite: tests("internal/gather", "TestGivenUp", "TestQueuedBehindSilence"),
		old: "\tg.queue.Remove(&c.place)\n\treturn true",
		new: "\treturn true",
	},
	{
		name: "gathering: a call that was sent counts as unsent", file: gatherCallFile, suite: tests("internal/gather", "TestGivenUp"),
		old: "err := driver.ConnectionError(ctx.Err(), false)",
		new: "err := driver.ConnectionError(ctx.Err(), true)",
	},
	{
		name: "gathering: one reply for two calls", file: gatherCallFile, suite: tests("internal/gather", "TestLeftIsNotReused"),
		old: "\tg.awaitedLess(c.batch)\n\terr :=",
		new: "\tg.awaitedLess(c.batch)\n\tg.unused.Put(c)\n\terr :=",
	},

	// Waiting.
	{
		name: "waiting: a resubscription wakes nobody", file: "internal/wakeup/wakeup.go", suite: simulation("mutex"),
		old: "\t\ts.confirmed = s.confirmed || e.Kind == driver.Subscribed\n",
		new: "\t\tif s.confirmed && e.Kind == driver.Subscribed {\n\t\t\treturn\n\t\t}\n\t\ts.confirmed = s.confirmed || e.Kind == driver.Subscribed\n",
	},
	{
		name: "waiting: who leaves wakes nobody", file: "internal/waitqueue/waitqueue.go", suite: simulation("mutex"),
		old: "q.remove(w, departed)\n\tq.promote()\n",
		new: "q.remove(w, departed)\n",
	},
	{
		name: "waiting: for messages alone", file: waitFile, suite: tests(inMemory, "TestL1_LostMessageCostsLittle"),
		old: "longestSleep = 3 * time.Second",
		new: "longestSleep = time.Hour",
	},
	{
		name: "waiting: longer than the key lasts", file: waitFile, suite: tests(inMemory, "TestWaitsNoLongerThanTheKeyLasts"),
		old: "sleep = min(sleep, retry)",
		new: "sleep = max(sleep, 0)",
	},
	{
		name: "waiting: a whole crowd asks at once", file: "crowd.go", suite: tests(inMemory, "TestCrowd", "TestCrowdThatWaits"),
		old: "return c.Size > fewEnough",
		new: "return c.Size > 1000000",
	},
	{
		name: "waiting: a try keeps its slot", file: waitFile, suite: simulation("mutex", "-class", "a"),
		old: "\t}\n\tq.waiter.Done()\n}\n\n// refused notes",
		new: "\t}\n}\n\n// refused notes",
	},
	{
		name: "waiting: an outage ends it", file: waitFile, suite: tests(inMemory, "TestWaitersBearAnOutage"),
		old: "outageTimeouts = 10",
		new: "outageTimeouts = 0",
	},

	// Transfer, force, and who a client is.
	{
		name: "transfer: while an attempt is under way", file: "transfer.go", suite: tests(inMemory, "TestTransferWaitsForWhatIsOnItsWay"),
		old: "if !s.outlastDeferred(ctx) {",
		new: "if ctx.Err() != nil {",
	},
	{
		name: "transfer: a detached owner locks again", file: "transfer.go", suite: tests(inMemory, "TestTransferRefused", "TestLockDuringDetach"),
		old: "return len(r.until) > 0 && mono.Now() < r.until[retired{k.id(), owner}]",
		new: "return false",
	},
	{
		name: "transfer: the giver's owner stays", file: lua + "mutex_adopt.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('HDEL', KEYS[1], ARGV[6])\n",
		new: "\n",
	},
	{
		name: "force: hits the next holder", file: lua + "mutex_force.lua", suite: tests(inMemory, "TestDelayedForceUnlockDoesNotHitTheWaiter"),
		old: "if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then",
		new: "if redis.call('EXISTS', KEYS[1]) == 1 then",
	},
	{
		name: "force: the holder is not told", file: "loss.go", suite: tests(inMemory, "TestForcedUnlockIsToldAtOnce"),
		old: "s.entry == entry && s.subscription == nil && channel != \"\"",
		new: "s.entry == entry && s.subscription == nil && channel == \"\"",
	},
	{
		name: "identity: a closed client is still named", file: "presence.go", suite: tests(inMemory, "TestIdentityInRedis"),
		old: "case p.leaving && p.written:",
		new: "case p.leaving && !p.written:",
	},
	{
		name: "identity: a client that lives is forgotten", file: "presence.go", suite: tests(inMemory, "TestIdentityInRedis"),
		old: "presentAgain = protocol.ClientTTL / 3",
		new: "presentAgain = protocol.ClientTTL * 3",
	},

	// Fair locks, permits, latches, locks of several parts.
	{
		name: "read-write: a downgrade gives the lock away", file: lua + "rw.lua", suite: tests(inMemory, "TestDowngradeOfANestedHold", "TestDowngradeAfterAnotherWrote"),
		old: "local _, ttl = reading(key, prefix, owner)\n  if ttl == 0 then\n    redis.call('DEL', key)",
		new: "local _, ttl = reading(key, prefix, owner)\n  if ttl >= 0 then\n    redis.call('DEL', key)",
	},
	{
		name: "fair: who comes overtakes the line", file: lua + "fair_acquire.lua", suite: tests(inMemory, "TestNobodyOvertakesTheLine"),
		old: "mine = free and first(me, head, more)",
		new: "mine = free",
	},
	{
		name: "fair: the last come first", file: lua + "fair_acquire.lua", suite: tests(inMemory, "TestL8_StoppedAndRestartedServer"),
		old: "redis.call('RPUSH', KEYS[2], me)",
		new: "redis.call('LPUSH', KEYS[2], me)",
	},
	{
		name: "fair: a dead waiter is not dropped", file: lua + "fair.lua", suite: tests(inMemory, "TestKilledWaiterKeepsNobodyOut"),
		old: "return math.max(ms, 0), false\n  end\n  local score",
		new: "return math.max(ms, 1), false\n  end\n  local score",
	},
	{
		name: "fair: live waiters are dropped after a silence", file: lua + "fair.lua", suite: tests(inMemory, "TestL8_SilenceOfTheServerCostsNobodyHisPlace"),
		old: "    grace = at + GRACE\n",
		new: "    grace = 0\n",
	},
	{
		name: "fair: who is granted stays in line", file: lua + "fair_acquire.lua", suite: simulation("fair", "-class", "a"),
		old: "  if head == me then\n    gone, head, more = survey(gone + 1, me)",
		new: "  if head == me then\n    gone, head, more = survey(gone, 'nobody')",
	},
	{
		name: "permits: expired ones are not free", file: lua + "permits.lua", suite: tests(inMemory, "TestA8_ExpiredPermitsAreBack"),
		old: "  give_back(expired)\n",
		new: "  give_back(0)\n",
	},
	{
		name: "permits: a repeated acquire takes more", file: lua + "permits_acquire.lua", suite: tests(inMemory, "TestPermitsHaveOneEffect"),
		old: "redis.call('DECRBY', KEYS[1], missing)",
		new: "redis.call('DECRBY', KEYS[1], n)",
	},
	{
		name: "permits: who wants many is overtaken for ever", file: lua + "permits_acquire.lua", suite: tests(inMemory, "TestManyAreNotStarvedByOnes"),
		old: "if ARGV[5] == '1' and n <= free + held then",
		new: "if ARGV[5] == 'never' then",
	},
	{
		name: "permits: release by id of what is not held", file: lua + "permits_release.lua", suite: tests(inMemory, "TestPermitsByID"),
		old: "give_back(#found)",
		new: "give_back(#ARGV - 5)",
	},
	{
		name: "semaphore: what a cancelled caller took stays taken", file: "unowned.go", suite: tests(inMemory, "TestCancelledSemaphoreCallersTakeNothing"),
		old: "\tundo(a, unsafe)\n",
		new: "\n",
	},
	{
		name: "semaphore: undone twice", file: lua + "semaphore_undo.lua", suite: tests(inMemory, "TestUndoingHasOneEffect"),
		old: "if remembers(KEYS[2], ARGV[7]) then",
		new: "if ARGV[7] == 'never' then",
	},
	{
		name: "semaphore: a call has its effect twice", file: lua + "calls.lua", suite: tests(inMemory, "TestPermitSettingsHaveOneEffect", "TestLatchHasOneEffect"),
		old: "return redis.call('ZSCORE', key, id)",
		new: "return false",
	},
	{
		name: "latch: what was refused is set later", file: "internal/call/call.go", suite: simulation("latch", "-class", "a"),
		old: "if request.Once && res",
		new: "if !request.Once && res",
	},
	{
		name: "latch: a waiter misses that it was zero", file: lua + "latch_await.lua", suite: tests(inMemory, "TestL14_SetAnewBeforeTheWaiterLooks", "TestL14_SetAnewBeforeTheNextInLineLooks"),
		old: "if count <= 0 or since > 0 and",
		new: "if count <= 0 or since < 0 and",
	},
	{
		name: "latch: one that has expired keeps its waiters", file: lua + "latch_set.lua", suite: tests(inMemory, "TestL14_SetAnewAfterItHasExpired"),
		old: "note_zero(KEYS[3]) -- of one that is made",
		new: "local _ = note_zero -- of one that is made",
	},
	{
		name: "latch: zero is not announced", file: lua + "latch_down.lua", suite: tests(inMemory, "TestLatchAnnouncements"),
		old: "if count == 1 then\n  publish",
		new: "if count < 0 then\n  publish",
	},
	{
		name: "multi: keeps what it has when one is refused", file: "multi.go", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiLockOfOtherLockers"),
		old: "\ta.left = !c.rollback(bound) || a.left\n\tif lost",
		new: "\tif lost",
	},
	{
		name: "multi: lives without one part", file: "multi.go", suite: tests(inMemory, "TestMultiLockEndsWithAnyPart"),
		old: "m.need = len(m.parts)",
		new: "m.need = max(1, len(m.parts)-1)",
	},
	{
		name: "multi: one script takes some", file: lua + "multi_acquire.lua", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiLockWaitsInTurn"),
		old: "      return {0, at, redis.call('PTTL', key), holders[1], i}",
		new: "      if i == 1 then return {0, at, redis.call('PTTL', key), holders[1], i} end",
	},
	{
		name: "multi: locks in the order in which they are given", file: "multi.go", suite: tests(inMemory, "TestMultiStress", "TestMultiLockWaitsInTurn"),
		old: "\tslices.SortStableFunc(m.parts, part.compare)\n",
		new: "\n",
	},
	{
		name: "multi: holds up the Unlock of one lock for another's", file: "multionescript.go", suite: tests(inMemory, "TestMultiLockLeavesTheOthersToUnlock"),
		old: "a, err := enter(ctx, k, config, started, false)",
		new: "a, err := enter(ctx, k, config, started, true)",
	},
	{
		name: "multi: a part that is lost is not noticed", file: "composite.go", suite: tests(inMemory, "TestMultiLockEndsWithAnyPart"),
		old: "\tpart.whenEnded(func() { c.partEnded(m) })\n",
		new: "\n",
	},
	{
		name: "RedLock: half is enough", file: "redlock.go", suite: tests(inMemory, "TestRedLockWithoutAQuorum", "TestRedLockEndsWithItsQuorum"),
		old: "len(m.parts)/2+1",
		new: "len(m.parts)/2",
	},
	{
		name: "RedLock: trusts the longest of its leases", file: "inspect.go", suite: tests(inMemory, "TestRedLockDeadlineIsTheQuorums"),
		old: "return each[len(each)-need]",
		new: "return each[len(each)-1]",
	},
	{
		name: "RedLock: what is granted late is kept", file: "composite.go", suite: tests(inMemory, "TestGrantedTooLate"),
		old: "\t\t_ = part.Unlock()\n\t\treturn",
		new: "\t\treturn",
	},
	{
		name: "hand-over: when the lease is nearly over", file: "handover.go", suite: tests(inMemory, "TestNotHandedOver", "TestHandedOverAtTheDeadline"),
		old: "return left > lease-lease/4",
		new: "return left != lease",
	},
	{
		name: "hand-over: of a hold whose owner is known", file: "handover.go", suite: tests(inMemory, "TestNotHandedOver", "TestOwnerFromPart"),
		old: "case !s.undisclosed, s.altered, h.fixed,",
		new: "case s.altered, h.fixed,",
	},
	{
		name: "hand-over: while an attempt is not answered", file: "handover.go", suite: tests(inMemory, "TestNotHandedOverAfterLostReply"),
		old: "case s.deferred != nil, s.expected > 0, s.failing != nil:",
		new: "case s.failing != nil:",
	},

	// More: the hand-over, transfers, locks of several parts.
	{
		name: "hand-over: past its time", file: "handover.go", suite: tests(inMemory, "TestHandOverIsBounded", "TestHandOver"),
		old: "case s.cohort == nil && now > h.since.Add(slice), s.cohort != nil && now > s.cohort.until:",
		new: "case now < 0:",
	},
	{
		name: "hand-over: to a waiter that has left", file: "internal/waitqueue/waitqueue.go", suite: tests("internal/waitqueue", "TestHandOverInOrder", "TestLeaveHolding", "TestOpen"),
		old: "\tif w.gone() {\n\t\treturn w.state == received\n\t}",
		new: "\tif w.gone() {\n\t\treturn false\n\t}",
	},
	{
		name: "hand-over: others have no turn after it", file: "handover.go", suite: tests(inMemory, "TestHandOverIsBounded"),
		old: "co.after = min(max(minHoldBack, holdBack*time.Since(res.Sent)), maxHoldBack)",
		new: "co.after = 0",
	},
	{
		name: "waiting: a leaving waiter takes the wake-up with it", file: "wait.go", suite: tests(inMemory, "TestWakeUpOfOneWhoLeavesDuringATry"),
		old: "\tcase <-ctx.Done():\n\t}\n\tq.waiter.Notify() // the wake-up that brought us here\n\treturn false\n}\n\n// pauseEnd",
		new: "\tcase <-ctx.Done():\n\t}\n\treturn false\n}\n\n// pauseEnd",
	},
	{
		name: "transfer: adopts what nobody holds", file: lua + "mutex_adopt.lua", suite: tests(inMemory, "TestTransferRefused"),
		old: "elseif mine == 0 and held(KEYS[1], ARGV[6]) == '0' then",
		new: "elseif ARGV[6] == 'never' then",
	},
	{
		name: "multi: a repeated acquire counts again", file: lua + "multi_acquire.lua", suite: tests(inMemory, "TestS13_FaultsOfAMultiLockHaveNoSecondEffect"),
		old: "redis.call('HSET', key, ARGV[4], ARGV[3 * i + 4])",
		new: "redis.call('HINCRBY', key, ARGV[4], 1)",
	},
	{
		name: "multi: another's lock counts as free", file: lua + "multi_acquire.lua", suite: tests(inMemory, "TestMultiLockRefusedTakesNothing", "TestMultiStress"),
		old: "and redis.call('EXISTS', key) == 1 then",
		new: "and redis.call('EXISTS', key) == 2 then",
	},
	{
		name: "multi: passes those who wait", file: "multionescript.go", suite: tests(inMemory, "TestMultiLockDoesNotPassTheLine"),
		old: "!a.config.oneTry && anyWaiter(kinds, owner)",
		new: "false && anyWaiter(kinds, owner)",
	},
	{
		name: "multi: a part that joins late keeps its own lease", file: "composite.go", suite: tests(inMemory, "TestLateServersJoinAFixedLease"),
		old: "if lease := c.fixedLease(); lease > 0 {",
		new: "if lease := c.fixedLease(); lease < 0 {",
	},
	{
		name: "multi: cancelled, and what it got stays", file: "composite.go", suite: tests(inMemory, "TestS27_CancelledMultiLocksLeaveNothing"),
		old: "\t\terrs = sideBySide(parts, (*Hold).Unlock)\n\t}",
		new: "\t}",
	},
	{
		name: "RedLock: one server that is left is enough", file: "composite.go", suite: tests(inMemory, "TestRedLockEndsWithItsQuorum"),
		old: "enough := c.live >= c.need",
		new: "enough := c.live > 0",
	},
	{
		name: "RedLock: two locks of one server count twice", file: "redlock.go", suite: tests(inMemory, "TestRedLockOfBadInput"),
		old: "return other.kind.client == p.kind.client",
		new: "return other.kind == p.kind",
	},
	{
		name: "RedLock: an outage ends the wait", file: "redlock.go", suite: tests(inMemory, "TestRedLockBearsAnOutage"),
		old: "return time.Since(answered) < outageTimeouts*m.timeout()",
		new: "return time.Since(answered) < 0",
	},
	{
		name: "multi: what may be left had no effect", file: "compositeacquire.go", suite: tests(inMemory, "TestPartsThatAreLeft"),
		old: "; ok && a.left {",
		new: "; ok && false {",
	},
	{
		name: "RedLock: one refusal stands for servers that are silent", file: "redlock.go", suite: tests(inMemory, "TestRedLockWithOneRefusal"),
		old: "f.unavailable = f.silent",
		new: "f.unavailable = 0",
	},
	{
		name: "an old refusal hides a newer one", file: "refused.go", suite: tests(inMemory, "TestTheLastRefusalIsTold"),
		old: "a.last != nil && !res.HasReason()",
		new: "a.last != nil",
	},
	{
		name: "multi: forgets what an earlier try has left", file: "compositeacquire.go", suite: tests(inMemory, "TestPartsOfAnEarlierTryThatAreLeft"),
		old: "\ta.tries++\n",
		new: "\ta.tries++\n\ta.left = false\n",
	},
	{
		name: "RedLock: that others had it hides that Redis refuses now", file: "redlock.go", suite: tests(inMemory, "TestRedLockTellsThePresent"),
		old: "before != nil && f.withReason <= spare",
		new: "before != nil",
	},
	{
		name: "RedLock: parts without enough replicas had no effect", file: "compositeacquire.go", suite: tests(inMemory, "TestRedLockWithTooFewReplicas"),
		old: "errors.Is(err, ErrNotReplicated) || ",
		new: "",
	},
	{
		name: "drivers: an error shows the password that the server repeats", file: "driver/error.go", suite: tests("driver", "TestServerErrorThatRepeatsAPassword"),
		old: "\terr = redact.Arguments(err)\n",
		new: "\t_ = redact.Arguments\n",
	},
}
