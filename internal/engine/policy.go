package engine

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/waiting"
)

// longestSleep is the longest sleep of an unlisted waiter between two requests: what a lost message can cost.
const longestSleep = 3 * time.Second

// policyOf returns how a call waits for its kind of lock. A grant message grants the lock for the time grant.
func policyOf(a *blockingCall, grant time.Duration) waiting.Policy {
	l, now, timeout := a.lock, mono.Now(), a.engine.Timeout
	p := waiting.Policy{
		Listens: true, Registers: l.Registers,
		LongestSleep: longestSleep, FailurePause: call.LongestPause, Outage: Outage * timeout,
		SharesFailureAt: now.Add(time.Until(a.started.Add(timeout / 2))),
	}
	switch {
	case l.Polling != nil:
		p.Listens, p.LongestSleep = false, math.MaxInt64
	case l.AlwaysListed:
		p.Lists = waiting.Always
	case l.Waitlist:
		p.Lists = waiting.IfSubscribed
	}
	if p.Lists != waiting.Never && beginsWithMessage(a) {
		p.GrantValid, p.GrantMin = a.engine.watchdog.Trust(now, grant).Sub(now), grant/2
	}
	if l.SharesHolds {
		p.ClosesCohortAt = now.Add(min(longestClosed, a.timeLeft()/4))
	}
	return p
}

// beginsWithMessage reports whether a hold may begin with a grant message, before Redis has confirmed it.
func beginsWithMessage(a *blockingCall) bool {
	return !a.args.Fixed && a.args.Retained() == 0 && !a.lock.Fenced && a.engine.Replicas == 0 && a.engine.MaxHold == 0
}
