package reports

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/scale"
)

// Whatever was measured has its row.
func TestScaleTables(t *testing.T) {
	var out strings.Builder
	one := workloads.Spread[float64]{Median: 1, Low: 1, High: 1}
	err := WriteScale(&out, scale.Report{
		Run: &scale.Run{}, Primaries: []scale.Primaries{{Place: "here", Client: "rueidis", PerSecond: one, BusiestMicros: one, Shares: []float64{0.25, 0.75}}},
		Messages: []scale.Messages{{Client: "rueidis", Sharded: true}}, Renewals: []scale.Renewals{{Place: "here", Names: "any", Client: "rueidis"}},
		Idle: []scale.Idle{{Place: "here", NodeCPU: 0.5}}, Subscribers: scale.Subscribers{Listeners: 1234},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nhere, rueidis ", "25 : 75 %", "1,000,000", "\nSPUBLISH, rueidis ", "\nhere, names any, rueidis ", "a node of here needs 50.00 % of a core", "1,234"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
