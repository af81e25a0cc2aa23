package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
)

// A turn is so many pairs of one contender, in one pipeline. Turns are short, so
// that some of them are not interrupted by other programs.
const (
	pairsATurn  = 250
	turnsARound = 40
)

// permitsAtFirst is how many permits each semaphore has.
const permitsAtFirst = 10

// scriptRun measures the server's time of pairs of scripts.
type scriptRun struct {
	rdb   *redis.Client
	turns int
}

// scriptFigure is the fastest turn of a contender.
type scriptFigure struct {
	pair  scriptPair
	micro float64 // server time of a pair, µs
}

// compareScripts is the mode --scripts: it measures, and writes a table.
func (j *job) compareScripts(ctx context.Context) (err error) {
	run := &scriptRun{rdb: redis.NewClient(&redis.Options{Addr: j.addr}), turns: j.rounds * turnsARound}
	if j.fewTurns {
		run.turns = j.rounds
	}
	defer func() { err = errors.Join(err, run.rdb.Close()) }()
	id := "holdfast-bench:" + rand.Text()[:8]
	kinds, limit := scriptKinds(id, j.lease), barest(id, j.lease)
	figures := make([]*scriptFigure, 0, 2*len(kinds)+1)
	for _, k := range kinds {
		figures = append(figures, &scriptFigure{pair: k.holdfast}, &scriptFigure{pair: k.theirs})
	}
	figures = append(figures, &scriptFigure{pair: limit})
	if err := run.measure(ctx, figures, j.progress); err != nil {
		return err
	}
	for _, f := range figures {
		if err := run.rdb.Del(ctx, f.pair.semaphore).Err(); err != nil {
			return err
		}
	}
	return j.writeScripts(run.turns, kinds, figures)
}

// scriptRecord is the server's time of a pair, µs.
type scriptRecord struct {
	Kind     string  `json:"kind"`
	Lock     string  `json:"lock"`
	Micros   float64 `json:"holdfast_us"`
	Redisson float64 `json:"as_redisson_us"`
}

// writeScripts writes the table. The figures are two of each kind, and the limit's.
func (j *job) writeScripts(turns int, kinds []scriptKind, figures []*scriptFigure) error {
	t := &table{}
	t.add("server time of a pair, µs", "holdfast", "as Redisson", "ratio")
	for i, k := range kinds {
		ours, theirs := figures[2*i].micro, figures[2*i+1].micro
		t.add(k.name, decimal(ours, 1), decimal(theirs, 1), hundredths(ours/theirs))
		if err := j.records.write(scriptRecord{"scripts", k.name, ours, theirs}); err != nil {
			return err
		}
	}
	t.add("the barest pair", decimal(figures[len(figures)-1].micro, 1), none, none)
	_, err := fmt.Fprintf(j.stdout, `A free lock taken and given back, by two scripts: the server's own figure for EVALSHA (INFO commandstats).
The fastest of %d turns of %d pairs each, in turns. "As Redisson": scripts that do what Redisson's do,
without the DEL that Redisson sends behind each unlock. The barest pair sets a field and a time to live,
deletes the key and announces it; it is no lock, but the limit.

%s`, turns, pairsATurn, t)
	return err
}

// measure has the contenders take turns.
func (r *scriptRun) measure(ctx context.Context, figures []*scriptFigure, progress io.Writer) error {
	for _, f := range figures {
		if err := r.load(ctx, f.pair); err != nil {
			return err
		}
	}
	for turn := range r.turns {
		for _, f := range figures {
			micro, err := r.turn(ctx, f.pair)
			if err != nil {
				return err
			}
			if turn == 0 || micro < f.micro {
				f.micro = micro
			}
		}
		if (turn+1)%turnsARound == 0 {
			if _, err := fmt.Fprintf(progress, "%d/%d turns\n", turn+1, r.turns); err != nil {
				return err
			}
		}
	}
	return nil
}

// load has the server know the scripts of a contender, and what they need.
func (r *scriptRun) load(ctx context.Context, p scriptPair) error {
	for _, call := range p.pair() {
		if err := r.rdb.ScriptLoad(ctx, call.script.Source()).Err(); err != nil {
			return fmt.Errorf("loading %s: %w", call.script.Name(), err)
		}
	}
	if p.semaphore == "" {
		return nil
	}
	return r.rdb.Set(ctx, p.semaphore, permitsAtFirst, 0).Err()
}

// turn runs pairs, and returns what one of them took the server, in µs.
func (r *scriptRun) turn(ctx context.Context, p scriptPair) (float64, error) {
	calls := make([]scriptCall, 0, 2*pairsATurn)
	pipe := r.rdb.Pipeline()
	for range pairsATurn {
		pair := p.pair()
		calls = append(calls, pair[:]...)
	}
	replies := make([]*redis.Cmd, len(calls))
	for i, call := range calls {
		replies[i] = pipe.EvalSha(ctx, call.script.SHA(), call.keys, call.args...)
		if call.leaves != "" {
			pipe.Del(ctx, call.leaves)
		}
	}
	before, err := r.spent(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	for i, reply := range replies {
		if !calls[i].want(reply.Val()) {
			return 0, fmt.Errorf("%s of %v replied %v", calls[i].script.Name(), calls[i].keys, reply)
		}
	}
	after, err := r.spent(ctx)
	return float64(after-before) / pairsATurn, err
}

// spent returns how long the server has executed EVALSHA, in µs, in all.
func (r *scriptRun) spent(ctx context.Context) (int64, error) {
	info, err := r.rdb.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	return commandStat(info["Commandstats"], "cmdstat_evalsha", "usec")
}
