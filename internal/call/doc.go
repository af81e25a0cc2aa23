// Package call sends a script until its outcome is known. It knows nothing of
// clients, locks and owners: there is a request, and there is what came of it.
//
// This is the only retry policy. Scripts set a state, so a request may be sent
// again until it is answered: [Caller.Do] does that for at most the timeout, with a
// third of it for each attempt. Every attempt carries a limit, a time on the
// server's clock after which the server does nothing with it. So an attempt that was
// given up can have an effect until its limit and not after it.
//
// # States of an attempt
//
// An attempt is pending until the driver answers; its limit passes meanwhile or
// not. Four things can come of it:
//
//   - a reply: the script has run, and says what it has done;
//   - an error that excludes that it has run;
//   - an error that does not: it may have run, and may still, until its limit;
//   - nothing yet, because the caller's context has ended or the time is over: the
//     same, until the driver's answer says more.
//
// A reply that arrives in time counts, however late it is read. In a busy process timers run before
// the goroutines that read from connections, so an attempt whose time is over is given up only after
// all runnable goroutines have been scheduled. A reply to an attempt that was given up is the call's
// reply if no other attempt has one; [Attempt.WhenAnswered] reports it after the call has returned.
//
// Attempts of the last two sorts are in [Result.Unknown]. Whoever owns the state that
// they would change waits with [Caller.Outcome] and [Caller.Outlast] before relying
// on it.
//
// # Goroutines
//
// An attempt runs on its caller's goroutine. The driver is given a context that ends with
// the caller's, at the attempt's timeout, or when Config.Life ends (that of the first
// attempt of DoBriefly: with Config.Closing, too), and returns then. It may
// tell later what came of an attempt that was given up (driver.Call.Late); until it has, and
// if it cannot, the attempt may have an effect until its limit. Whoever has to know for
// certain as soon as Redis answers has the attempt run on a goroutine of its own
// ([Caller.DoApart]), which ends with the driver's answer; so do attempts that
// replicas have to acknowledge, since a driver may not give them up at once.
//
// The driver is asked how releases are announced on a goroutine, for all who wait for that.
//
// All attempts, and that question, are counted in Config.Tasks. What comes of an attempt is
// written by the goroutine that runs it, or by the driver's that tells it late, and read
// after that. The ends of all attempts under way are in one list with one timer and one
// lock (bounds).
package call
