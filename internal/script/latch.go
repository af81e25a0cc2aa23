package script

import "github.com/holdfast-go/holdfast/driver"

// Latch are the scripts of the count-down latch.
var Latch = struct {
	Await, Down, Set *driver.Script
}{
	Await: assemble("latch", "await", "calls"),
	Down:  assemble("latch", "down", "calls"),
	Set:   assemble("latch", "set", "calls"),
}
