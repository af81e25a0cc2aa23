package test

import "testing"

// TestFairStress is TestStress with fair locks. At the end of each program no
// place in line may be left, which fake sees to.
func TestFairStress(t *testing.T) {
	for seed := *stressFirst; seed < *stressFirst+uint64(*stressSeeds)/5; seed++ {
		fake(t, func(t *testing.T, w *world) {
			s := newStress(t, w, seed)
			s.fair = true
			s.run()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
