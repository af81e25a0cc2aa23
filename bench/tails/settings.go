package tails

import (
	"flag"
	"testing"
)

// settings are the flags of the test binary.
var settings struct {
	trials  float64
	figures string
	page    string
	note    string
	seed    uint64
}

// Flags has the command line say how much to measure, and where to write it.
func Flags(f *flag.FlagSet) {
	f.Float64Var(&settings.trials, "trials", 0, "the part of all trials to make: 1 for all; 0 for a few, as a test")
	f.StringVar(&settings.figures, "figures", "", "append what is measured to this file")
	f.StringVar(&settings.page, "page", "", "write the page of what the file has, and the plots beside it")
	f.StringVar(&settings.note, "note", "", "what the page says of the machine at that time")
	f.Uint64Var(&settings.seed, "seed", 1, "of the moments of the faults")
}

// few is how many trials a test makes.
const few = 4

// part is how many of so many trials are made.
func part(all int) int {
	if settings.trials == 0 {
		return min(all, few)
	}
	return max(1, int(float64(all)*settings.trials))
}

// onlyMeasured leaves out of make test what takes long; what must hold there is tested in test/.
func onlyMeasured(t *testing.T) {
	t.Helper()
	if settings.trials == 0 {
		t.Skip("without -trials it is not measured")
	}
}
