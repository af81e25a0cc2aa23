package rueidisdriver

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestOptionOf finds the options of a client behind Sentinel, and of no other.
func TestOptionOf(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1)
	made := rueidis.ClientOption{
		InitAddress: sentinel.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: sentinel.MasterName()}, ClientName: "shop",
	}
	client := connect(t, made)
	found, ok := optionOf(client)
	if !ok || found.ClientName != "shop" || found.Sentinel.MasterSet != made.Sentinel.MasterSet || len(found.InitAddress) != 1 {
		t.Errorf("%t, %+v", ok, found)
	}
	type wrapper struct{ rueidis.Client }
	for _, other := range []rueidis.Client{
		wrapper{client}, &wrapper{client}, connect(t, rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}}),
	} {
		if found, ok := optionOf(other); ok {
			t.Errorf("%T: %+v", other, found)
		}
	}
}

// behindSentinel is a driver whose client is not told of failovers: its connection to a Sentinel has fallen silent. The
// Sentinels are not asked until answer is called, and calls are in doubt.
type behindSentinel struct {
	*Driver
	sentinel *redistest.Sentinel
}

func newBehindSentinel(t *testing.T, option rueidis.ClientOption) *behindSentinel {
	t.Helper()
	sentinel := redistest.StartSentinel(t, 1, 1)
	firewall := redistest.NewFirewall(t, sentinel.Sentinels...)
	at := drivertest.Endpoint{Addrs: sentinel.Addrs(), MasterName: sentinel.MasterName(), Dial: firewall.Dial}
	b := &behindSentinel{New(connectTo(t, at, option)), sentinel}
	firewall.Forget()
	t.Cleanup(firewall.Cut)
	b.only.asking <- struct{}{}
	b.calls.Doubt.Raise()
	return b
}

// answer makes the Sentinels answer when they are asked.
func (b *behindSentinel) answer() { <-b.only.asking }

// attempt makes a call. The former primary refuses it once it is a replica.
func (b *behindSentinel) attempt(t *testing.T) {
	t.Helper()
	if _, err := b.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
		t.Log(err)
	}
}

// call makes a call that must be answered.
func (b *behindSentinel) call(t *testing.T) {
	t.Helper()
	if _, err := b.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
		t.Error(err)
	}
}

// TestFormerPrimaryIsNotProven fails over while the client's connections stay open. The former primary answers them like a primary for
// some seconds more. Calls use the new primary once a Sentinel has answered, however late.
func TestFormerPrimaryIsNotProven(t *testing.T) {
	t.Parallel()
	b := newBehindSentinel(t, rueidis.ClientOption{})
	promoted := b.sentinel.Failover(t)
	b.attempt(t) // the search has ended before the Sentinels answer
	b.answer()
	eventually(t, "calls use the primary that the Sentinels name", func() bool {
		b.attempt(t)
		s := b.only.spare.Load()
		if s == nil {
			t.Fatal("the former primary is trusted")
		}
		return s.fresh != nil
	})
	before := promoted.Cli(t, "GET", "k")
	b.call(t)
	if after := promoted.Cli(t, "GET", "k"); after == before {
		t.Errorf("the key is %q at the new primary, after one more call %q", before, after)
	}
}

// TestFormerPrimaryBesideNewOne fails over to a replica that the client uses as such, for commands that read. The client is not
// proven because it uses the server that the Sentinels name: its primary is another one.
func TestFormerPrimaryBesideNewOne(t *testing.T) {
	t.Parallel()
	b := newBehindSentinel(t, rueidis.ClientOption{SendToReplicas: func(c rueidis.Completed) bool { return c.IsReadOnly() }})
	b.answer()
	eventually(t, "the doubt ends while the primary is the same", func() bool {
		b.call(t)
		return b.only.spare.Load() == nil
	})
	b.sentinel.Failover(t)
	b.calls.Doubt.Raise()
	var s *spare
	eventually(t, "calls use the primary that the Sentinels name", func() bool {
		b.attempt(t)
		if s = b.only.spare.Load(); s == nil {
			t.Fatal("the former primary is trusted")
		}
		return s.fresh != nil
	})
	if b.only.conclude(s, s.known, <-b.only.askOwn()) {
		t.Error("the former primary is trusted after a proof")
	}
}

// TestSentinelEndsDoubt has a proof succeed while no Sentinel answers. Calls use the client's own connections, and the doubt ends when
// a Sentinel has named their server.
func TestSentinelEndsDoubt(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"spare connection": true, "no spare connection": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBehindSentinel(t, rueidis.ClientOption{})
			if !pooled {
				b.only.finding <- struct{}{}
			}
			var proven *spare
			eventually(t, "the client's connections are proven", func() bool {
				b.call(t)
				if proven = b.only.spare.Load(); proven == nil {
					t.Fatal("the doubt has ended")
				}
				return proven != none && proven.conn == nil
			})
			b.call(t)
			eventually(t, "the Sentinels have not answered", func() bool { return !proven.used.Load() })
			if b.only.spare.Load() != proven {
				t.Error("the doubt has ended, or calls use something else")
			}
			b.answer()
			eventually(t, "a Sentinel ends the doubt", func() bool {
				b.call(t)
				return b.only.spare.Load() == nil
			})
		})
	}
}

// TestNewerDoubtStays has a Sentinel answer a question that is older than the doubt.
func TestNewerDoubtStays(t *testing.T) {
	t.Parallel()
	b := newBehindSentinel(t, rueidis.ClientOption{})
	older, newer := newSpare(nil, nil, nil), newSpare(nil, nil, nil)
	b.only.spare.Store(newer)
	b.answer()
	b.only.verify(older)
	if b.only.spare.Load() != newer {
		t.Error("it has ended the doubt")
	}
}

// TestWrappedBehindSentinel has a client of which the adapter cannot see how to ask the Sentinels. A proof is enough then.
func TestWrappedBehindSentinel(t *testing.T) {
	t.Parallel()
	b := newBehindSentinel(t, rueidis.ClientOption{})
	type wrapper struct{ rueidis.Client }
	b.client = wrapper{b.client}
	eventually(t, "the doubt ends", func() bool {
		b.call(t)
		return b.only.spare.Load() == nil
	})
}
