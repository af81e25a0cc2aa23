package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	all, err := read(strings.NewReader(`=== RUN   TestSoak
soak: 1m5s: 9 cycles, 8 granted, 0 lost, 1 refused, 0 failed, 3 faults; at rest: 42 goroutines, heap 2048 KiB, 2 connections, 0 channels and 0 for grants, keys: 12 identities of clients, 2 tokens
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"goroutines": 42, "heap, MiB": 2, "keys": 14, "connections": 2}
	for _, s := range all {
		if len(s.points) != 1 || s.points[0].X < 1 || s.points[0].X > 1.1 || s.points[0].Y != want[s.name] {
			t.Errorf("%s: %v, want %v after 65 s", s.name, s.points, want[s.name])
		}
	}
	if _, err := read(strings.NewReader("PASS\n")); err == nil {
		t.Error("nothing was read, and nobody is told")
	}
}
