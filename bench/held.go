package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// cpuFrom is the least number of holds whose renewals take so much of a core that
// it can be told from the rest of what the process does.
const cpuFrom = 1000

// heldRun measures what locks cost while they are held.
type heldRun struct {
	setup    setup
	most     int // holds
	window   time.Duration
	limit    time.Duration // of a session's end
	id       string        // in front of every key
	meter    meter
	progress io.Writer
}

// heldRecord is a number of holds. Their memory is that of one of them.
type heldRecord struct {
	Kind      string `json:"kind"`
	Contender string `json:"contender"`
	Client    string `json:"client"`
	Holds     int    `json:"holds"`
	memory

	// Shares of one core, over all holds and a window of so long; no window if they
	// were not measured.
	CPU      float64       `json:"cpu_share_of_core"`
	RedisCPU float64       `json:"redis_cpu_share_of_core"`
	Window   time.Duration `json:"window_ns"`
	// Lost holds have ended before they were given back.
	Lost int `json:"lost"`
}

// contender has one contender hold more and more locks.
func (r *heldRun) contender(ctx context.Context, c contender) (records []heldRecord, err error) {
	prefix := r.id + ":" + c.short()
	names := makeNames(prefix, r.most)
	s, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, s)) }()
	if err := warm(ctx, s, prefix); err != nil {
		return nil, err
	}
	held := s.holds(len(names))
	defer func() { err = errors.Join(err, giveBackAll(ctx, held, len(names), err)) }()
	before := readMemory()
	taken := 0
	for _, n := range steps(1, r.most) {
		if err := takeAll(ctx, held, names[:n], taken); err != nil {
			return records, err
		}
		taken = n
		record, err := r.step(ctx, c, n, before)
		if err != nil {
			return records, err
		}
		record.Lost = held.lost()
		records = append(records, record)
	}
	return records, nil
}

// step measures n holds.
func (r *heldRun) step(ctx context.Context, c contender, n int, before memory) (record heldRecord, err error) {
	if _, err := fmt.Fprintf(r.progress, "held  %-22s %9s holds\n", c.full(), grouped(n)); err != nil {
		return record, err
	}
	if err := awaitQuiet(ctx); err != nil {
		return record, err
	}
	record = heldRecord{Kind: "held", Contender: c.name, Client: c.client, Holds: n, memory: readMemory().since(before, n)}
	if n >= cpuFrom || n == r.most {
		record.Window = r.window
		record.CPU, record.RedisCPU, err = r.shares(ctx)
	}
	return record, err
}

// shares are how much of a core this process and the server need while nothing
// happens but renewals.
func (r *heldRun) shares(ctx context.Context) (own, server float64, err error) {
	start := time.Now()
	ownBefore, err := processCPU()
	if err != nil {
		return 0, 0, err
	}
	serverBefore, err := r.meter.cpu(ctx)
	if err != nil {
		return 0, 0, err
	}
	pause(ctx, r.window)
	ownAfter, err := processCPU()
	if err != nil {
		return 0, 0, err
	}
	serverAfter, err := r.meter.cpu(ctx)
	took := time.Since(start)
	return share(ownBefore, ownAfter, took), share(serverBefore, serverAfter, took), err
}

// share is how much of a core was used of the time that has passed.
func share(before, after, passed time.Duration) float64 {
	return float64(after-before) / float64(passed)
}

// steps are low, ten times as many, and so on, up to high.
func steps(low, high int) (all []int) {
	for n := low; n < high; n *= 10 {
		all = append(all, n)
	}
	return append(all, high)
}
