package main

import (
	"context"
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

// A cellRunner is a session that runs whole cells elsewhere.
type cellRunner interface {
	session
	// runCell returns within the cell's window and three times its limit.
	runCell(ctx context.Context, c *cell) figures
}

// redissonName is the full name of Redisson itself.
const redissonName = "Redisson on JVM"

// The clients.
const (
	goRedis    = "go-redis"
	rueidisLib = "rueidis"
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
	open func(context.Context, setup) (session, error)
}

// setup is what all sessions have in common.
type setup struct {
	addr  string
	pool  int           // connections of each go-redis client
	lease time.Duration // of every lock
	// jvmWarm is how long Redisson runs before it is measured, with many threads, and
	// again with one.
	jvmWarm time.Duration
}

// contenders are all that take part, in the order of their turns.
// But for Redisson.
func contenders() []contender {
	return []contender{
		holdfastOnGoRedis(), holdfastOnRueidis(),
		redislockOnGoRedis(), redsyncOnGoRedis(), rueidislockOnRueidis(),
		bareOnGoRedis(), bareOnRueidis(),
	}
}

// full returns the name with the client.
func (c contender) full() string { return c.name + " on " + c.client }

// short is the name with the client as it stands in tables.
func (c contender) short() string { return c.name + "/" + c.client }

// peer reports whether it is a lock of somebody else's.
func (c contender) peer() bool { return !c.ours && !c.bare }

// A workload is what the goroutines of a cell do.
type workload struct {
	id         string // for flags and files
	title      string
	goroutines int
	shared     bool // all on one lock
}

func workloads() []workload {
	return []workload{
		{id: "1", title: "1 goroutine", goroutines: 1},
		{id: "64", title: "64, a lock each", goroutines: 64},
		{id: "256", title: "256, a lock each", goroutines: 256},
		{id: "1024", title: "1,024, a lock each", goroutines: 1024},
		{id: "64-on-one", title: "64 on one lock", goroutines: 64, shared: true},
	}
}

// suits reports whether the contender takes part in the workload.
func (c contender) suits(w workload) bool { return !c.bare || !w.shared }
