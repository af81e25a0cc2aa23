package tails

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

var (
	trials  = flag.Float64("trials", 0, "the part of all trials to make: 1 for all; 0 for a few, as a test")
	figures = flag.String("figures", "", "append what is measured to this file")
	page    = flag.String("page", "", "write the page of what the file has, and the plots beside it")
	note    = flag.String("note", "", "what the page says of the machine at that time")
	seed    = flag.Uint64("seed", 1, "of the moments of the faults")
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	flag.Parse()
	logging.Disable() // of go-redis: connections fail here on purpose
	os.Exit(m.Run())
}

// few is how many trials a test makes.
const few = 4

// part is how many of so many trials are made.
func part(all int) int {
	if *trials == 0 {
		return min(all, few)
	}
	return max(1, int(float64(all)**trials))
}
