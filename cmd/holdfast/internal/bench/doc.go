// Package bench runs goroutines that lock and unlock on a Redis server, and says
// how many pairs they did, how long they waited, and how evenly the lock went
// round.
//
// # Goroutines
//
// Run waits for its workers. They end when the time is up, or the context ends:
// who waits for a lock gives up, and who has one gives it back. Each call to
// Redis is bounded by the client, so nobody stays for long. The progress bar has
// one goroutine, which Run waits for as well.
package bench
