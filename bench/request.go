package main

import "time"

// memberRequest is what a process of a crew is to do: the first line of its standard
// input, JSON.
type memberRequest struct {
	Contender  string        `json:"contender"` // its full name
	Addr       string        `json:"addr"`
	Pool       int           `json:"pool"`
	Lease      time.Duration `json:"lease_ns"`
	Room       string        `json:"room"` // its file
	Prefix     string        `json:"prefix"`
	Window     time.Duration `json:"window_ns"`
	Limit      time.Duration `json:"limit_ns"`
	Process    int           `json:"process"`    // its number
	Processes  int           `json:"processes"`  // how many there are
	Goroutines int           `json:"goroutines"` // of this one
	Kind       lockKind      `json:"kind"`
	Hold       time.Duration `json:"hold_ns"`
	WriteEvery int           `json:"write_every"`
	Clients    bool          `json:"clients"`
	Alternate  bool          `json:"alternate"`
	Ramp       time.Duration `json:"ramp_ns"`
}

// request is that of one process of the cell, with the room in this file.
func (c *cell) request(process int, room string) memberRequest {
	w := c.workload
	return memberRequest{
		Contender: c.contender, Addr: c.setup.addr, Pool: c.setup.pool, Lease: c.setup.lease, Room: room, Prefix: c.prefix,
		Window: c.window, Limit: c.limit, Process: process, Processes: w.processes, Goroutines: w.share(process),
		Kind: w.kind, Hold: w.hold, WriteEvery: w.writeEvery, Clients: w.clients, Alternate: w.alternate, Ramp: w.ramp,
	}
}

func (q memberRequest) workload() workload {
	return workload{
		goroutines: q.Goroutines, shared: true, kind: q.Kind, hold: q.Hold, writeEvery: q.WriteEvery,
		processes: q.Processes, clients: q.Clients, alternate: q.Alternate, ramp: q.Ramp,
	}
}

func (q memberRequest) setup() setup {
	return setup{addr: q.Addr, pool: q.Pool, lease: q.Lease, small: q.Clients}
}

// limit is how long the process may live.
func (q memberRequest) limit() time.Duration {
	return crewStart + q.Ramp + q.Window + 3*q.Limit + crewGrace
}

// memberReady is the first line of the process' standard output, JSON. The second one is
// an outcome.
type memberReady struct {
	Error string `json:"error"` // why it is not ready
}
