// Package present writes locks for people: names that cannot harm a terminal, times, who holds a lock,
// and tables that fit the width there is.
//
// All text that comes from Redis goes through [Safe]: a name may hold control characters, and a
// terminal obeys them.
package present
