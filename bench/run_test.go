package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Every contender has a figure in every kind of cell, or says why it has not; holdfast
// has one, and no overlap. The cells are as small as they can be.
func TestEveryKindOfCell(t *testing.T) {
	p := plan{
		setup: setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 20, Lease: 30 * time.Second}, contenders: contenders(), workloads: smallWorkloads(),
		rounds: 1, window: 300 * time.Millisecond, limit: 5 * time.Second, progress: t.Output(),
	}
	entries, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, w := range p.workloads {
		for _, c := range contenders() {
			if w.suits(c) {
				want++
			}
		}
	}
	if len(entries) != want || want == 0 {
		t.Errorf("%d entries, want %d", len(entries), want)
	}
	for _, e := range entries {
		checkEntry(t, p.rounds, e)
	}
}

// smallWorkloads are those of each kind, with few goroutines.
func smallWorkloads() (small []workload) {
	seen := map[string]bool{}
	for _, w := range workloads() {
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

func checkEntry(t *testing.T, rounds int, e *entry) {
	t.Helper()
	if len(e.rounds) != rounds && !e.hopeless() {
		t.Errorf("%s, %s: %d rounds, want %d", e.contender.full(), e.workload.Title, len(e.rounds), rounds)
	}
	for i, f := range e.rounds {
		remark := f.remark()
		if !f.measured() && (e.contender.ours || remark == "") {
			t.Errorf("%s, %s, round %d: no figure; remark: %q", e.contender.full(), e.workload.Title, i+1, remark)
		}
		if e.contender.ours && remark != "" {
			t.Errorf("%s, %s, round %d: %s", e.contender.full(), e.workload.Title, i+1, remark)
		}
	}
}
