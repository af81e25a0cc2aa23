package main

import (
	"runtime"
	"runtime/metrics"
)

// memory is what this process uses.
type memory struct {
	Heap       float64 `json:"heap_bytes"`  // of live objects
	Stacks     float64 `json:"stack_bytes"` // of goroutines
	Goroutines float64 `json:"goroutines"`
}

// collections are as many as it takes until nothing changes any more: the second one
// empties pools, and each one halves stacks of which little is used.
const collections = 6

// readMemory collects the garbage first.
func readMemory() memory {
	for range collections {
		runtime.GC()
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	value := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	return memory{Heap: value(0), Stacks: value(1), Goroutines: value(2)}
}

// since is what one of n has added to what there was before.
func (m memory) since(before memory, n int) memory {
	each := func(now, then float64) float64 { return (now - then) / float64(n) }
	return memory{
		Heap:       each(m.Heap, before.Heap),
		Stacks:     each(m.Stacks, before.Stacks),
		Goroutines: each(m.Goroutines, before.Goroutines),
	}
}
