package protocol

import "testing"

// safe are the assumptions of docs/fencing.md.
var safe = Failover{Skew: 1, Failovers: mostFailovers}

// acknowledged has none of those about primaries, and none about clocks in the rows that drop it. All replicas acknowledge
// each grant.
var acknowledged = Failover{Deposed: true, Acknowledged: true, Failovers: mostFailovers}

// with is a copy that something is changed in.
func (m Failover) with(change func(m *Failover)) Failover {
	change(&m)
	return m
}

func TestFailover(t *testing.T) {
	all := []invariant[cluster]{oneHolder, tokensRise, noStaleWrite}
	fencing := []invariant[cluster]{tokensRise, noStaleWrite}
	for _, row := range []struct {
		what  string
		model Failover
		want  []invariant[cluster] // what holds, all of it
		not   []invariant[cluster] // what does not, each by itself
	}{
		{"no failover, no write that is late, no fencing", Failover{StoreTakesAll: true, WritesAtOnce: true}, all, nil},
		{"Kleppmann: a write that is late, no fencing", Failover{StoreTakesAll: true}, []invariant[cluster]{oneHolder}, []invariant[cluster]{noStaleWrite}},
		{
			"a holder that does not look, no write that is late, no fencing",
			Failover{IgnoresDeadline: true, StoreTakesAll: true, WritesAtOnce: true},
			[]invariant[cluster]{oneHolder},
			[]invariant[cluster]{noStaleWrite},
		},
		{"a write that is late", Failover{}, all, nil},
		{"two failovers", safe, fencing, []invariant[cluster]{oneHolder}},
		{
			"two failovers, no write that is late, no fencing",
			safe.with(func(m *Failover) { m.StoreTakesAll, m.WritesAtOnce = true, true }), nil,
			[]invariant[cluster]{noStaleWrite},
		},
		{"two failovers, a writer without a token", safe.with(func(m *Failover) { m.OneHasNoToken = true }), nil, []invariant[cluster]{noStaleWrite}},
		{"two failovers, holders that do not look", safe.with(func(m *Failover) { m.IgnoresDeadline = true }), fencing, nil},
		{"no failover, trust from the reply", Failover{TrustFromReply: true}, fencing, []invariant[cluster]{oneHolder}},
		{"no failover, counted tokens", Failover{Tokens: counted}, fencing, nil},
		{"two failovers, counted tokens", safe.with(func(m *Failover) { m.Tokens = counted }), nil, fencing},
		{"no failover, the clock set back, tokens that are the time alone", Failover{Tokens: clockAlone, ClockSet: -2 * perTick}, nil, fencing},
		{"no failover, the clock set back", Failover{ClockSet: -2 * perTick}, fencing, nil},
		{"no failover, the clock set forward", Failover{ClockSet: 2 * perTick}, fencing, []invariant[cluster]{oneHolder}},
		{"two failovers, clocks too far apart", safe.with(func(m *Failover) { m.Skew = perTick }), nil, fencing},
		{"two failovers, the clock set back", safe.with(func(m *Failover) { m.ClockSet = -2 * perTick }), nil, fencing},
		{"a primary that was replaced serves on", safe.with(func(m *Failover) { m.Deposed = true }), nil, fencing},
		{"all replicas acknowledge, clocks too far apart", acknowledged.with(func(m *Failover) { m.Skew = perTick }), fencing, nil},
		{"all replicas acknowledge, the clock set back", acknowledged.with(func(m *Failover) { m.ClockSet = -2 * perTick }), fencing, nil},
		{"all replicas acknowledge, tokens that are the time alone", acknowledged.with(func(m *Failover) { m.Tokens, m.Skew = clockAlone, perTick }), nil, []invariant[cluster]{tokensRise}},
	} {
		t.Run(row.what, func(t *testing.T) {
			if len(row.want) > 0 {
				f := search(row.model, row.want...)
				t.Log(f.report(row.what))
				if f.broken != "" {
					t.Errorf("%s is broken", f.broken)
				}
			}
			for _, broken := range row.not {
				f := search(row.model, broken)
				t.Log(f.report(row.what))
				if f.broken == "" {
					t.Errorf("%s is not broken, though it must be", broken.name)
				}
			}
		})
	}
}
