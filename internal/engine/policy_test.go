package engine

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/waiting"
)

// TestPolicy: a kind of lock, a call's options and the client's configuration decide how a call waits.
func TestPolicy(t *testing.T) {
	const grantValid = protocol.LongestGrant - protocol.LongestGrant/100 - 2*time.Millisecond
	waitlist := waiting.Policy{Lists: waiting.IfSubscribed, Listens: true, GrantValid: grantValid, GrantMin: protocol.LongestGrant / 2}
	unconfirmed := waiting.Policy{Lists: waiting.IfSubscribed, Listens: true}
	mutex := Traits{Kind: protocol.MutexKind}
	for name, test := range map[string]struct {
		traits Traits
		args   Args
		config func(e *Engine)
		want   waiting.Policy
	}{
		"mutex": {traits: mutex, want: waitlist},
		"polling mutex": {
			traits: Traits{Kind: protocol.MutexKind, Polling: &Backoff{}},
			want:   waiting.Policy{LongestSleep: math.MaxInt64},
		},
		"fair mutex": {
			traits: Traits{Kind: protocol.FairKind},
			want:   waiting.Policy{Lists: waiting.Always, Listens: true, Registers: true, GrantValid: grantValid, GrantMin: waitlist.GrantMin},
		},
		"permits": {
			traits: Traits{Kind: protocol.PermitsKind},
			want:   waiting.Policy{Lists: waiting.IfSubscribed, Listens: true, GrantValid: grantValid, GrantMin: waitlist.GrantMin},
		},
		"semaphore":               {traits: Traits{Kind: protocol.SemaphoreKind}, want: waiting.Policy{Listens: true, Registers: true}},
		"latch":                   {traits: Traits{Kind: protocol.LatchKind}, want: waiting.Policy{Listens: true}},
		"a short lease":           {traits: mutex, args: Args{Lease: time.Second}, want: waiting.Policy{Lists: waiting.IfSubscribed, Listens: true, GrantValid: 988 * time.Millisecond, GrantMin: time.Second / 2}},
		"a fenced lock":           {traits: Traits{Kind: protocol.MutexKind, Fenced: true}, want: unconfirmed},
		"a fixed lease":           {traits: mutex, args: Args{Fixed: true}, want: unconfirmed},
		"MinHold":                 {traits: mutex, args: Args{MinHold: time.Second}, want: unconfirmed},
		"a least time to live":    {traits: mutex, args: Args{AtLeast: time.Second}, want: unconfirmed},
		"MaxHold":                 {traits: mutex, config: func(e *Engine) { e.MaxHold = time.Hour }, want: unconfirmed},
		"replica acknowledgement": {traits: mutex, config: func(e *Engine) { e.Replicas = 1 }, want: unconfirmed},
	} {
		bubble(t, func(t *testing.T, e *Engine) {
			if test.config != nil {
				test.config(e)
			}
			if test.args.Lease == 0 {
				test.args.Lease = e.Lease
			}
			a := newBlockingCall(t.Context(), lockOf(e, test.traits, "x"), OpAcquire, &test.args)
			want := test.want
			want.FailurePause, want.Outage = 500*time.Millisecond, 30*time.Second
			want.SharesFailureAt = mono.Now().Add(1500 * time.Millisecond)
			if want.LongestSleep == 0 {
				want.LongestSleep = 3 * time.Second
			}
			if got := policyOf(&a, protocol.Acquire{Lease: test.args.Lease}.Grant()); got != want {
				t.Errorf("%s: %+v\nwant %+v", name, got, want)
			}
		})
	}
}

// TestPolicyOfReaders: a reader that comes too late to join waits for 2 ms for the cohort to end, or for a quarter of its time.
func TestPolicyOfReaders(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		soon, cancel := context.WithTimeout(t.Context(), 4*time.Millisecond)
		defer cancel()
		for _, test := range []struct {
			ctx  context.Context
			wait time.Duration
			want time.Duration
		}{{t.Context(), 0, 2 * time.Millisecond}, {t.Context(), 6 * time.Millisecond, 1500 * time.Microsecond}, {soon, 0, time.Millisecond}} {
			a := newBlockingCall(test.ctx, lockOf(e, Traits{Kind: protocol.ReadKind}, "x"), OpAcquire, &Args{Wait: test.wait})
			if got := policyOf(&a, 0).ClosesCohortAt.Sub(mono.Now()); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		}
	})
}
