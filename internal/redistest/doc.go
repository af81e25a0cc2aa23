// Package redistest starts real Redis servers for tests, and a TCP proxy that
// injects faults between a client and a server.
//
// Every server is a redis-server process of its own, on a free loopback port,
// with its files in a directory of the test. Nothing is shared between tests.
// Whatever is started through a [testing.TB] is ended by a cleanup of that
// TB, also if the test failed or left the server stopped; on Linux it also
// dies when the test binary itself is killed. If redis-server or redis-cli is
// not installed the test fails; it is never skipped.
//
// Methods that take a TB end the test through it when they fail. Those that do
// not take one use the TB that started the thing. Both must be called from a
// test's own goroutine, as with [testing.TB.FailNow].
//
// # Goroutines
//
// Each server process has one goroutine. It starts the process, waits for it
// and ends with it; [Server.Kill], [Server.Shutdown] and the cleanup wait for
// that.
//
// A [Proxy] has one goroutine that accepts connections, and for each
// connection one that dials the server, starts two readers and two writers
// (one pair in each direction) and waits for them. [Proxy.Close], which is
// also the cleanup, waits for all of them.
//
// # Mutexes
//
// Server.mu guards the process that the server is now, which Restart replaces,
// and whether it is suspended. It is held for the whole of each operation on
// the process, so those exclude each other.
//
// Proxy.mu guards all that may change in a proxy: the faults switched on, the
// requests seen, the set of connections, and the count of requests and replies
// on each of them. It is never held while reading, writing or waiting.
//
// link.mu guards the two network connections of one proxied connection, so
// that it can be ended while the second one is still being dialled.
//
// ports guards the ports of this test binary, those in use and those that are not.
package redistest
