package main

// The dirs of tests.
const (
	engine    = "internal/engine"
	calls     = "internal/call"
	ledger    = "internal/ledger"
	waiting   = "internal/waiting"
	watchdog  = "internal/watchdog"
	fair      = "test/fair"
	handover  = "test/handover"
	hold      = "test/hold"
	line      = "test/line"
	multi     = "test/multi"
	owner     = "test/owner"
	permits   = "test/permits"
	rights    = "test/rights"
	rw        = "test/rw"
	scripts   = "test/scripts"
	servers   = "test/servers"
	topology  = "test/topology"
	simulated = "robustness"
)

// mutants are all, by what they break.
//
//nolint:goconst // a function has several
var mutants = []mutant{
	// Renewal, and trust.
	{
		name: "renewal: goes on after unlock", in: "endWatch", suite: simulation("mutex", "-class", "a"),
		old: "e.watchdog.Remove(s.entry)",
		new: "e.watchdog.Deadline(s.entry) > 0",
	},
	{
		name: "renewal: not repeated after an error", in: "Watchdog.answered", suite: tests(watchdog, "TestTransientErrorsAreBorne"),
		old: "now.Add(pause(e.lease()))",
		new: "0",
	},
	{
		name: "renewal: a full batch forgets the next one", in: "look", suite: tests(watchdog, "TestMoreThanABatch"),
		old: "members[n:]",
		new: "members[min(n+1, len(members)):]",
	},
	{
		name: "renewal: one lost reply ends a hold that was just granted", in: "Entry.lease", suite: tests(watchdog, "TestShortGrantBearsALostRenewal"),
		old: "e.short > 0",
		new: "false",
	},
	{
		name: "renewal: a hold that was waited for has a short lease for long", in: "Watchdog.Watch", suite: tests(hold, "TestAHoldThatWasWaitedForIsAsGoodAsAnother"),
		old: "shortHold",
		new: "tick",
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
		name: "renewal: who does not hold the lock is renewed", in: "readRenewals", suite: tests(hold, "TestDeletedKeyIsNoticedAtTheNextRenewal"),
		old: "count > 0",
		new: "count >= 0",
	},
	{
		name: "renewal: shortens what was promised", in: "common.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('PTTL', key) < tonumber(ttl)",
		new: "tonumber(ttl) > 0",
	},
	{
		name: "renewal: leaves out the reads of a reader", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "set_reads(redis.call, seat, n, n, ttl)", //nolint:dupword // it is so
		new: "",
	},
	{
		name: "renewal: permits are not renewed", in: "permits.lua", suite: simulation("semaphore", "-class", "a"),
		old: "'ZADD', key,",
		new: "'ZADD', key, 'NX',",
	},
	{
		name: "renewal: late ones have an effect", in: "frame.lua", suite: tests(hold, "TestLateRenewalsDoNotOutliveTrust"),
		old: "at - ARGV[1] > 0",
		new: "at - ARGV[1] > 3600000",
	},
	{
		name: "trust: counts from the receipt", in: "acquisition.granted", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "watch(h, res.Sent",
		new: "watch(h, now",
	},
	{
		name: "trust: a renewal counts from its receipt", in: "Watchdog.answered", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "raise(e, sent,",
		new: "raise(e, now,",
	},
	{
		name: "trust: moved by a renewal without an answer", in: "Watchdog.answered", suite: tests(watchdog, "TestUnansweredRenewalsEndAtTheDeadline"),
		old: "== Unknown:",
		new: "== Unknown: d.raise(e, sent, m.ttl)",
	},
	{
		name: "trust: a late answer lifts the semaphore's end", in: "learnObjectEnd", suite: tests(permits, "TestLateAnswersDoNotMoveTheEnd"),
		old: "sent < s.ObjectAsOf",
		new: "false",
	},
	{
		name: "trust: ignores that the host was suspended", in: "Watchdog.now", suite: tests(watchdog, "TestSuspendedHostLosesItsHolds"),
		old: "d.clock(time.Now())",
		new: "mono.Read(time.Now())",
	},
	{
		name: "trust: a wall clock that is set is a suspension", in: "sleeper.find", suite: tests("internal/mono", "TestSuspensionIsMeasured"),
		old: "asleep, measured := s.measure()",
		new: "asleep, measured := time.Duration(0), false",
	},
	{
		name: "watchdog: what a clock that is set may tell is not looked into", in: "Watchdog.lookForJump", suite: tests(watchdog, "TestWallClockThatIsSet"),
		old: "e.check = true",
		new: "_ = e",
	},
	{
		name: "trust: an answer that is read late does not count", in: "Watchdog.AnsweredLate", suite: tests(watchdog, "TestLateAnswer"),
		old: "d.raise(e, sent, one.TTL)",
		new: "_ = sent",
	},
	{
		name: "trust: an answer that is read late ends a hold", in: "Watchdog.AnsweredLate", suite: tests(watchdog, "TestLateAnswerThatItIsGone"),
		old: "e.check = true",
		new: "e.deadline = 1",
	},
	{
		name: "trust: a renewal takes effect after the hold is lost", in: "renewTogether", suite: tests(hold, "TestLateRenewalsDoNotOutliveTrust"),
		old: "min(in.Left, e.Timeout)",
		new: "10*e.Timeout",
	},
	{
		name: "call: an attempt is given up before its answer can be read", in: "bounds.expire", suite: tests("internal/call", "TestAttemptWaitsForReaders"),
		old: "range turns",
		new: "range 0 * turns",
	},
	{
		name: "trust: an answer that comes too late", in: "untrusted", suite: tests(hold, "TestLeaseShorterThanTheWay"),
		old: "deadline <= now",
		new: "deadline < 0",
	},
	{
		name: "trust: a nested hold begins the time of WithMaxHold anew", in: "side.watch", suite: tests(owner, "TestMaxHoldOfALockInOneThatEnded"),
		old: "s.MaxHold.IsZero() && ",
		new: "",
	},
	{
		name: "trust: a nested hold is trusted beyond WithMaxHold", in: "Watch", suite: tests(owner, "TestMaxHoldOfALockInOneThatEnded"),
		old: "d.reach(e, sent",
		new: "d.Trust(sent",
	},
	{
		name: "trust: a nested hold is handed out when WithMaxHold is over", in: "untrusted", suite: tests(owner, "TestMaxHoldOfALockInOneThatEnded"),
		old: "!s.MaxHold.IsZero()",
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
		name: "acquire: an increment in place of a state", in: "mutex.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "redis.pcall('HSET', KEYS[1], seat, to)",
		new: "redis.pcall('HINCRBY', KEYS[1], seat, 1)",
	},
	{
		name: "acquire: an unknown one is not cleaned up", in: "acquisition.abandon", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "a.addInDoubt()",
		new: "",
	},
	{
		name: "acquire: an earlier one comes behind a later release", in: "clear", suite: tests(hold, "TestAttemptBehindALaterRelease"),
		old: "a.engine.Calls.Outlast(ctx, a.account.attemptsInDoubt())",
		new: "",
	},
	{
		name: "acquire: a late release hits the next hold", in: "clear", suite: tests(owner, "TestLateReleaseAfterLoss"),
		old: "a.engine.Calls.Outlast(ctx, res.Unknown)",
		new: "",
	},
	{
		name: "acquire: cleaned up once, and not after the limit", in: "side.reconcile", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "asked >= end",
		new: "asked >= end || ran",
	},
	{
		name: "acquire: the attempts before the granted one are forgotten", in: "acquisition.granted", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "a.addInDoubt()",
		new: "",
	},
	{
		name: "acquire: a waiter forgets its unanswered attempts", in: "wait.wasRefused", suite: tests(hold, "TestRefusedWaiterRemembersItsSends"),
		old: "attempt.Expiry() < res.Sent",
		new: "true",
	},
	{
		name: "acquire: the refusal of an earlier call of the owner is forgotten", in: "refusedSince", suite: tests(owner, "TestRefusalOfTwoCallsOfOneOwnerThatEndTogether"),
		old: "return last.refusal",
		new: "return nil",
	},
	{
		name: "acquire: the refusal of an earlier call of the owner is told for ever", in: "refusedSince", suite: tests(owner, "TestErrorOfASilentRedisBehindARefusal"),
		old: "!last.at.After(then) || ",
		new: "",
	},
	{
		name: "acquire: the pause behind a first attempt exceeds the wait", in: "Caller.doAgain", suite: tests(hold, "TestWaitIsNotExceeded"),
		old: "Sleep(ctx, pause)",
		new: "time.Sleep(pause)",
	},
	{
		name: "acquire: those behind one that fails try for as long", in: "wait.carryOut", suite: tests(hold, "TestWaitersFailTogether"),
		old: "w.waiter.Fail(w.res.Why())",
		new: "",
	},
	{
		name: "acquire: one that has just come fails with the one before", in: "policyOf", suite: tests(hold, "TestWaitersFailTogether"),
		old: "timeout / 2",
		new: "0",
	},
	{
		name: "acquire: one that asks leaves what the one before has met to the next", in: "wait.promoted", suite: tests(hold, "TestWaitersFailTogether"),
		old: "why := w.waiter.TakeFailure()",
		new: "why := w.waiter.TakeFailure()\n\tw.waiter.Fail(why)",
	},
	{
		name: "acquire: an outage is not told", in: "wait.carryOut", suite: tests(hold, "TestOutageOfAWaiterIsTold"),
		old: "do.ReportOutage",
		new: "false",
	},
	{
		name: "acquire: both spellings of a name are taken", in: "spellings.meet", suite: tests(owner, "TestTwoSpellingsOfAName"),
		old: "*met != name",
		new: "false",
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
		name: "acquire: replicas are not counted", in: "untrusted", suite: tests(topology, "TestReplicaAck"),
		old: "e.Replicas",
		new: "0",
	},
	{
		name: "acquire: the prologue sets a lease of its own", in: "mutex.lua", suite: tests(scripts, "TestPrologues"),
		old: "redis.call('PEXPIRE', KEYS[1], lease)",
		new: "redis.call('PEXPIRE', KEYS[1], 30000)",
	},
	{
		name: "acquire: an overwritten key is taken for free", in: "mutex.lua", suite: tests(servers, "TestOtherKindOfLock"),
		old: "return 0, nil, false, redis.error_reply(OTHER_KIND)",
		new: "return 1, nil, false",
	},

	// Release.
	{
		name: "release: announces nothing", in: "waitlist.lua", suite: tests(line, "TestLineRuleHandOverHoldsBack"),
		old: "redis.pcall(ARGV[3], ARGV[2], ARGV[4])",
		new: "0",
	},
	{
		name: "release: a partial one frees the lock", in: "release.lua", suite: simulation("mutex", "-class", "a"),
		old: "to > 0",
		new: "to > 9",
	},
	{
		name: "release: an inner one frees the lock at once", in: "mutex.lua", suite: tests(scripts, "TestScriptsGoFromCountToCount"),
		old: "ARGV[7] == '0' and ",
		new: "",
	},
	{
		name: "release: frees another's lock", in: "release.lua", suite: simulation("mutex", "-class", "a"),
		old: "have == 0",
		new: "have == 'never'",
	},
	{
		name: "release: an unanswered one is not waited for", in: "giveBack", suite: tests(hold, "TestLateReleaseDoesNotHitTheNextHold"),
		old: "s.addInDoubt(res.Unknown, 0, true)",
		new: "",
	},
	{
		name: "release: one that Redis refused is not repeated", in: "giveBack", suite: tests(rw, "TestRefusedReleaseBesideARead"),
		old: "freeTurn(true)",
		new: "freeTurn(false)",
	},
	{
		name: "release: one that was not sent may have been carried out", in: "side.noteRelease", suite: tests(owner, "TestUnlockBehindAReleaseThatWasNotSent"),
		old: "if len(res.Unknown) > 0",
		new: "if res.Err != nil",
	},
	{
		name: "close: an outage counts as a refusal", in: "owes", suite: tests(line, "TestCloseOutlivesTheLease"),
		old: `call.Code(a.failure) == ""`,
		new: "false",
	},
	{
		name: "close: what a call has left is given up after one call more", in: "Lock.repeat", suite: tests(permits, "TestCloseGoesOnWithCleanUps"),
		old: `owner != "" && e.Closing.Err() != nil && call.Code(res.Why()) != ""`,
		new: "e.Closing.Err() != nil",
	},
	{
		name: "close: what an owner has left is given up after one call more", in: "Lock.repeat", suite: tests(line, "TestCloseGivesBackWhatWasKeptBefore"),
		old: ` && call.Code(res.Why()) != ""`,
		new: "",
	},
	{
		name: "close: a client's hash that is left is not told", in: "Presence.withdrawn", suite: tests("internal/presence", "TestFarewell"),
		old: "p.kept = err",
		new: "p.kept = nil",
	},
	{
		name: "close: a hash that was never written is told", in: "Presence.sent", suite: tests("internal/presence", "TestNothingStands"),
		old: "p.written = p.stands",
		new: "",
	},
	{
		name: "close: what has ended with its lease is owed", in: "owes", suite: tests(line, "TestCloseOutlivesTheLease"),
		old: "mono.Now() >= until",
		new: "false",
	},
	{
		name: "release: repeated for too short a time", in: "releaseExcess", suite: tests(hold, "TestReleaseIsRepeatedForTheWholeLease"),
		old: "s.keyGoneBy()",
		new: "mono.Now()",
	},
	{
		name: "release: the owner's turn is not given back", in: "account.freeTurn", suite: simulation("mutex", "-class", "a"),
		old: "a.turn.Free()\n\t\treturn",
		new: "return",
	},
	{
		name: "release: MinHold keeps nobody out", in: "side.release", suite: tests(hold, "TestMinHoldEnds"),
		old: "rest > 0",
		new: "rest < 0",
	},
	{
		name: "release: Close keeps what is held", in: "evict", suite: tests(line, "TestCloseEndsEverything"),
		old: "a.releaseLater()",
		new: "",
	},

	// Reentrancy, and owners.
	{
		name: "owner: a former holder re-enters", in: "claimIn", suite: simulation("mutex", "-class", "a"),
		old: "errors.Is(err, lockerr.Lost) {\n\t\t\treturn claim{owner: w.owner, account: w.account, held: w.held, lost: err",
		new: "!errors.Is(err, nil) {\n\t\t\treturn claim{owner: w.owner, account: w.account",
	},
	{
		name: "owner: NonReentrant nests", in: "acquisition.run", suite: tests(servers, "TestMutexOptions"),
		old: "a.change.To > 1",
		new: "a.change.To > 2",
	},
	{
		name: "owner: a hold's context is of all locks", in: "within.Value", suite: tests(owner, "TestHoldsContextIsOfOneLock"),
		old: "of.Same(w.lock)",
		new: "of.Engine == w.lock.Engine",
	},
	{
		name: "owner: an inner unlock gives back all", in: "Side.GiveBack", suite: simulation("mutex", "-class", "a"),
		old: "To: wanted",
		new: "To: 0",
	},
	{
		name: "owner: nested in nothing", in: "acquire.lua", suite: tests(hold, "TestNestedIntoNothingIsLost"),
		old: "from > 0",
		new: "from > 9",
	},
	{
		name: "owner: an undisclosed one is used by whoever read it", in: "accounts.byHand", suite: tests(handover, "TestHandOverLeaving"),
		old: "!found.disclosed()",
		new: "false",
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
		old: "a.side.Token == 0",
		new: "true",
	},
	{
		name: "token: an adopted hold has none", in: "adopt.lua", suite: simulation("fenced", "-class", "a"),
		old: "-- from common: token",
		new: "local token",
	},
	{
		name: "token: that of the run of holds before", in: "acquisition.granted", suite: tests(owner, "TestTokensOfOneOwner"),
		old: "\t\ts.Token = 0\n\t}\n\tif",
		new: "\t}\n\tif s.Token != 0 {\n\t} else if",
	},

	// Read-write locks.
	{
		name: "read-write: a read hold counts twice", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "redis.pcall('HSET', KEYS[1], owner, to)",
		new: "redis.pcall('HSET', KEYS[1], owner, to + 1)",
	},
	{
		name: "read-write: a reader beside the writer", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "return mine and ALL or 0, holder",
		new: "return ALL, holder",
	},
	{
		name: "read-write: a writer beside readers", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "if reading(reader) > 0 then",
		new: "if reading(reader) > 9 then",
	},
	{
		name: "read-write: readers starve a writer", in: "rw.lua", suite: tests(line, "TestRWLineWritersFirst"),
		old: "local front = in_front()",
		new: "local front = false",
	},
	{
		name: "read-write: a writer has no place in front", in: "waitlist.lua", suite: tests(line, "TestRWLineWritersFirst"),
		old: "front and us - AHEAD or us",
		new: "us",
	},
	{
		name: "read-write: whoever is first is in front", in: "rw.lua", suite: tests(scripts, "TestPlaceInFront"),
		old: "(tonumber(first[2]) or 0) >= 0",
		new: "not first[2]",
	},
	{
		name: "read-write: readers make way for a writer that is gone", in: "rw.lua", suite: tests(line, "TestRWLineTheDead"),
		old: "elseif grantable(first[1]) then",
		new: "elseif first[1] then",
	},
	{
		name: "read-write: behind a writer in front that is gone another one is not seen", in: "rw.lua", suite: tests(line, "TestRWLineTheDead"),
		old: "remove_entry(first[1])",
		new: "return false",
	},
	{
		name: "read-write: a place in front is the last", in: "waitlist.lua", suite: tests(scripts, "TestPlaceInFront"),
		old: "new == 1 and not front and",
		new: "new == 1 and",
	},
	{
		name: "read-write: the last reader wakes nobody", in: "rw.lua", suite: tests(servers, "TestReadLockAfterTheLongestReader"),
		old: "not seen or lives - longest > 1000",
		new: "false",
	},
	{
		name: "read-write: who leaves readers sooner is not announced", in: "release.lua", suite: tests(servers, "TestReadLockAfterTheLongestReader"),
		old: "if hurry then",
		new: "if false then",
	},
	{
		name: "read-write: a reader that leaves ends the others' lock", in: "rw.lua", suite: simulation("readwrite", "-class", "a"),
		old: "elseif longest == 0 then",
		new: "elseif longest >= 0 then",
	},
	{
		name: "read-write: dead readers keep writers out", in: "rw.lua", suite: tests(rw, "TestP6_CrashedReadersAreDropped"),
		old: "return ttl > 0 and n or 0, ttl, true",
		new: "return n, math.max(ttl, 1), true",
	},
	{
		name: "read-write: an argument keeps the server busy", in: "rw.lua", suite: tests(rights, "TestHostileArguments"),
		old: "n = math.max(0, math.min(n, math.floor(unspent / cost)))",
		new: "n = math.max(0, n)",
	},
	{
		name: "permits: an acquire takes more than a hold can have", in: "permits.lua", suite: tests(rights, "TestHugeTextsAreBounded"),
		old: "#ARGV[10] > 16 * MOST_IDS or",
		new: "",
	},
	{
		name: "read-write: a lost writer stays beside its longer read", in: "side.forgetRun", suite: simulation("readwrite", "-class", "a"),
		old: "mono.Now() < other.End()",
		new: "false",
	},
	{
		name: "read-write: a writer that Redis does not take back is left beside its read", in: "account.freeTurn", suite: tests(rw, "TestRefusedReleaseBesideARead"),
		old: "a.standsOn()",
		new: "false",
	},
	{
		name: "read-write: a second read is nested in nothing", in: "acquire.lua", suite: tests(rw, "TestSecondReadNestedInALostWrite"),
		old: "have == 0 or changed and ARGV[10]",
		new: "have == 0",
	},
	{
		name: "read-write: a release lets in one reader", in: "waitlist.lua", suite: tests(line, "TestRWLineInOrder"),
		old: "local MOST_ENTRIES = 64",
		new: "local MOST_ENTRIES = 1",
	},
	{
		name: "read-write: a release lets in any number of readers", in: "waitlist.lua", suite: tests(line, "TestRWLineOfManyReaders"),
		old: "local MOST_ENTRIES = 64",
		new: "local MOST_ENTRIES = 6400",
	},
	{
		name: "read-write: a writer is let in beside readers", in: "rw.lua", suite: tests(line, "TestRWLineInOrder"),
		old: "writes(seat) and ALL or what",
		new: "writes(seat) and 1 or what",
	},
	{
		name: "read-write: a reader is let in without a key", in: "rw.lua", suite: tests(line, "TestRWLineGrants"),
		old: "set_reads(redis.pcall, owner, from, to + 0, ttl)",
		new: "false",
	},
	{
		name: "read-write: one who reads is let in once more", in: "rw.lua", suite: tests(line, "TestRWLineOfOneWhoReads"),
		old: "what and seat ~= ARGV[5] and reading(seat) > 0 and 0 or 1",
		new: "1",
	},
	{
		name: "read-write: the last reader lets in nobody", in: "rw.lua", suite: tests(line, "TestRWLineInOrder"),
		old: "KEYS[2]) / 2 * ALL",
		new: "KEYS[2]) / 2 * (ALL - 1)",
	},
	{
		name: "read-write: the last one beside the dead lets in nobody", in: "rw.lua", suite: tests(line, "TestRWLineDeadReaders"),
		old: "redis.call('DEL', KEYS[1])\n    return ALL\n  end\n  for",
		new: "redis.call('DEL', KEYS[1])\n    return 0\n  end\n  for",
	},
	{
		name: "read-write: a writer that leaves lets in nobody", in: "rw.lua", suite: tests(line, "TestRWLineInOrder"),
		old: "redis.call('DEL', KEYS[1]) * ALL",
		new: "redis.call('DEL', KEYS[1]) * 0",
	},
	{
		name: "read-write: one that gives up keeps what it was granted", in: "leave.lua", suite: tests(line, "TestRWLineR1_Leaving"),
		old: "count(ARGV[5]) == 1",
		new: "false",
	},
	{
		name: "read-write: a writer that gives up lets in nobody", in: "rw.lua", suite: tests(line, "TestRWLineReaderBehindAWriter"),
		old: "mode == 'read' and ALL - 1 or mode",
		new: "mode",
	},
	{
		name: "read-write: a reader that joins stands in line still", in: "acquire.lua", suite: tests(line, "TestRWLineReadersJoin"),
		old: "not (joins and some == 1)",
		new: "not joins",
	},
	{
		name: "read-write: a writer that takes a free lock stands in line still", in: "acquire.lua", suite: tests(line, "TestRWLinePastTheDead"),
		old: "elseif usable and not mine and",
		new: "elseif false and",
	},
	{
		name: "read-write: TryLock takes a free lock from the line", in: "acquire.lua", suite: tests(line, "TestLineR16_TryLock"),
		old: "if not ends then",
		new: "if listed and not ends then",
	},
	{
		name: "read-write: one of Redisson's among the readers is not seen", in: "rw.lua", suite: tests(line, "TestRWLineR8_RedissonReads"),
		old: "return not ours(reader) and reader or nil",
		new: "return nil",
	},
	{
		name: "read-write: the lock is never left to Redisson's", in: "waitlist.lua", suite: tests(line, "TestLineR7_RedissonWaits"),
		old: "free >= SHARE and",
		new: "free > SHARE and",
	},
	{
		name: "read-write: a downgrade is left to Redisson's", in: "waitlist.lua", suite: tests(scripts, "TestDowngradeIsNotLeftToOthers"),
		old: "free >= SHARE and",
		new: "free > 0 and",
	},
	{
		name: "read-write: a forced unlock lets in nobody", in: "force.lua", suite: tests(line, "TestRWLineForce"),
		old: "grant_room(free)",
		new: "",
	},
	{
		name: "read-write: a forced unlock of most of a crowd leaves the others", in: "force.lua", suite: tests(rights, "TestCrowdIsForced"),
		old: "seats[''] = 0",
		new: "",
	},
	{
		name: "read-write: a downgrade with MinHold lets in nobody", in: "retain.lua", suite: tests(line, "TestRWLineDowngrade"),
		old: "grant_room((drop({[ARGV[5]] = have})))",
		new: "drop({[ARGV[5]] = have})",
	},
	{
		name: "read-write: MinHold ends the read of the one who writes", in: "retain.lua", suite: tests(line, "TestRWLineDowngrade"),
		old: "if wrong then\n  grant",
		new: "if false then\n  grant",
	},
	{
		name: "read-write: MinHold tells nobody", in: "retain.lua", suite: tests(line, "TestLineR15_BesideTheLine"),
		old: "send_retry(0)",
		new: "",
	},
	{
		name: "read-write: a downgrade that is answered too late loses the write hold", in: "notDowngraded", suite: tests(rw, "TestDowngradeAnsweredTooLate"),
		old: "errors.Is(err, ErrLost)",
		new: "false",
	},
	{
		name: "owner: Shutdown refuses what is nested", in: "acquisition.enter", suite: tests(rw, "TestReadNestedInALostWrite"),
		old: "a.stopping = e.Closing",
		new: "",
	},
	{
		name: "acquire: one attempt more during Shutdown", in: "span.bound", suite: tests(owner, "TestShutdownBeforeTheNextAttempt"),
		old: "s.stopping.Err() != nil",
		new: "false",
	},
	{
		name: "errors: what another call came to is taken for this one's", in: "TooLate", suite: tests(hold, "TestAContextEndsWithAnotherCallsError"),
		old: "OwnBound(context.Cause(ctx))",
		new: "errors.Is(context.Cause(ctx), call.ErrNoAnswer)",
	},
	{
		name: "errors: a client's own error is taken for the end of another's time", in: "ForUser", suite: tests(hold, "TestAContextEndsWithAnotherCallsError"),
		old: "OwnBound(err)",
		new: "false",
	},
	{
		name: "calls: another client's end is taken for this one's", in: "mayHaveRun", suite: tests("internal/call", "TestADriversErrorThatWrapsErrClosed"),
		old: "err == nil",
		new: "err == nil || errors.Is(err, lockerr.Closed)",
	},
	{
		name: "errors: one who waits for its owner's turn says that Redis is silent", in: "acquisition.takeTurn", suite: tests(owner, "TestErrorBehindAnEarlierCallOfTheOwner"),
		old: "a.last = a.account.refusedSince(a.started)",
		new: "",
	},
	{
		name: "multi-lock: the caller waits until its parts are given back", in: "rollback", suite: tests(multi, "TestMultiLockWhoseFirstClientIsClosed"),
		old: "\n\tcase <-ctx.Done():",
		new: "",
	},
	{
		name: "downgrade: the end of its context is taken for that of the hold", in: "notDowngraded", suite: tests(rw, "TestDowngradeUnderAContextThatHasEnded"),
		old: "outer.Err() != nil",
		new: "false",
	},
	{
		name: "downgrade: WithMaxHold begins anew", in: "fitLease", suite: tests(rw, "TestBothSidesKeepToMaxHold"),
		old: "= writes.MaxHold",
		new: "= 0",
	},
	{
		name: "multi-lock: a part is refused for what WithMaxHold leaves", in: "tryPart", suite: tests(rw, "TestBothSidesKeepToMaxHold"),
		old: "Cuts = true",
		new: "Cuts = false",
	},
	{
		name: "downgrade: a fixed lease is refused for what WithMaxHold leaves", in: "Downgrade", suite: tests(rw, "TestBothSidesKeepToMaxHold"),
		old: "Cuts: true",
		new: "Cuts: false",
	},
	{
		name: "errors: a renewal without an answer is told as the caller's deadline", in: "bounds.expire", suite: tests(hold, "TestALossIsNotTheCallersDeadline"),
		old: "s.cut(b, ErrNoAnswer)",
		new: "s.cut(b, context.DeadlineExceeded)",
	},
	{
		name: "owner: the next hold hides from Unlock that the lock was taken", in: "lostBefore", suite: tests(owner, "TestUnlockOfWhatWasTakenBesideTheNextHold"),
		old: "was.run.Taken()",
		new: "s.Run().Taken()",
	},
	{
		name: "read-write: each refused release is tried again by itself", in: "tryAgain", suite: tests(rw, "TestOneReleaseAgain"),
		old: "begun ||",
		new: "begun && false ||",
	},
	{
		name: "owner: Unlock of what was taken says nothing", in: "Side.Released", suite: tests(owner, "TestUnlockOfWhatWasTaken"),
		old: "ch.Confirmed == 0",
		new: "ch.Confirmed >= 0",
	},
	{
		name: "read-write: the last of those who share gives nothing back", in: "leaveShared", suite: simulation("readwrite", "-class", "a"),
		old: "s.Sharing() < 2",
		new: "s.Sharing() < 1",
	},
	{
		name: "read-write: readers join for ever", in: "Hold.joinOthers", suite: tests(rw, "TestWritersFirst_ReadersWhoShare"),
		old: ", now > open.until",
		new: "",
	},

	// Fair locks.
	{
		name: "fair: a cancelled waiter stays in line", in: "side.leave", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "s.lock.Requests.Leave(owner)",
		new: "script.Request{}",
	},
	{
		name: "fair: the next in line is not told", in: "fair.lua", suite: tests(scripts, "TestFairTells"),
		old: "elseif granted == 0 then",
		new: "elseif granted == 2 then",
	},
	{
		name: "fair: who leaves does not tell the next", in: "fair.lua", suite: tests(scripts, "TestLeave"),
		old: "return free and 1 or 0",
		new: "return 0",
	},
	{
		name: "fair: the prologue of a release passes the lock to nobody", in: "fair.lua", suite: tests(scripts, "TestPrologues"),
		old: "grant_room(1)",
		new: "",
	},
	{
		name: "fair: one of Redisson's that comes to stand first is not spared", in: "fair.lua", suite: tests(scripts, "TestFairSparesRedisson"),
		old: "free and not head_left",
		new: "free",
	},
	{
		name: "fair: a nested acquire leaves an entry behind", in: "fair.lua", suite: tests(fair, "TestFairNestedTakesNoPlace"),
		old: "remove(ARGV[5])",
		new: "",
	},
	{
		name: "fair: the last waiter to give up keeps the dead in line", in: "fair.lua", suite: tests(fair, "TestL9_TheDeadLeaveNothing"),
		old: "trim(first_live(0))",
		new: "",
	},
	{
		name: "fair: a release grants the lock to nobody", in: "fair.lua", suite: tests(scripts, "TestRelease"),
		old: "local id, length, _, channel = grantable(seat)",
		new: "local id, length, channel",
	},
	{
		name: "fair: who is granted the lock is not told", in: "fair.lua", suite: tests(line, "TestLineIsServedInOrder"),
		old: "publish(id, channel)",
		new: "",
	},
	{
		name: "fair: a grant does not end", in: "fair.lua", suite: tests(line, "TestLineR3_TheDeaf"),
		old: "take(seat, 0, '1', length)",
		new: "redis.pcall('HSET', KEYS[1], seat, '1') ~= 1",
	},
	{
		name: "fair: who was granted stands in line still", in: "fair.lua", suite: tests(scripts, "TestRelease"),
		old: "remove(queue[1])",
		new: "",
	},
	{
		name: "fair: a release grants the lock to one behind the dead who may not be next", in: "fair.lua", suite: tests(scripts, "TestFairBehindManyDead"),
		old: "granted == 0 and head and not more and grant(head)",
		new: "granted == 0 and head and grant(head)",
	},
	{
		name: "fair: one of Redisson's in the same line is not seen", in: "fair.lua", suite: tests(scripts, "TestFairRedisson"),
		old: "new and (foreign > 0 or is_foreign(holder)) and 1 or 0",
		new: "0",
	},
	{
		name: "fair: who waits beside Redisson's misses that it is next", in: "wait.wasRefused", suite: tests(fair, "TestFairBesideRedisson"),
		old: "found.Beside",
		new: "false",
	},
	{
		name: "fair: hundreds ask as often as ten", in: "fair.lua", suite: tests(scripts, "TestHints"),
		old: "math.max(HEARTBEAT, SPACING *",
		new: "math.min(HEARTBEAT, SPACING *",
	},
	{
		name: "fair: who asks rarely is believed as briefly as others", in: "fair.lua", suite: tests(scripts, "TestHints"),
		old: "at + 3 * interval",
		new: "at + 3 * HEARTBEAT",
	},
	{
		name: "fair: a clock that is set back keeps the dead alive", in: "fair.lua", suite: tests(scripts, "TestFairClockSetBack"),
		old: "if back > 0 then",
		new: "if back > at then",
	},
	{
		name: "fair: each ask counts the wait anew", in: "fair.lua", suite: tests(scripts, "TestFairRedisson"),
		old: "not joined and redis.pcall('HGET', REQUESTS, seat)",
		new: "nil",
	},
	{
		name: "fair: what cannot be written to the asks is", in: "fair.lua", suite: tests(topology, "TestMovingSlot"),
		old: "if not (recorded and id) then",
		new: "if not id then",
	},

	// Semaphores.
	{
		name: "permits: given back twice", in: "permits.lua", suite: simulation("semaphore", "-class", "a"),
		old: "'INCRBY', KEYS[1], '1'",
		new: "'INCRBY', KEYS[1], '2'",
	},
	{
		name: "permits: one more than there are", in: "acquire.lua", suite: simulation("semaphore", "-class", "a"),
		old: "or need > left)",
		new: "or need > left + 1)",
	},
	{
		name: "permits: one that was prolonged outlives its hold", in: "side.forgetRun", suite: tests(permits, "TestShortLeaseThatIsProlongedByID"),
		old: " || s.lock.Permits != nil",
		new: "",
	},
	{
		name: "permits: what another program asks for in line is granted", in: "permits.lua", suite: tests(rights, "TestHugeTextsAreBounded"),
		old: "or #what > 16 * MOST_IDS",
		new: "",
	},

	{
		name: "permit line: in a turn of others a waiter takes what is left to them", in: "acquire.lua", suite: tests(scripts, "TestPermitsLeaveOne"),
		old: "          left = left - share\n",
		new: "",
	},
	{
		name: "line: those outside have every turn", in: "waitlist.lua", suite: tests(line, "TestLineEdgeOutsideInTurns"),
		old: "set_yield(0, at, length) -- otherwise",
		new: "redis.pcall('DEL', YIELD) -- otherwise",
	},
	{
		name: "line: x is granted to who waits for {x}", in: "waitlist.lua", suite: tests(line, "TestLineEdgeTwoSpellings"),
		old: "spelling == SPELLING",
		new: "true",
	},
	{
		name: "line: who extends has its lease", in: "engine.side.renewed", suite: tests(line, "TestLineEdgeDetachedAfterExtend"),
		old: "ttl >= s.RenewedLease().Truncate(time.Millisecond)",
		new: "ttl > 0",
	},
	{
		name: "permit line: grants more than there are", in: "waitlist.lua", suite: simulation("semaphore", "-class", "a"),
		old: "need and need > left then",
		new: "need and need > left + 1 then",
	},
	{
		name: "permit line: what is granted is not taken off", in: "permits.lua", suite: tests(scripts, "TestPermitsRelease"),
		old: "add_available(0 - new) --",
		new: "-- ",
	},
	{
		name: "permit line: what an own call has taken is granted again", in: "permits.lua", suite: tests(scripts, "TestPermitsAreGrantedOnce"),
		old: " or redis.call('ZSCORE', KEYS[2], string.sub(what, 1, 16))",
		new: "",
	},
	{
		name: "permit line: what an own call has taken keeps a shorter lease", in: "permits.lua", suite: tests(scripts, "TestPermitsAreGrantedOnce"),
		old: "redis.call('ZADD', KEYS[2], expiry, id)",
		new: "id = nil",
	},
	{
		name: "permit line: one is served at a time", in: "waitlist.lua", suite: tests(scripts, "TestPermitsRelease"),
		old: "local MOST_ENTRIES = 64",
		new: "local MOST_ENTRIES = 1",
	},
	{
		name: "permit line: all are looked at", in: "waitlist.lua", suite: tests(scripts, "TestPermitsServeMany"),
		old: "local MOST_ENTRIES = 64",
		new: "local MOST_ENTRIES = 640",
	},
	{
		name: "permit line: who is left over is not told to ask", in: "waitlist.lua", suite: tests(scripts, "TestPermitsServeMany"),
		old: "      send_retry(0)\n      break",
		new: "      break",
	},
	{
		name: "permit line: who wants many is overtaken by those behind it", in: "permits.lua", suite: tests(scripts, "TestPermitsOfMany"),
		old: "if age and age >= PATIENCE or",
		new: "if true or",
	},
	{
		name: "permit line: nobody is ever let by", in: "permits.lua", suite: tests(scripts, "TestPermitsOfMany"),
		old: "if age and age >= PATIENCE or",
		new: "if",
	},
	{
		name: "permit line: who wants more than there are keeps others waiting", in: "permits.lua", suite: tests(scripts, "TestPermitsOfTooMany"),
		old: " or n > available + redis.call('ZCARD', KEYS[2])",
		new: "",
	},
	{
		name: "permit line: those behind one that is served know of less than there are", in: "waitlist.lua", suite: tests(scripts, "TestPermitsExpire"),
		old: "      mine, left = mine or seat == me, left - (need or 0)\n",
		new: "      mine, left = mine or seat == me, left - (need or 0)\n      if mine then return left, granted, mine end\n",
	},
	{
		name: "permit line: who does not listen keeps others waiting", in: "waitlist.lua", suite: tests(scripts, "TestPermitsDropTheDead"),
		old: "elseif what and not need then",
		new: "elseif not need then",
	},
	{
		name: "permit line: one that has gone lets others by", in: "waitlist.lua", suite: tests(scripts, "TestPermitsOfManyInTurns"),
		old: "and redis.pcall('HGET', REQUESTS, seat)",
		new: "",
	},
	{
		name: "permit line: who is held back is not noted", in: "permits.lua", suite: tests(scripts, "TestPermitsOfMany"),
		old: "    hold_back(blocker)\n",
		new: "",
	},
	{
		name: "permit line: a grant does not say when the semaphore ends", in: "waitlist.lua", suite: tests(scripts, "TestPermitsEnd"),
		old: "ends and retry_message(id, 0) or id",
		new: "id",
	},
	{
		name: "permit line: a grant outlives its semaphore", in: "permits.lua", suite: tests(scripts, "TestPermitsEnd"),
		old: "redis.call('PEXPIRE', KEYS[2], math.max(lives, 1))",
		new: "",
	},
	{
		name: "permit line: all permits are left to Redisson's", in: "waitlist.lua", suite: tests(scripts, "TestPermitsLeaveOne"),
		old: "grant_room(free - share)",
		new: "grant_room(yields and 0 or free)",
	},
	{
		name: "permit line: none is left to Redisson's", in: "permits.lua", suite: tests(line, "TestLineR7_RedissonWaits"),
		old: "local SHARE = 1",
		new: "local SHARE = 0",
	},
	{
		name: "permit line: a turn ends though Redisson has not had it", in: "waitlist.lua", suite: tests(scripts, "TestPermitsLeaveOneBesideRedissons"),
		old: "theirs and not hint then",
		new: "theirs then",
	},
	{
		name: "permit line: a turn lasts though nobody listens", in: "waitlist.lua", suite: tests(scripts, "TestPermitsLeaveNothingToNobody"),
		old: "receivers(CHANNEL .. SUFFIX) == 0",
		new: "false",
	},
	{
		name: "permit line: Redisson's permits look like ours", in: "permits.lua", suite: tests(scripts, "TestPermitsOfRedissons"),
		old: "mark ~= 104 or version",
		new: "version",
	},
	{
		name: "permit line: ours look like Redisson's", in: "permits.lua", suite: tests(scripts, "TestPermitsOfRedissons"),
		old: "mark ~= 104 or version < 128",
		new: "true or version < 128",
	},
	{
		name: "permit line: who has had permits otherwise stands there still", in: "acquire.lua", suite: tests(scripts, "TestPermitsAreGrantedOnce"),
		old: "      remove_entry(seat)\n",
		new: "",
	},
	{
		name: "permit line: a newcomer overtakes", in: "acquire.lua", suite: tests(scripts, "TestPermitsOfMany"),
		old: "(full and not joins or",
		new: "(",
	},
	{
		name: "permit line: Redisson's turns are looked for elsewhere", in: "permits.lua", suite: tests(scripts, "TestPermitsLeaveOne"),
		old: "local CHANNEL = 'redisson_sc'",
		new: "local CHANNEL = 'redisson_lock__channel'",
	},
	{
		name: "permit line: who wants many is starved by those who want few", in: "permits.lua", suite: tests(permits, "TestManyAreNotStarvedByOnes"),
		old: "if n > left and left > 0 then",
		new: "if n > left then return nil end if false then",
	},
	{
		name: "permit line: who waits is not told when a permit expires", in: "permits.lua", suite: tests(scripts, "TestPermitsExpire"),
		old: "first[2] and first[2] - at or -1",
		new: "-1",
	},
	{
		name: "permit line: the ids are not noted", in: "waitlist.lua", suite: tests(scripts, "TestPermitsRelease"),
		old: "what == '' and request or request .. ' ' .. what",
		new: "request",
	},
	{
		name: "permit line: leave gives nothing back", in: "leave.lua", suite: tests(scripts, "TestPermitsLeave"),
		old: "held and drop({[ARGV[5]] = 1}) or idle()",
		new: "idle()",
	},
	{
		name: "permit line: leave leaves the place", in: "leave.lua", suite: tests(scripts, "TestPermitsLeave"),
		old: "= remove_entry(ARGV[5]),",
		new: "= false,",
	},
	{
		name: "permit line: leave has nobody served", in: "permits.lua", suite: tests(scripts, "TestPermitsLeave"),
		old: "local function idle()\n  return available",
		new: "local function idle()\n  return 0",
	},
	{
		name: "permit line: added permits are not granted", in: "permits_add.lua", suite: tests(scripts, "TestPermitsServeMany"),
		old: "  offer(available, 0)\n",
		new: "",
	},
	{
		name: "permit line: a release with a line grants nothing", in: "permits.lua", suite: tests(scripts, "TestPermitsRelease"),
		old: "exist == 2 and",
		new: "exist >= 2 and",
	},
	{
		name: "permit line: several waits of one owner have one place", in: "PermitSet.waiter", suite: tests(line, "TestPermitLineOfOneOwner"),
		old: "n<<8 | uint64(b)",
		new: "n | uint64(b)>>8",
	},
	{
		name: "permit line: the first of a process tries before it stands there", in: "blockingCall.triesUnqueued", suite: tests(line, "TestPermitLineOfProcesses"),
		old: "return a.engine.queues.HeadHasNoReply(l.queueFor(\"\"))",
		new: "return !a.engine.queues.HasWaiters(l.queueFor(\"\"))",
	},
	{
		name: "semaphore: who waits leaves its reservation", in: "policyOf", suite: tests(permits, "TestSemaphoreTakesAndGives"),
		old: "l.Registers",
		new: "false",
	},

	// Latches.
	{
		name: "latch: a count down that found zero is forgotten", in: "latch_down.lua", suite: simulation("latch", "-class", "a"),
		old: "remember(KEYS[2], ARGV[4], ARGV[5])",
		new: "if count > 0 then remember(KEYS[2], ARGV[4], ARGV[5]) end",
	},

	// The hand-over inside a process.
	{
		name: "hand-over: the giver's context goes on", in: "Hold.handOver", suite: tests(handover, "TestHandOver"),
		old: "h.end(nil)",
		new: "",
	},

	// Calls that leave together.
	{
		name: "doubt: it ends though nothing better was found", in: "Doubt.Resolve", suite: tests("driver/driverkit", "TestDoubtStays"),
		old: "d.resolved.Store(raised)",
		new: "d.resolved.Store(d.raised.Load())",
	},
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
		name: "gathering: a call that was sent counts as unsent", in: "Call.await", suite: tests("driver/driverkit", "TestGivenUp"),
		old: "ctx.Err(), false",
		new: "ctx.Err(), true",
	},
	{
		name: "gathering: a call whose caller has left is sent once there is a connection", in: "Call.Sending", suite: tests("driver/driverkit", "TestGivenUpUnsent"),
		old: "c.state.Load() != withdrawn",
		new: "true",
	},
	{
		name: "gathering: one reply for two calls", in: "Call.await", suite: tests("driver/driverkit", "TestLeftIsNotReused"),
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
		name: "waiting: who leaves wakes nobody", in: "Waiter.GiveUp", suite: simulation("mutex"),
		old: "q.promote()",
		new: "",
	},
	{
		name: "waiting: for messages alone", in: "longestSleep", suite: tests(line, "TestLineRuleOutsideAsksAtTheKeysEnd"),
		old: "3 * time.Second",
		new: "time.Hour",
	},
	{
		name: "waiting: a waiter that panics expects messages", in: "wait.leave", suite: tests(engine, "TestNothingIsLeftOfAWaitThatPanics"),
		old: "w.carryOut(w.m.On(mono.Now(), waiting.Ended{}, waiting.Lore{}))",
		new: "",
	},
	{
		name: "waiting: longer than the entry lives", in: "wait.wasRefused", suite: tests(engine, "TestNoReplyMakesAWaiterSleepUntilItsEntryIsStale"),
		old: "min(found.Retry, protocol.PlaceLives)",
		new: "found.Retry",
	},
	{
		name: "waiting: longer than the key lasts", in: "wait.wasRefused", suite: tests(line, "TestLineRuleOutsideAsksAtTheKeysEnd"),
		old: "min(found.Retry, protocol.PlaceLives)",
		new: "-1",
	},
	{
		name: "waiting: a try keeps its slot", in: "wait.freeSlot", suite: simulation("mutex", "-class", "a"),
		old: "w.waiter.Done()",
		new: "",
	},
	{
		name: "waiting: rotated credentials end it", in: "Caller.judged", suite: tests(line, "TestRotatedCredentials"),
		old: "passing.Transient = true",
		new: "",
	},
	{
		name: "waiting: an outage ends it", in: "engine.Outage", suite: tests(line, "TestWaitersBearAnOutage"),
		old: "10",
		new: "0",
	},

	// The line.
	{
		name: "line: who comes again loses its place", in: "waitlist.lua", suite: tests(scripts, "TestStand"),
		old: "WAITLIST, 'NX',",
		new: "WAITLIST,",
	},
	{
		name: "line: an ask does not replace the one before", in: "waitlist.lua", suite: tests(scripts, "TestStand"),
		old: "'HSET', REQUESTS, seat",
		new: "'HSETNX', REQUESTS, seat",
	},
	{
		name: "line: who stands there is believed to live until it asks", in: "waitlist.lua", suite: tests(scripts, "TestStand"),
		old: "at + 3 * often",
		new: "at + often",
	},
	{
		name: "line: the first ask no more often than others", in: "waitlist.lua", suite: tests(scripts, "TestHints"),
		old: "position < NEAR and INTERVAL or ",
		new: "",
	},
	{
		name: "line: the first does not ask when the key ends", in: "waitlist.lua", suite: tests(scripts, "TestLineHintsOfTheFirst"),
		old: "hint = math.min(hint or often, pttl + position * STAGGER)",
		new: "hint = often",
	},
	{
		name: "line: others ask as often as if they were few", in: "waitlist.lua", suite: tests(scripts, "TestHints"),
		old: "SPACING * length",
		new: "0",
	},
	{
		name: "line: TryLock takes a free lock from it", in: "acquire.lua", suite: tests(scripts, "TestLineOfAFreeLock"),
		old: "if not ends then",
		new: "if listed and not ends then",
	},
	{
		name: "line: a free lock is taken though others wait for it", in: "mutex.lua", suite: tests(scripts, "TestLineOfAFreeLock"),
		old: "if some == 0 and",
		new: "if redis.call('EXISTS', KEYS[1]) == 0 and",
	},
	{
		name: "line: who asks takes what was granted to another", in: "acquire.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "left, holder, joins = room(seat, what)\n",
		new: "left = 1\n",
	},
	{
		name: "line: without Redis' leave nobody locks", in: "waitlist.lua", suite: tests(scripts, "TestLineOverwritten"),
		old: "redis.pcall('ZADD'",
		new: "redis.call('ZADD'",
	},
	{
		name: "line: a release frees the lock", in: "release.lua", suite: tests(scripts, "TestRelease"),
		old: "if busy then",
		new: "if false then",
	},
	{
		name: "line: a grant lasts for ever", in: "mutex.lua", suite: tests(scripts, "TestRelease"),
		old: "redis.pcall('PEXPIRE', KEYS[1], ttl)",
		new: "",
	},
	{
		name: "line: who is granted the lock stands there twice", in: "waitlist.lua", suite: tests(scripts, "TestRelease"),
		old: "redis.pcall('HDEL', REQUESTS, seat)",
		new: "",
	},
	{
		name: "line: who is granted the lock is not told", in: "waitlist.lua", suite: tests(scripts, "TestRelease"),
		old: "publish(ends and retry_message(id, 0) or id, channel)",
		new: "",
	},
	{
		name: "line: who does not listen is granted the lock", in: "waitlist.lua", suite: tests(scripts, "TestLineDropsTheDeaf"),
		old: "receivers(channel) ~= 0",
		new: "true",
	},
	{
		name: "line: as many are looked at as stand there", in: "waitlist.lua", suite: tests(scripts, "TestLineDropsTheDeaf"),
		old: "local MOST_ENTRIES = 64",
		new: "local MOST_ENTRIES = 6400",
	},
	{
		name: "line: who has been silent is granted the lock", in: "waitlist.lua", suite: tests(scripts, "TestLineDropsTheSilent"),
		old: "id and at - live <= 0",
		new: "id",
	},
	{
		name: "line: who may listen at any node is dropped", in: "waitlist.lua", suite: tests(scripts, "TestLineScattered"),
		old: "scattered == '1' and ARGV[3] == 'PUBLISH' or ",
		new: "",
	},
	{
		name: "line: messages that belong to a shard are sent to all", in: "waitlist.lua", suite: tests(scripts, "TestSharded"),
		old: "ARGV[3] == 'SPUBLISH' and WAITLIST or",
		new: "ARGV[3] == 'never' and WAITLIST or",
	},
	{
		name: "line: leave does not release", in: "leave.lua", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "count(ARGV[5]) == 1",
		new: "false",
	},
	{
		name: "line: leave releases what is nested", in: "leave.lua", suite: tests(scripts, "TestLeave"),
		old: "count(ARGV[5]) == 1",
		new: "count(ARGV[5]) > 0",
	},
	{
		name: "line: leave passes nothing on", in: "leave.lua", suite: tests(scripts, "TestLeave"),
		old: "offer(free, 0)",
		new: "",
	},
	{
		name: "line: a forced unlock frees the lock", in: "force.lua", suite: tests(scripts, "TestForceAndRetain"),
		old: "grant_room(free)",
		new: "",
	},
	{
		name: "line: MinHold tells nobody", in: "retain.lua", suite: tests(scripts, "TestForceAndRetain"),
		old: "send_retry(0)",
		new: "",
	},
	{
		name: "line: the lock is never left to Redisson's", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "at >= due and",
		new: "false and",
	},
	{
		name: "line: the lock is left to Redisson's each time", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "at >= due and",
		new: "true and",
	},
	{
		name: "line: the lock is left to Redisson's though none listens", in: "waitlist.lua", suite: tests(scripts, "TestLineNoOpenRelease"),
		old: "(receivers(ARGV[2]) or 0) - own > 0",
		new: "true",
	},
	{
		name: "line: the holder is taken for one of Redisson's", in: "waitlist.lua", suite: tests(scripts, "TestLineNoOpenRelease"),
		old: "0) - own > 0",
		new: "0) > 0",
	},
	{
		name: "line: the first does not know when the lock is left to it", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "send_retry(1)",
		new: "",
	},
	{
		name: "line: who stands there takes what is left to others", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "if at >= ends then",
		new: "if true then",
	},
	{
		name: "line: what others do not take is left to them for ever", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "if at >= ends then",
		new: "if ends == 0 then",
	},
	{
		name: "line: what nobody takes is left to others as often", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "math.min(2 * pause + 1, LONGEST_PAUSE)",
		new: "pause",
	},
	{
		name: "line: what nobody takes is left to others ever more seldom", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "math.min(2 * pause + 1, LONGEST_PAUSE)",
		new: "2 * pause + 1",
	},
	{
		name: "line: what Redisson's have taken is left to them no sooner", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "if allowed and theirs and not hint then",
		new: "if false then",
	},
	{
		name: "line: those outside have no longer a turn after one that was too short", in: "waitlist.lua", suite: tests(line, "TestLineR7_RedissonFarAway"),
		old: "math.max(length, SHORTEST_WINDOW + math.floor(pause / 4))",
		new: "SHORTEST_WINDOW",
	},
	{
		name: "line: what was long enough for those outside is forgotten", in: "waitlist.lua", suite: tests(scripts, "TestLineOpenRelease"),
		old: "math.max(length, SHORTEST_WINDOW + math.floor(pause / 4))",
		new: "SHORTEST_WINDOW + math.floor(pause / 4)",
	},
	{
		name: "line: whoever tries the lock has the turn of those outside", in: "acquire.lua", suite: tests(line, "TestLineR7_RedissonFarAway"),
		old: "yielded(ARGV[9] == 'unlisted')",
		new: "yielded((ARGV[9] or '') == '' or ARGV[9] == 'unlisted')",
	},
	{
		name: "line: one that waits outside of it does not say so", in: "wait.send", suite: tests(line, "TestLineEdgeOutsideInTurns"),
		old: "w.lock.listed() && what == waiting.Plain",
		new: "false",
	},
	{
		name: "line: a grant counts from its message", in: "wait.freeSlot", suite: tests(line, "TestLineR6_Renewal"),
		old: "Sent: sent",
		new: "Sent: mono.Now()",
	},
	{
		name: "line: any word is a grant", in: "engine.told", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "message.Granted",
		new: "message.Granted || true",
	},
	{
		name: "line: what grants nothing says the whole number", in: "waitlist.lua", suite: tests(scripts, "TestForceAndRetain"),
		old: "string.sub(id, 1, NAME_LENGTH)",
		new: "id",
	},
	{
		name: "line: the name of an ask is believed to grant it", in: "grantChannel.Hear", suite: tests(line, "TestLineR19_ForgedBehindTheTrue"),
		old: "!message.Granted || message.Number == to.id",
		new: "true",
	},
	{
		name: "line: all asks have one number", in: "blockingCall.number", suite: tests(line, "TestLineR19_ForgedMessages"),
		old: "rand.Text()",
		new: `rand.Text()[:0] + "n"`,
	},
	{
		name: "line: a message that is early is forgotten", in: "mail.expect", suite: tests(line, "TestLineRuleEarlyMessage"),
		old: "b.put(id, message)",
		new: "_ = message",
	},
	{
		name: "line: a grant lasts for the whole lease", in: "acquisition.granted", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "cmp.Or(a.grant, a.lease)",
		new: "a.lease",
	},
	{
		name: "line: a hold begins with what is left of a grant", in: "policyOf", suite: tests(line, "TestLineR6_AnOldAsk"),
		old: "grant/2",
		new: "-time.Hour",
	},
	{
		name: "line: a fixed lease begins with a message", in: "beginsWithMessage", suite: tests(line, "TestLineRuleAsksBefore"),
		old: "!a.args.Fixed && ",
		new: "",
	},
	{
		name: "line: MinHold begins with a message", in: "beginsWithMessage", suite: tests(line, "TestLineRuleAsksBefore"),
		old: "a.args.Retained() == 0 && ",
		new: "",
	},
	{
		name: "line: a fenced hold begins with a message", in: "beginsWithMessage", suite: simulation("fenced", "-class", "a"),
		old: "!a.lock.Fenced && ",
		new: "",
	},
	{
		name: "line: a hold begins before replicas have it", in: "beginsWithMessage", suite: tests(line, "TestLineRuleAsksBefore"),
		old: " && a.engine.Replicas == 0",
		new: "",
	},
	{
		name: "line: a grant is renewed as late as a lease", in: "Watch", suite: tests(watchdog, "TestRenewsAShortGrantSooner"),
		old: "renewing && ttl < e.Lease",
		new: "false",
	},
	{
		name: "line: a grant that is not renewed yet does not pass on", in: "acquisition.granted", suite: tests(line, "TestLineR17_HandedOver"),
		old: "s.unconfirmed = a.grant > 0",
		new: "s.unconfirmed = false",
	},
	{
		name: "line: a resubscription asks nobody", in: "grantChannel.Hear", suite: tests(line, "TestLineR2_LostMessages"),
		old: "wake()",
		new: "_ = wake",
	},
	{
		name: "line: the first waits for its message alone", in: "wait.timer", suite: tests(line, "TestLineR2_LostMessages"),
		old: "!at.IsZero()",
		new: "!at.IsZero() && w.m.State() != waiting.Asleep",
	},
	{
		name: "line: who stands there misses Redisson's release", in: "wait.carryOut", suite: tests(line, "TestLineR8_RedissonHolds"),
		old: "do.Listen == waiting.ListenOn",
		new: "false",
	},
	{
		name: "line: who stands there listens where Redisson's do", in: "wait.carryOut", suite: tests(line, "TestLineR8_RedissonHolds"),
		old: "do.Listen == waiting.ListenOn",
		new: "true",
	},
	{
		name: "line: who does not listen yet stands there", in: "mail.reaches", suite: tests(line, "TestLineRuleHearsFirst"),
		old: "c != nil && c.subscribed",
		new: "c == c",
	},
	{
		name: "line: who gives up stays there", in: "wait.leave", suite: tests(line, "TestLineR1_Leaving"),
		old: "w.m.LeaveDue(len(w.unknown) > 0)",
		new: "false",
	},
	{
		name: "line: leave releases a hold that stands", in: "Side.leaveDue", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "s.State() == Free",
		new: "true",
	},

	// Transfer, force, and who a client is.
	{
		name: "transfer: while an attempt is under way", in: "engine.Hold.Detach", suite: tests(owner, "TestTransferWaitsForWhatIsOnItsWay"),
		old: "e.Calls.Outlast(ctx, a.attemptsInDoubt()); ",
		new: "",
	},
	{
		name: "transfer: a detached owner locks again", in: "retirement.has", suite: tests(owner, "TestTransferRefused", "TestLockDuringDetach"),
		old: "mono.Now() < r.until[key]",
		new: "false",
	},
	{
		name: "transfer: the giver's owner stays", in: "mutex.lua", suite: simulation("mutex", "-class", "a"),
		old: "redis.call('HDEL', KEYS[1], old)",
		new: "",
	},
	{
		name: "force: leaves a writer's expired read", in: "RWMutex.ForceUnlock", suite: tests(rw, "TestForceUnlockOfTheirWriterWhoseReadHasExpired"),
		old: ", m.reader.side()",
		new: "",
	},
	{
		name: "force: hits the next holder", in: "force.lua", suite: tests(hold, "TestDelayedForceUnlockDoesNotHitTheNextHolder"),
		old: "'HEXISTS', KEYS[1], ARGV[i]",
		new: "'EXISTS', KEYS[1]",
	},
	{
		name: "force: the holder is not told", in: "side.listen", suite: tests(hold, "TestForcedUnlockIsToldAtOnce"),
		old: `channel != ""`,
		new: `channel == ""`,
	},
	{
		name: "identity: a closed client is still named", in: "Presence.next", suite: tests(owner, "TestIdentityInRedis"),
		old: "p.leaving && p.written:",
		new: "p.leaving && !p.written:",
	},
	{
		name: "identity: a client that lives is forgotten", in: "fullAfter", suite: tests(owner, "TestIdentityInRedis"),
		old: "/ 3",
		new: "* 3",
	},
	{
		name: "identity: a hold that is not renewed is forgotten", in: "Presence.writeIfNamed", suite: tests(owner, "TestIdentityLastsAsLongAsTheLock"),
		old: "len(p.held.holds) > 0 ||",
		new: "",
	},
	{
		name: "identity: a waiter is forgotten", in: "wait.send", suite: tests(owner, "TestIdentityLastsAsLongAsTheLock"),
		old: "w.engine.Presence.WriteIfDue(mono.Now())",
		new: "",
	},
	{
		name: "identity: it is not deleted during a failover", in: "Presence.sendLast", suite: tests(owner, "TestIdentityGoesWithALateRelease"),
		old: "p.config.Others() &&",
		new: "false &&",
	},

	// Fair locks, permits, latches, locks of several parts.
	{
		name: "read-write: a downgrade gives the lock away", in: "rw.lua", suite: tests(rw, "TestDowngradeOfANestedHold", "TestDowngradeAfterAnotherWrote"),
		old: "_, longest = reading(owner)",
		new: "longest = 0",
	},
	{
		name: "fair: who comes overtakes the line", in: "fair.lua", suite: tests(scripts, "TestFairTells"),
		old: "local mine = not more and (head or me) == me",
		new: "local mine = true",
	},
	{
		name: "fair: the last come first", in: "fair.lua", suite: tests(scripts, "TestRelease"),
		old: "length = redis.call('RPUSH'",
		new: "length = redis.call('LPUSH'",
	},
	{
		name: "fair: a dead waiter is not dropped", in: "fair.lua", suite: tests(scripts, "TestFairClockSetBack"),
		old: "math.max(ms, 0)",
		new: "math.max(ms, 1)",
	},
	{
		name: "fair: live waiters are dropped after a silence", in: "fair.lua", suite: tests(fair, "TestL8_SilenceOfTheServerCostsNobodyHisPlace"),
		old: "grace_end = at + GRACE",
		new: "grace_end = 0",
	},
	{
		name: "fair: who is granted stays in line", in: "fair.lua", suite: tests(scripts, "TestFairTells"),
		old: "first_live(dead + 1, me)",
		new: "first_live(dead, 'nobody')",
	},
	{
		name: "permits: expired ones are not free", in: "permits.lua", suite: tests(permits, "TestA8_ExpiredPermitsAreBack"),
		old: "available = redis.call('INCRBY', KEYS[1], expired)",
		new: "stored = stored",
	},
	{
		name: "permits: one is acquired though none is available", in: "permits.lua", suite: tests(scripts, "TestPermitsRelease"),
		old: "      missing = missing + 1\n",
		new: "",
	},
	{
		name: "permits: a repeated acquire takes them again", in: "permits.lua", suite: tests(permits, "TestPermitsHaveOneEffect"),
		old: "new = new + added",
		new: "new = new + 1",
	},
	{
		name: "permits: a release takes a hold for lost of which others have released a part", in: "permits.lua", suite: tests(permits, "TestPermitsHaveOneEffect"),
		old: "or ARGV[7] == '0' and missing < #ARGV[10] / 16)",
		new: ")",
	},
	{
		name: "permits: release by id of what is not held", in: "permits_force.lua", suite: tests(permits, "TestPermitsByID"),
		old: "#found < tonumber(ARGV[4])",
		new: "false",
	},
	{
		name: "permits: a release gives back what others have given back", in: "permits.lua", suite: tests(permits, "TestPermitsByID"),
		old: "found = found + redis.call('ZREM',",
		new: "found = found + 1 redis.call('ZREM',",
	},
	{
		name: "semaphore: what a cancelled caller took stays taken", in: "pass.concluded", suite: tests(permits, "TestCancelledSemaphoreCallersTakeNothing"),
		old: "p.undo(unsafe)",
		new: "",
	},
	{
		name: "semaphore: undone twice", in: "semaphore_undo.lua", suite: tests(permits, "TestUndoingHasOneEffect"),
		old: "remembers(KEYS[2], ARGV[7])",
		new: "ARGV[7] == 'never'",
	},
	{
		name: "semaphore: a call has its effect twice", in: "calls.lua", suite: tests(permits, "TestS14_CallsHaveOneEffect"),
		old: "redis.call('ZSCORE', key, id)",
		new: "false",
	},
	{
		name: "latch: what was refused is set later", in: "Caller.Do", suite: simulation("latch", "-class", "a"),
		old: "request.Once && r.Has",
		new: "!request.Once && r.Has",
	},
	{
		name: "latch: a waiter misses that it was zero", in: "latch_await.lua", suite: tests(permits, "TestL14_EveryEndEndsTheWait", "TestL14_SetAnewBeforeTheNextInLineLooks"),
		old: "since > 0",
		new: "since < 0",
	},
	{
		name: "latch: one that has expired keeps its waiters", in: "latch_set.lua", suite: tests(permits, "TestL14_SetAnewAfterItHasExpired"),
		old: "note_zero(KEYS[3])",
		new: "local _ = note_zero",
	},
	{
		name: "latch: zero is not announced", in: "latch_down.lua", suite: tests(permits, "TestLatchAnnouncements"),
		old: "count == 1 then\n  publish",
		new: "count < 0 then\n  publish",
	},
	{
		name: "multi: keeps what it has when one is refused", in: "tryInOrder", suite: tests(multi, "TestMultiLockRefusedTakesNothing", "TestMultiLockOfOtherLockers"),
		old: "c.rollback(rollbackBound)",
		new: "_ = rollbackBound",
	},
	{
		name: "multi: lives without one part", in: "NewMultiLock", suite: tests(multi, "TestMultiLockEndsWithAnyPart"),
		old: "m.need = len(m.parts)",
		new: "m.need = max(1, len(m.parts)-1)",
	},
	{
		name: "multi: locks in the order in which they are given", in: "NewMultiLock", suite: tests(multi, "TestMultiStress", "TestMultiLockWaitsInTurn"),
		old: "slices.SortStableFunc(m.parts, part.compare)",
		new: "",
	},
	{
		name: "multi: a part that is lost is not noticed", in: "composite.join", suite: tests(multi, "TestMultiLockEndsWithAnyPart"),
		old: "part.core.WhenEnded(c.partEnded)",
		new: "",
	},
	{
		name: "RedLock: half is enough", in: "NewRedLock", suite: tests(multi, "TestRedLockWithoutAQuorum", "TestRedLockEndsWithItsQuorum"),
		old: "/2+1",
		new: "/2",
	},
	{
		name: "RedLock: trusts the longest of its leases", in: "reachedBy", suite: tests(multi, "TestRedLockDeadlineIsTheQuorums"),
		old: "len(each)-need",
		new: "len(each)-1",
	},
	{
		name: "RedLock: what is granted late is kept", in: "composite.join", suite: tests(multi, "TestGrantedTooLate"),
		old: "_ = part.Unlock()",
		new: "",
	},
	{
		name: "hand-over: when the lease is nearly over", in: "lastsFor", suite: tests(handover, "TestNotHandedOver", "TestHandedOverAtTheDeadline"),
		old: "left > lease-lease/4",
		new: "left != lease",
	},
	{
		name: "hand-over: of a hold whose owner is known", in: "mayPass", suite: tests(handover, "TestNotHandedOver", "TestOwnerFromPart"),
		old: "!a.undisclosed, ",
		new: "",
	},
	{
		name: "hand-over: while an attempt is not answered", in: "Side.Plain", suite: tests(handover, "TestNotHandedOverAfterLostReply"),
		old: "s.underWay == 0 && s.allClosed()",
		new: "true",
	},

	// More: the hand-over, transfers, locks of several parts.
	{
		name: "hand-over: past its time", in: "mayPass", suite: tests(handover, "TestHandOverIsBounded", "TestHandOver"),
		old: "s.cohort == nil && now > h.since.Add(longestSlice), s.cohort != nil && s.cohort.over(now)",
		new: "now < 0",
	},
	{
		name: "hand-over: to a waiter that has left", in: "Waiter.GiveUp", suite: tests("internal/waitqueue", "TestHandOverInOrder", "TestLeaveHolding", "TestOpen"),
		old: "w.state == received",
		new: "false",
	},
	{
		name: "hand-over: others have no turn after it", in: "cohort.released", suite: tests(line, "TestLineRuleHandOverHoldsBack"),
		old: "min(max(minHoldBack, holdBack*mono.Now().Sub(res.Sent)), maxHoldBack)",
		new: "0",
	},
	{
		name: "waiting: a leaving waiter takes the wake-up with it", in: "wait.carryOut", suite: tests(permits, "TestWakeUpOfOneWhoLeavesDuringATry"),
		old: "w.waiter.Notify()",
		new: "",
	},
	{
		name: "transfer: adopts what nobody holds", in: "adopt.lua", suite: tests(owner, "TestTransferRefused"),
		old: "mine == 0 and count(ARGV[6]) == 0",
		new: "false",
	},
	{
		name: "multi: Shutdown waits for one that waits elsewhere", in: "endAtShutdown", suite: tests(multi, "TestShutdownEndsAMultiLockThatWaitsElsewhere"),
		old: `a.fresh[p.handle.client] != ""`,
		new: "false",
	},
	{
		name: "multi: Shutdown ends one that is nested", in: "endAtShutdown", suite: tests(multi, "TestShutdownEndsAMultiLockThatWaitsElsewhere"),
		old: ` && a.fresh[p.handle.client] != ""`,
		new: "",
	},
	{
		name: "multi: a part that joins late keeps its own lease", in: "composite.join", suite: tests(multi, "TestLateServersJoinAFixedLease"),
		old: "lease > 0",
		new: "lease < 0",
	},
	{
		name: "multi: cancelled, and what it got stays", in: "rollback", suite: tests(multi, "TestS27_CancelledMultiLocksLeaveNothing"),
		old: "unlockAll(c.parts())",
		new: "",
	},
	{
		name: "RedLock: one server that is left is enough", in: "quorum.reached", suite: tests(multi, "TestRedLockEndsWithItsQuorum"),
		old: "q.live >= q.need",
		new: "q.live > 0",
	},
	{
		name: "RedLock: two locks of one server count twice", in: "addServer", suite: tests(multi, "TestRedLockOfBadInput"),
		old: "other.handle.client == p.handle.client",
		new: "other.handle == p.handle",
	},
	{
		name: "RedLock: an outage ends the wait", in: "withoutQuorum", suite: tests(multi, "TestRedLockBearsAnOutage"),
		old: "engine.Outage*a.timeout()",
		new: "0",
	},
	{
		name: "multi: what may be left had no effect", in: "compositeAcquire.asWhole", suite: tests(hold, "TestPartsThatAreLeft"),
		old: "own.MayHaveRun = a.mayHaveRun",
		new: "",
	},
	{
		name: "RedLock: one refusal stands for servers that are silent", in: "quorumFailure", suite: tests(multi, "TestRedLockWithOneRefusal"),
		old: "unavailable = silent",
		new: "unavailable = 0",
	},
	{
		name: "an old refusal hides a newer one", in: "blockingCall.lastKnown", suite: tests(hold, "TestWhyAnAcquireEnded"),
		old: "why != nil",
		new: "a.last == nil && why != nil",
	},
	{
		name: "acquire: Redis is blamed for the time behind a call of the same owner", in: "blockingCall.join",
		suite: tests(owner, "TestErrorOfACallThatWasBehindAnother"),
		old:   "a.bounded != nil",
		new:   "false",
	},
	{
		name: "acquire: Redis is blamed for the time that OnWait takes", in: "blockingCall.ask", suite: tests(owner, "TestErrorAfterASlowHook"),
		old: "a.waiter.Answered()",
		new: "",
	},
	{
		name: "acquire: Redis is blamed for a RedLock that it grants as it is cancelled", in: "compositeAcquire.tooLate",
		suite: tests(multi, "TestRedLockCancelledAsItIsGranted"),
		old:   "time.Since(a.started) < call.Patience(a.caller, true, a.ackTimeout())",
		new:   "false",
	},
	{
		name: "an outage is not told to those behind the head", in: "wait.result", suite: tests(hold, "TestWhyAWaiterBehindAnotherEnded"),
		old: "!since.IsZero()",
		new: "false",
	},
	{
		name: "a reply that comes after its waiter has left does not count", in: "Waiter.Answered", suite: tests(hold, "TestCancelledOneAfterTheOther"),
		old: "w.queue.unanswered, w.queue.failing = 0, nil",
		new: "",
	},
	{
		name: "a cancelled call calls Redis away that replies to its owner", in: "acquisition.noteBusy", suite: tests(hold, "TestCancelledBehindItsOwner"),
		old: "!soon",
		new: "(soon || !soon)",
	},
	{
		name: "a call that gives back before forgets how Redis fails", in: "acquisition.clear", suite: tests(hold, "TestWhyACallThatGivesBackEnded"),
		old: "Err: res.Err, Sent: res.Sent, LastFailure: res.LastFailure",
		new: "Err: res.Err",
	},
	{
		name: "multi: cancelled amid the lease, Redis is called away", in: "compositeAcquire.acquireParts", suite: tests(multi, "TestCancelledAmidTheLease"),
		old: "engine.EndedByCaller(a.caller) && !isBackend(err)",
		new: "false",
	},
	{
		name: "close: a write of the hash comes after its deletion", in: "Presence.takeBack", suite: tests(owner, "TestCloseTakesBackALateWrite"),
		old: "len(open) > 0",
		new: "false",
	},
	{
		name: "a cancelled call calls a healthy Redis away", in: "call.Patience", suite: tests(hold, "TestCancelledAmidARequest"),
		old: "first && !errors.Is(ctx.Err(), context.Canceled)",
		new: "first",
	},
	{
		name: "a refusal that is read late is the last word", in: "repetition.answeredLate", suite: tests(calls, "TestRefusalIsTheLastWord"),
		old: "i >= r.notFinal",
		new: "true",
	},
	{
		name: "a refusal beside an attempt in doubt is the last word", in: "Caller.Do", suite: tests(calls, "TestRefusalIsTheLastWord"),
		old: "request.Once",
		new: "false",
	},
	{
		name: "the reason of a connection that could not be made is forgotten", in: "Attempt.result", suite: tests(calls, "TestReasonOfAnAttemptThatIsGivenUp"),
		old: "res.LastFailure = found.err",
		new: "",
	},
	{
		name: "multi: forgets what an earlier try has left", in: "compositeAcquire.acquire", suite: tests(hold, "TestPartsOfAnEarlierTryThatAreLeft"),
		old: "if a.independent {",
		new: "if a.mayHaveRun = false; a.independent {",
	},
	{
		name: "RedLock: that others had it hides that Redis refuses now", in: "quorumFailure", suite: tests(multi, "TestRedLockTellsThePresent"),
		old: "withReason <= spare",
		new: "withReason >= 0",
	},
	{
		name: "RedLock: parts without enough replicas had no effect", in: "isRefusal", suite: tests(multi, "TestRedLockWithTooFewReplicas"),
		old: "err, ErrLocked",
		new: "err, ErrNotReplicated, ErrLocked",
	},
	{
		name: "drivers: an error shows the password that the server repeats", in: "ServerError", suite: tests("driver", "TestServerErrorThatRepeatsAPassword"),
		old: "err = redact.Reply(err)",
		new: "_ = redact.Reply",
	},
	{
		name: "errors: a server's text comes to the terminal", in: "BackendError.Error", suite: tests(".", "TestErrorsAreVisible"),
		old: "visible.Text(",
		new: "string(",
	},
	{
		name: "text: variation selectors and fillers are shown", in: "Reader.shows", suite: tests("internal/visible", "TestText"),
		old: "unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blanks",
		new: "unicode.Cc",
	},
	{
		name: "drivers: an error says where in a script it arose", in: "redact.Reply", suite: tests("internal/redact", "TestPlaceInScript"),
		old: "return placelessError{err}",
		new: "return err",
	},
	{
		name: "drivers: a server that refuses connections is not asked", in: "Refused.Explain", suite: tests("driver/driverkit", "TestRefused"),
		old: "says == \"\"",
		new: "says != says+\"x\"",
	},
	{
		name: "drivers: any error that a server begins with is taken for a refusal", in: "driverkit.ask", suite: tests("driver/driverkit", "TestRefused"),
		old: "refuses && IsRefusal(message)",
		new: "refuses",
	},

	// The account of one owner: every state of a small world is visited.
	{
		name: "ledger: a release confirms more than was possible", in: "Side.Released", suite: tests(ledger, "TestSearch"),
		old: "min(ch.To, s.possible)",
		new: "ch.To",
	},
	{
		name: "ledger: what is wanted is given back", in: "Side.GiveBack", suite: tests(ledger, "TestSearch"),
		old: "To: wanted",
		new: "To: max(wanted-1, 0)",
	},
	{
		name: "ledger: a release finds what an earlier one has taken, and the run is lost", in: "Side.Released", suite: tests(ledger, "TestSearch"),
		old: "ch.Confirmed == 0 || repeated",
		new: "ch.Confirmed == 0",
	},
	{
		name: "ledger: the next run is the last one", in: "Side.Next", suite: tests(engine, "TestALossIsKeptForTheUnlockThatWaits"),
		old: "len(s.holds) == 0",
		new: "s.run == nil",
	},
	{
		name: "ledger: an open release is harmless", in: "harmless", suite: tests(ledger, "TestSearch"),
		old: "{\n\t\treturn !s.openReleases",
		new: "{\n\t\treturn true",
	},
	{
		name: "ledger: an open release beside an acquire is harmless", in: "harmless", suite: tests(ledger, "TestSearch"),
		old: "!s.openReleases && s.Lost()",
		new: "s.Lost()",
	},
	{
		name: "ledger: an open acquire of more than is wanted is harmless", in: "harmless", suite: tests(ledger, "TestSearch"),
		old: "s.openUpTo <= s.Wanted()",
		new: "true",
	},
	{
		name: "ledger: the open attempts of the other side do not count", in: "Account.Harmless", suite: tests(ledger, "TestSearch"),
		old: "a.Sides",
		new: "a.Sides[:1]",
	},
	{
		name: "ledger: an open acquire that ran is forgotten", in: "Side.Ran", suite: tests(ledger, "TestSearch"),
		old: "s.openUpTo",
		new: "0",
	},
	{
		name: "ledger: the last open acquire hides a larger one", in: "Side.Open", suite: tests(ledger, "TestSearch"),
		old: "max(s.openUpTo, upTo)",
		new: "upTo",
	},
	{
		name: "ledger: a late attempt lowers what may stand", in: "Side.Stood", suite: tests(ledger, "TestSearch"),
		old: "max(s.possible, count)",
		new: "count",
	},
	{
		name: "ledger: counts that stand are forgotten", in: "Side.Forget", suite: tests(ledger, "TestSearch"),
		old: "!stands",
		new: "true",
	},
	{
		name: "ledger: what stands after a loss is not given back", in: "Side.Forget", suite: tests(ledger, "TestSearch"),
		old: "stands || ",
		new: "",
	},
	{
		name: "ledger: a lost run is trusted", in: "Side.Lose", suite: tests(ledger, "TestSearch"),
		old: "s.run.lost, s.run.taken = why, taken",
		new: "s.run.taken = taken",
	},
	{
		name: "ledger: a dropped hold stays", in: "Side.Drop", suite: tests(ledger, "TestSearch"),
		old: "s.holds = slices.Delete(s.holds, i, i+1)",
		new: "",
	},
	{
		name: "ledger: a dropped hold's count is not given back", in: "Side.Drop", suite: tests(ledger, "TestSearch"),
		old: "s.Wanted() < wanted",
		new: "s.Wanted() > wanted",
	},
	{
		name: "ledger: nested holds need one count", in: "Side.Wanted", suite: tests(ledger, "TestSearch"),
		old: "len(s.holds) - sharing",
		new: "min(len(s.holds), 1) - sharing",
	},
	{
		name: "ledger: a confirmed count is not noted", in: "Side.Confirm", suite: tests(ledger, "TestSearch"),
		old: "s.possible, s.confirmed = count, count",
		new: "s.confirmed = count",
	},
	{
		name: "ledger: an unanswered release has taken nothing", in: "Side.Unanswered", suite: tests(ledger, "TestSearch"),
		old: "min(s.confirmed, ch.To)",
		new: "s.confirmed",
	},
	{
		name: "ledger: a side that holds leaves", in: "Side.leaveDue", suite: tests(ledger, "TestSearch"),
		old: "s.State() == Free",
		new: "true",
	},
	{
		name: "ledger: a leave is the last word though an open acquire may list the waiter again", in: "Side.StartLeave", suite: tests(ledger, "TestSearch"),
		old: "s.openUpTo > 0",
		new: "false",
	},
	{
		name: "ledger: a leave waits for the release of what an open acquire was granted", in: "Side.leaveDue", suite: tests(ledger, "TestSearch"),
		old: " || s.left && s.State() == Owed",
		new: "",
	},
	{
		name: "ledger: the turn is free though a leave is due", in: "harmless", suite: tests(ledger, "TestSearch"),
		old: "if s.leaveDue()",
		new: "if false",
	},
	{
		name: "ledger: a waiter that gave up is forgotten", in: "Side.MarkListed", suite: tests(ledger, "TestSearch"),
		old: "s.listed = true",
		new: "",
	},
	{
		name: "ledger: no leave after a loss", in: "Side.Forget", suite: tests(ledger, "TestSearch"),
		old: " || s.listed",
		new: "",
	},
	{
		name: "ledger: a detached owner leaves", in: "Side.ClearListed", suite: tests(ledger, "TestSearch"),
		old: "s.listed, s.left = false, false",
		new: "",
	},

	// How one call waits: the searches visit the states of two worlds, and tables have what costs no safety.
	{
		name: "wait: a waiter that gives up is not to leave", in: "Wait.LeaveDue", suite: tests(waiting, "TestSearch"),
		old: "inDoubt || w.refused",
		new: "inDoubt && w.refused",
	},
	{
		name: "wait: a request in doubt is no reason to leave", in: "Wait.LeaveDue", suite: tests(waiting, "TestSearch"),
		old: "inDoubt || ",
		new: "",
	},
	{
		name: "wait: a request with an ID leaves nothing", in: "Wait.request", suite: tests(waiting, "TestSearch"),
		old: "withID || ",
		new: "",
	},
	{
		name: "wait: what Redis keeps without an ID is forgotten", in: "Wait.request", suite: tests(waiting, "TestSearch"),
		old: " || w.policy.Registers",
		new: "",
	},
	{
		name: "wait: a deadline counts from the grant message", in: "Wait.grant", suite: tests(waiting, "TestSearch"),
		old: "w.requests[i].sent",
		new: "now",
	},
	{
		name: "wait: any message counts", in: "Wait.index", suite: tests(waiting, "TestSearch"),
		old: "r.ID == id",
		new: `r.ID != "" || r.ID == id`,
	},
	{
		name: "wait: a grant message is ignored", in: "Wait.grant", suite: tests(waiting, "TestSearch"),
		old: "w.granted = max(w.granted, w.requests[i].sent)",
		new: "",
	},
	{
		name: "wait: a waiter with a grant sleeps on", in: "Wait.grant", suite: tests(waiting, "TestSearch"),
		old: "return w.want(now, lore)",
		new: "return Do{}",
	},
	{
		name: "wait: a superseded request counts", in: "Wait.wasRefused", suite: tests(waiting, "TestSearch"),
		old: "w.send == WithID && last > 0",
		new: "w.send == Plain && last > 0",
	},
	{
		name: "wait: a plain request supersedes the one before", in: "Wait.wasRefused", suite: tests(waiting, "TestSuperseded"),
		old: "w.send == WithID && ",
		new: "",
	},
	{
		name: "wait: messages for a superseded request are awaited", in: "Wait.wasRefused", suite: tests(waiting, "TestSearch"),
		old: "= forget, dropped, true",
		new: "= nil, dropped, true || forget != nil",
	},
	{
		name: "wait: messages are awaited when the wait is over", in: "Wait.end", suite: tests(waiting, "TestSearch"),
		old: "do := Do{Forget: w.requests}",
		new: "do := Do{}",
	},
	{
		name: "wait: a sleeping waiter has no time", in: "Wait.timer", suite: tests(waiting, "TestSearch"),
		old: "return w.want(now, lore)",
		new: "return Do{}",
	},
	{
		name: "wait: an unlisted waiter sleeps until the key ends", in: "Wait.wasRefused", suite: tests(waiting, "TestSearch"),
		old: "outside && pause > w.policy.LongestSleep",
		new: "outside && pause < 0",
	},
	{
		name: "wait: an outage is tolerated for ever", in: "Wait.failed", suite: tests(waiting, "TestSearchQueue"),
		old: "now.Sub(w.away) >= w.policy.Outage",
		new: "false",
	},
	{
		name: "wait: an outage begins anew with each failure", in: "Wait.failed", suite: tests(waiting, "TestSearchQueue"),
		old: "if begins {",
		new: "{",
	},
	{
		name: "wait: a waiter that is about to try is handed nothing off", in: "Wait.On", suite: tests(waiting, "TestTable"),
		old: "return w.abandon(HandedOff)",
		new: "return Do{}",
	},
	{
		name: "wait: a try keeps its slot", in: "Wait.replied", suite: tests(waiting, "TestSearchQueue"),
		old: "do.FreeSlot = true",
		new: "",
	},
	{
		name: "wait: a wake-up does not wake", in: "Wait.betweenRequests", suite: tests(waiting, "TestSearchQueue"),
		old: "if w.state == Asleep {\n\t\t\treturn w.want(now, lore)",
		new: "if w.state == Behind {\n\t\t\treturn w.want(now, lore)",
	},
	{
		name: "wait: a waiter that gets no reply takes the wake-up with it", in: "Wait.failed", suite: tests(waiting, "TestSearchQueue"),
		old: "do.PassOn, do.ShareFailure = true,",
		new: "do.PassOn, do.ShareFailure = false,",
	},
	{
		name: "wait: a waiter that gives up before its try takes the wake-up with it", in: "Wait.abandon", suite: tests(waiting, "TestSearchQueue"),
		old: " || w.state == Due",
		new: "",
	},
	{
		name: "wait: a waiter that lets others go first takes the wake-up with it", in: "Wait.abandon", suite: tests(waiting, "TestSearchQueue"),
		old: "w.state == HoldingBack || ",
		new: "",
	},
	{
		name: "wait: a waiter without a reply takes the wake-up with it", in: "Wait.abandon", suite: tests(waiting, "TestSearchQueue"),
		old: " || !w.away.IsZero()",
		new: "",
	},
	{
		name: "wait: those behind one that fails try for as long", in: "Wait.failed", suite: tests(waiting, "TestSearchQueue"),
		old: "= true, e.Transient",
		new: "= true, false",
	},
	{
		name: "wait: the failure of the head before is nobody else's", in: "Wait.head", suite: tests(waiting, "TestSearchQueue"),
		old: "do.ShareFailure = true",
		new: "",
	},
	{
		name: "wait: one that has just come fails with the one before", in: "Wait.head", suite: tests(waiting, "TestSearchQueue"),
		old: "now >= w.policy.SharesFailureAt",
		new: "true",
	},
	{
		name: "wait: one that waits behind a failure tries for as long", in: "Wait.head", suite: tests(waiting, "TestSearchQueue"),
		old: "e.Failed && ",
		new: "false && ",
	},
	{
		name: "wait: a hold that must not begins with a grant message", in: "Wait.grantLasts", suite: tests(waiting, "TestLittleOfAGrant"),
		old: " && valid > 0",
		new: "",
	},
	{
		name: "wait: a retry message puts the next request off", in: "Wait.retry", suite: tests(waiting, "TestWhenToAskAgain"),
		old: " || at >= w.at",
		new: "",
	},
	{
		name: "wait: a hold begins with what is left of a grant", in: "Wait.grantLasts", suite: tests(waiting, "TestLittleOfAGrant"),
		old: ">= w.policy.GrantMin",
		new: ">= 0",
	},
	{
		name: "wait: an old grant counts more than a later one", in: "Wait.grant", suite: tests(waiting, "TestGrantSent"),
		old: "max(w.granted, w.requests[i].sent)",
		new: "w.requests[i].sent",
	},
	{
		name: "wait: others have no turn", in: "Wait.want", suite: tests(waiting, "TestTable"),
		old: "lore.NotBefore > now && ",
		new: "false && ",
	},
	{
		name: "wait: others have their turn though the lock is granted", in: "Wait.want", suite: tests(waiting, "TestTable"),
		old: " && w.granted.IsZero()",
		new: "",
	},
	{
		name: "wait: a waiter without a waitlist asks at once", in: "Wait.head", suite: tests(waiting, "TestNextHead"),
		old: "w.policy.Lists == Never && ",
		new: "false && ",
	},
	{
		name: "wait: a waiter sleeps until the time of another one's entry", in: "Wait.head", suite: tests(waiting, "TestNextHead"),
		old: "w.policy.Lists == Never && ",
		new: "",
	},
	{
		name: "wait: a waiter whose client does not hear is listed", in: "Wait.try", suite: tests(waiting, "TestTable"),
		old: " && e.Subscribed",
		new: "",
	},
	{
		name: "wait: an entry that is lost is not missed", in: "Wait.wasRefused", suite: tests(waiting, "TestDropped"),
		old: "w.drops == 2",
		new: "w.drops > 2",
	},
	{
		name: "wait: an entry that is lost once is the last one", in: "Wait.wasRefused", suite: tests(waiting, "TestDropped"),
		old: "w.drops == 2",
		new: "w.drops > 0",
	},
	{
		name: "wait: a listed waiter listens for releases", in: "Wait.sleep", suite: tests(waiting, "TestTable"),
		old: "w.listed && !w.beside",
		new: "false",
	},
	{
		name: "wait: a listed waiter beside Redisson's misses releases", in: "Wait.sleep", suite: tests(waiting, "TestTable"),
		old: " && !w.beside",
		new: "",
	},
	{
		name: "wait: a fair waiter that hears nothing is asked for no time", in: "Wait.wasRefused", suite: tests(waiting, "TestWhenToAskAgain"),
		old: " && w.policy.Lists != Always",
		new: "",
	},
	{
		name: "wait: a waiter to which Redis never replied goes on", in: "Wait.failed", suite: tests(waiting, "TestTable"),
		old: "!known && !e.Moving || ",
		new: "!known && false || ",
	},
	{
		name: "wait: a waiter gives up while a cluster moves its lock", in: "Wait.failed", suite: tests(waiting, "TestTable"),
		old: "!known && !e.Moving",
		new: "!known",
	},
	{
		name: "wait: an outage is reported again and again", in: "Wait.failed", suite: tests(waiting, "TestOutage"),
		old: "begins && !e.Moving",
		new: "!e.Moving",
	},
	{
		name: "wait: a cluster that moves a lock is an outage", in: "Wait.failed", suite: tests(waiting, "TestTable"),
		old: "begins && !e.Moving",
		new: "begins",
	},
	{
		name: "wait: a reply ends no outage", in: "Wait.wasRefused", suite: tests(waiting, "TestOutageEnds"),
		old: "0, e.Listed, e.Beside",
		new: "w.away, e.Listed, e.Beside",
	},
	{
		name: "wait: a retry message is forgotten", in: "Wait.retry", suite: tests(waiting, "TestWhenToAskAgain"),
		old: "w.at = at",
		new: "",
	},
	{
		name: "wait: a message brings no earlier request", in: "Wait.retry", suite: tests(waiting, "TestTable"),
		old: "e.After <= 0",
		new: "e.After < 0",
	},
	{
		name: "wait: a late reader closes nothing", in: "Wait.timer", suite: tests(waiting, "TestSearchQueue"),
		old: "CloseCohort: true",
		new: "",
	},
	{
		name: "wait: a late reader waits for ever", in: "waiting.New", suite: tests(waiting, "TestSearchQueue"),
		old: "at: p.ClosesCohortAt, ",
		new: "",
	},

	// The engine around it.
	{
		name: "engine: the turn is free though attempts are open", in: "account.freeTurn", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "a.ledger.Harmless()",
		new: "true",
	},
	{
		name: "engine: the turn is free though a leave is due", in: "harmless", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "if s.leaveDue()",
		new: "if false",
	},
	{
		name: "engine: a waiter that gave up is not taken out", in: "acquisition.addInDoubt", suite: simulation("fair", "-class", "a", "-faults", "messages"),
		old: "a.side.MarkListed()",
		new: "",
	},
	{
		name: "engine: a read does not depend on the write hold that it is nested in", in: "acquisition.wanted", suite: tests(rw, "TestReadNestedInALostWrite"),
		old: "a.nesting != nil",
		new: "false",
	},
	{
		name: "engine: a nested Lock does not look whether its outer hold stands", in: "claim.err", suite: tests(owner, "TestLockWhoseOuterHoldEndsBeforeItsTurn"),
		old: "c.held.Err()",
		new: "error(nil)",
	},
	{
		name: "engine: a hold passes on though its owner was asked for", in: "engine.Hold.tellOwner", suite: tests(handover, "TestNotHandedOver"),
		old: "a.undisclosed = false",
		new: "",
	},
	{
		name: "engine: an account that is found by hand is another owner's", in: "accounts.byHand", suite: tests(engine, "TestUsersOfAnOwnerFindOneAccount", "TestAFreshOwnerIsUsedByHandOnlyIfItIsKnown"),
		old: "found := s.known[key]",
		new: "found := s.known[accountKey{}]",
	},
	{
		name: "engine: an account goes though somebody has found it", in: "accounts.drop", suite: tests(engine, "TestAnAccountThatIsFoundIsNotDropped"),
		old: "a.refs.Load() > 0",
		new: "false",
	},
	{
		name: "engine: a hold does not keep its account", in: "acquisition.granted", suite: tests(line, "TestCloseEndsEverything"),
		old: "a.account.ref()",
		new: "",
	},
	{
		name: "engine: an Unlock behind a call of its owner is forgotten", in: "side.unlock", suite: simulation("mutex", "-class", "a", "-faults", "calls"),
		old: "a.releaseLater()",
		new: "",
	},
	{
		name: "engine: news of an earlier run ends the next one", in: "side.runLost", suite: tests(engine, "TestLateNewsOfALossDoesNotHitTheNextHold"),
		old: "entry != nil && entry != s.entry",
		new: "false",
	},
	{
		name: "engine: a lost hold is kept for ever", in: "side.runLost", suite: tests(owner, "TestForgottenHold"),
		old: "s.forgetRun(run)",
		new: "_ = run",
	},
	{
		name: "engine: a hold that is found dead when it is handed over is used", in: "Hold.accept", suite: tests(handover, "TestHandedOverAtTheDeadline"),
		old: "h.err() == nil && !s.overdue()",
		new: "true",
	},
	{
		name: "owner: Shutdown lets a Lock nest in what is lost", in: "account.live", suite: tests(owner, "TestShutdownLetsNothingNestInWhatIsLost"),
		old: "s.Live()",
		new: "len(s.Holds())",
	},
	{
		name: "log: a reply of one node ends the outage of another", in: "outages.succeed", suite: tests(owner, "TestLogHooksOfOneNode"),
		old: "len(out.failing) > 0",
		new: "false",
	},
	{
		name: "log: a call that was sent during an outage begins the next one", in: "outages.fail", suite: tests(owner, "TestLogHooksStragglers"),
		old: "at.Sub(out.ended) < e.settles()",
		new: "at < out.ended",
	},
	{
		name: "log: each refusal is a warning", in: "outages.warn", suite: tests(owner, "TestLogHooksOfRefusals"),
		old: "now.Sub(seen.warned) < refusalPause",
		new: "false",
	},

	// Adapters.
	{
		name: "rueidis: a proof ends a doubt that no Sentinel has", in: "rueidisdriver.node.conclude",
		suite: tests("rueidisdriver", "TestFormerPrimaryIsNotProven", "TestSentinelEndsDoubt"),
		old:   "asks && s.fresh == nil",
		new:   "asks && false",
	},
	{
		name: "rueidis: a former primary passes for the replica beside it", in: "rueidisdriver.spare.isElsewhere",
		suite: tests("rueidisdriver", "TestFormerPrimaryBesideNewOne"),
		old:   "!slices.Contains(named, addr)",
		new:   "!slices.Contains(named, addr) && ctx == nil",
	},
	{
		name: "rueidis: a doubt is ended by the answer to an older one", in: "rueidisdriver.node.retire",
		suite: tests("rueidisdriver", "TestNewerDoubtStays"),
		old:   "!n.spare.CompareAndSwap(s, next)",
		new:   "n.spare.Swap(next) == nil",
	},

	// Rights of users.
	{
		name: "rights: a name with a star is a pattern", in: "Exactly", suite: tests(rights, "TestUserOfNames"),
		old: "special.Replace(name)",
		new: "name",
	},
	{
		name: "rights: a tenant hears all clients", in: "Fill", suite: tests(rights, "TestUserOfTenant"),
		old: "protocol.TenantPrefix(tenant)",
		new: `protocol.TenantPrefix(tenant[:0])`,
	},
	{
		name: "rights: a user keeps what it had", in: "User.nothing", suite: tests("internal/rights", "TestRules"),
		old: `"-@all"`,
		new: `"on"`,
	},
}
