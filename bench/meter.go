package main

import (
	"context"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// A meter reads what the server and this process have spent so far.
type meter struct{ rdb *redis.Client }

func newMeter(addr string) meter { return meter{redis.NewClient(&redis.Options{Addr: addr})} }

func (m meter) close() error { return m.rdb.Close() }

// A reading is what has been spent up to a moment.
type reading struct {
	cpu      time.Duration // of the server process
	executed int64         // commands, those that scripts call included
	scripts  int64         // those of them that run scripts
	mallocs  uint64        // of this process
}

// before takes the reading at the start of a cell. What it costs the server is not
// part of the cell.
func (m meter) before(ctx context.Context) (r reading, err error) {
	if r.executed, r.scripts, err = m.commands(ctx); err != nil {
		return r, err
	}
	if r.cpu, err = m.cpu(ctx); err != nil {
		return r, err
	}
	r.mallocs = mallocs()
	return r, nil
}

// after takes the reading at the end of a cell.
func (m meter) after(ctx context.Context) (r reading, err error) {
	r.mallocs = mallocs()
	if r.cpu, err = m.cpu(ctx); err != nil {
		return r, err
	}
	r.executed, r.scripts, err = m.commands(ctx)
	return r, err
}

func (m meter) cpu(ctx context.Context) (time.Duration, error) {
	info, err := m.rdb.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	return cpuTime(info["CPU"])
}

func (m meter) commands(ctx context.Context) (all, scripts int64, err error) {
	info, err := m.rdb.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	section := info["Commandstats"]
	if scripts, err = scriptCalls(section); err != nil {
		return 0, 0, err
	}
	all, err = executed(section)
	return all, scripts, err
}

func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// spent are the figures with what one of the cell's pairs has cost between two readings.
func (f figures) spent(before, after reading) figures {
	if f.Completed == 0 {
		return f
	}
	pairs := float64(f.Completed)
	f.RedisMicros = float64(after.cpu-before.cpu) / float64(time.Microsecond) / pairs
	f.Executed = float64(after.executed-before.executed) / pairs
	f.Allocs = float64(after.mallocs-before.mallocs) / pairs
	return f
}
