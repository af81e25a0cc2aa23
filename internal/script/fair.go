package script

import "github.com/holdfast-go/holdfast/driver"

// Fair are the scripts of the fair lock. It is renewed as the plain lock is.
var Fair = struct{ Acquire, Release, Force, Inspect, Leave *driver.Script }{
	Acquire: load("fair", "acquire", "fair"),
	Release: load("fair", "release", "fair"),
	Force:   load("fair", "force", "fair"),
	Inspect: load("fair", "inspect", "fair"),
	Leave:   load("fair", "leave", "fair"),
}
