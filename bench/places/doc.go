// Package places is where locks are: servers and clusters, what they and this process have spent, the commands that
// clients have sent, and the rooms that locks protect.
//
// Servers are redis-server processes that package redistest starts; they end with the stage on which they are started, or
// with the test. A monitor has one goroutine, which ends with its connection. A room may lie in a file that several
// processes map; that needs a Unix, as all of this does.
package places
