package workloads

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain makes the test binary a process of a crew when it is started as one.
func TestMain(m *testing.M) {
	if Member() {
		return
	}
	goleak.VerifyTestMain(m)
}

// Every contender has a figure in every kind of cell, or says why it has not; holdfast
// has one, and no overlap. The cells are as small as they can be.
func TestEveryKindOfCell(t *testing.T) {
	p := Plan{
		Setup: contenders.Setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 20, Lease: 30 * time.Second}, Contenders: contenders.All(), Workloads: smallWorkloads(),
		Rounds: 1, Window: 300 * time.Millisecond, Limit: 5 * time.Second, Progress: t.Output(),
	}
	entries, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, w := range p.Workloads {
		for _, c := range contenders.All() {
			if w.Suits(c) {
				want++
			}
		}
	}
	if len(entries) != want || want == 0 {
		t.Errorf("%d entries, want %d", len(entries), want)
	}
	for _, e := range entries {
		checkEntry(t, p.Rounds, e)
	}
}

// smallWorkloads are those of each kind, with few goroutines.
func smallWorkloads() (small []Workload) {
	seen := map[string]bool{}
	for _, w := range All() {
		shape := fmt.Sprint(w.Shared, w.Kind, w.Processes > 0)
		if seen[shape] || w.Clients || w.Alternate { // crew_test.go has these
			continue
		}
		seen[shape] = true
		w.Goroutines, w.Processes, w.Ramp = min(4, w.Goroutines), min(2, w.Processes), min(w.Ramp, 10*time.Millisecond)
		small = append(small, w)
	}
	return small
}

func checkEntry(t *testing.T, rounds int, e *Entry) {
	t.Helper()
	if len(e.Rounds) != rounds && !e.hopeless() {
		t.Errorf("%s, %s: %d rounds, want %d", e.Contender.Full(), e.Workload.Title, len(e.Rounds), rounds)
	}
	for i, f := range e.Rounds {
		remark := f.Remark()
		if !f.Measured() && (e.Contender.Ours || remark == "") {
			t.Errorf("%s, %s, round %d: no figure; remark: %q", e.Contender.Full(), e.Workload.Title, i+1, remark)
		}
		if e.Contender.Ours && remark != "" {
			t.Errorf("%s, %s, round %d: %s", e.Contender.Full(), e.Workload.Title, i+1, remark)
		}
	}
}
