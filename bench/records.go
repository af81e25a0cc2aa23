package main

import (
	"encoding/json"
	"io"
	"os"
)

// records are figures for programs: JSON, one object a line, each with its kind:
//
//	run      the machine and the programs, once
//	round    what one contender has measured under one workload in one round
//	result   the same over all rounds, with ratios
//	held     a number of holds
//	waiting  a number of waiters
//	scripts  the scripts of a kind of lock
//	primaries, messages, renewals, idle, subscribers  what --scale measures: see scale.go
//	goal     a goal, and the ratio that was measured
type records struct {
	to      io.WriteCloser
	encoder *json.Encoder
}

// toStdout is the name of the standard output, for --json.
const toStdout = "-"

// newRecords writes to a file; nowhere if it has no name.
func newRecords(file string, stdout io.Writer) (records, error) {
	var to io.WriteCloser
	switch file {
	case "":
		to = unclosed{io.Discard}
	case toStdout:
		to = unclosed{stdout}
	default:
		f, err := os.Create(file) //nolint:gosec // the user names it
		if err != nil {
			return records{}, err
		}
		to = f
	}
	return records{to, json.NewEncoder(to)}, nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func (r records) write(record any) error { return r.encoder.Encode(record) }

func (r records) close() error { return r.to.Close() }

// who names a contender under a workload.
type who struct {
	Kind      string `json:"kind"`
	Contender string `json:"contender"`
	Client    string `json:"client"`
	Workload  string `json:"workload"`
}

type roundRecord struct {
	who
	figures

	Round int `json:"round"`
}

// resultRecord has spreads over the rounds.
type resultRecord struct {
	who
	ratios

	Rounds      int             `json:"rounds"`
	PerSecond   spread[float64] `json:"pairs_per_second"`
	P50         spread[int64]   `json:"p50_ns"`
	P99         spread[int64]   `json:"p99_ns"`
	Max         spread[int64]   `json:"max_ns"`
	RedisMicros spread[float64] `json:"redis_cpu_us_per_pair"`
	Executed    spread[float64] `json:"commands_executed_per_pair"`
	Sent        float64         `json:"commands_sent_per_pair,omitempty"`
	Allocs      spread[float64] `json:"allocations_per_pair,omitzero"`
}

// writeEntries writes all rounds and results.
func (r records) writeEntries(entries []*entry) error {
	for _, e := range entries {
		for i, f := range e.rounds {
			if err := r.write(roundRecord{who: e.who("round"), figures: f, Round: i + 1}); err != nil {
				return err
			}
		}
		if err := r.write(resultOf(entries, e)); err != nil {
			return err
		}
	}
	return nil
}

func (e *entry) who(kind string) who {
	return who{kind, e.contender.name, e.contender.client, e.workload.id}
}

func resultOf(entries []*entry, e *entry) resultRecord {
	return resultRecord{
		who: e.who("result"), ratios: ratiosOf(entries, e), Rounds: len(e.rounds),
		PerSecond: over(e.rounds, perSecond),
		P50:       over(e.rounds, func(f figures) int64 { return f.P50.Nanoseconds() }),
		P99:       over(e.rounds, func(f figures) int64 { return f.P99.Nanoseconds() }),
		Max:       over(e.rounds, func(f figures) int64 { return f.Max.Nanoseconds() }),

		RedisMicros: over(e.rounds, redisMicros), Executed: over(e.rounds, executedPerPair),
		Sent: e.sent, Allocs: over(e.rounds, allocs),
	}
}
