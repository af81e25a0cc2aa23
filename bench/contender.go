package main

import (
	"context"
	"fmt"
	"time"
)

// A pair acquires a lock, calls critical while it has it, and gives it back. It
// ends when ctx does. One goroutine calls it.
type pair func(ctx context.Context, critical func()) error

// A session is a contender that is connected to the server: a pairer, or a cell runner.
type session interface {
	close() error
}

// A pairer is a session whose locks the goroutines of this process use.
type pairer interface {
	session
	// pair returns what one goroutine needs to use the lock of that name.
	pair(name string) pair
}

// A kindPairer has other kinds of locks as well.
type kindPairer interface {
	pairer
	fair(name string) pair
	// readWrite returns two pairs, for the two sides of one lock.
	readWrite(name string) (read, write pair)
}

// A cellRunner is a session that runs whole cells elsewhere.
type cellRunner interface {
	session
	// runCell returns within the cell's window and three times its limit.
	runCell(ctx context.Context, c *cell) figures
}

// redissonName is the full name of Redisson itself.
const redissonName = "Redisson on " + inJVM

// The clients.
const (
	goRedis    = "go-redis"
	rueidisLib = "rueidis"
	inJVM      = "JVM" // its own
)

// A contender is a library on a client.
type contender struct {
	name   string
	client string
	// notes say how it is set up, for the reader of the table.
	notes string
	// bare marks what is no lock: it excludes nobody, so it runs only where
	// nobody meets anybody.
	bare bool
	// ours marks what may not overlap, or the run fails.
	ours bool
	// kinds: it has fair and read-write locks.
	kinds bool
	open  func(context.Context, setup) (session, error)
}

// setup is what all sessions have in common.
type setup struct {
	addr  string
	pool  int           // connections of each go-redis client
	lease time.Duration // of every lock
	// small: there are many clients, so their buffers are as small as can be.
	small bool
	// jvmWarm is how long Redisson runs before it is measured, with many threads, and
	// again with one.
	jvmWarm time.Duration
}

// contenders are all that take part, in the order of their turns, but for Redisson. One
// that is added here takes part in every workload that suits it.
func contenders() []contender {
	return []contender{
		holdfastOnGoRedis(), holdfastOnRueidis(),
		redislockOnGoRedis(), redsyncOnGoRedis(), rueidislockOnRueidis(),
		bareOnGoRedis(), bareOnRueidis(),
	}
}

// contenderOf returns the one of this full name.
func contenderOf(full string) (contender, error) {
	for _, c := range contenders() {
		if c.full() == full {
			return c, nil
		}
	}
	return contender{}, fmt.Errorf("there is no contender %q", full)
}

// full returns the name with the client.
func (c contender) full() string { return c.name + " on " + c.client }

// short is the name with the client as it stands in tables.
func (c contender) short() string { return c.name + "/" + c.client }

// peer reports whether it is a lock of somebody else's.
func (c contender) peer() bool { return !c.ours && !c.bare }
