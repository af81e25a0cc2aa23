// Package places is where locks are: servers and clusters, what they and this process have spent, and the
// rooms that locks protect.
//
// Servers are redis-server processes that package redistest starts; they end with the stage on which they are started, or
// with the test. A room may lie in a file that several
// processes map; that needs a Unix, as all of this does.
package places
