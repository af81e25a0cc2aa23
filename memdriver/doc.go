// Package memdriver runs holdfast on a Redis inside the process, for tests: of
// holdfast itself, and of programs that use it.
//
// A [Server] executes the real Lua scripts, on the commands of miniredis. It opens no socket and takes the
// time from the time package, so it runs inside testing/synctest, where a lease
// of an hour ends in no time. (With the race detector, do so with -cpu 1: that of
// Go 1.26 may crash if a bubble uses more than one processor, golang/go#78156.)
// Each [Driver] on it is one client; give drivers of one server to several holdfast
// clients and they contend for the same locks.
//
// Faults are what the package is for: [Driver.SetFaults] decides for each call
// whether its request or its reply is lost, delayed or repeated, and
// [Driver.LoseMessages] cuts the subscriptions off. What is lost stays lost the
// way a network loses it: the caller learns nothing, and a delayed request is still
// executed.
//
// [Server.SetClock] sets the server's clock apart from the program's.
//
// It is no database. Nothing is persisted, nothing is replicated, and it is
// slower than a Redis server. [Server.SetReplicas] only says how many replicas
// acknowledge.
//
// # Goroutines
//
// A listener has two: one subscribes to what is wanted, one passes messages on. Close
// stops both and waits. A call that a fault has delayed beyond its context goes
// on in a goroutine of the driver's; [Server.Close] waits for those.
package memdriver
