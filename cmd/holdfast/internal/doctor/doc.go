// Package doctor says what is wrong with a Redis that locks are to live in.
//
// [Run] first finds the nodes, and asks each of them what the checks need: [gather]. Then it
// goes through [Checks], one after the other. A check of a node only reads what was gathered;
// the others may send commands: they try rights, and lock and unlock.
//
// # What it leaves behind
//
// Nothing but a few scripts in the server's cache of scripts, as every client of holdfast does.
// Keys have names of their own, end by themselves after [scratchTTL], and are deleted.
//
// # Time, and goroutines
//
// The context of [Run] ends after [Config.Timeout] at the latest, and every command has the
// client's timeouts besides. Nodes are asked side by side; [Run] waits for all those goroutines.
// What was not asked in time is not known.
package doctor
