package script

import "github.com/holdfast-go/holdfast/driver"

// Latch are the scripts of the count-down latch.
var Latch = struct {
	Await, Down, Set *driver.Script
}{
	Await: load("latch", "await", "calls"),
	Down:  load("latch", "down", "calls"),
	Set:   load("latch", "set", "calls"),
}
