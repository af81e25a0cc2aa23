package script

import "github.com/holdfast-go/holdfast/driver"

// Fair are the scripts of the fair lock. It is renewed as the plain lock is.
var Fair = struct{ Acquire, Release, Force, Inspect, Leave *driver.Script }{
	Acquire: loadFair("acquire"),
	Release: loadFair("release"),
	Force:   loadFair("force"),
	Inspect: loadFair("inspect"),
	Leave:   loadFair("leave"),
}

// loadFair is load with what the scripts of the fair lock have in common.
func loadFair(operation string) *driver.Script {
	return driver.NewScript(operation, source("common")+source("fair")+source("fair_"+operation))
}
