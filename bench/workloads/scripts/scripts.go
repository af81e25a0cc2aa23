package scripts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/places"
)

// A turn is so many pairs of one contender, in one pipeline. Turns are short, so
// that some of them are not interrupted by other programs.
const (
	PairsATurn  = 250
	TurnsARound = 40
)

// permitsAtFirst is how many permits each semaphore has.
const permitsAtFirst = 10

// run measures the server's time of pairs of scripts.
type run struct {
	rdb   *redis.Client
	turns int
}

// Figures are of a kind of lock: the server's time of a pair in the fastest turn, µs.
type Figures struct {
	Lock             string
	Holdfast, Theirs float64
}

// fastest is the fastest turn of a contender.
type fastest struct {
	pair  scriptPair
	micro float64
}

// Measure measures each kind of lock in so many turns, and then the barest pair, which is no lock but the limit.
func Measure(ctx context.Context, addr string, lease time.Duration, turns int, progress io.Writer) (all []Figures, barestMicros float64, err error) {
	run := &run{rdb: redis.NewClient(&redis.Options{Addr: addr}), turns: turns}
	defer func() { err = errors.Join(err, run.rdb.Close()) }()
	id := "holdfast-bench:" + rand.Text()[:8]
	kinds, limit := scriptKinds(id, lease), &fastest{pair: barest(id, lease)}
	figures := append(make([]*fastest, 0, 2*len(kinds)+1), limit)
	for _, k := range kinds {
		figures = append(figures, &fastest{pair: k.holdfast}, &fastest{pair: k.theirs})
	}
	if err := run.measure(ctx, figures, progress); err != nil {
		return nil, 0, err
	}
	for i, k := range kinds {
		all = append(all, Figures{k.name, figures[2*i+1].micro, figures[2*i+2].micro})
	}
	for _, f := range figures {
		if err := run.rdb.Del(ctx, f.pair.semaphore).Err(); err != nil {
			return nil, 0, err
		}
	}
	return all, limit.micro, nil
}

// measure has the contenders take turns.
func (r *run) measure(ctx context.Context, figures []*fastest, progress io.Writer) error {
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
		if (turn+1)%TurnsARound == 0 {
			if _, err := fmt.Fprintf(progress, "%d/%d turns\n", turn+1, r.turns); err != nil {
				return err
			}
		}
	}
	return nil
}

// load has the server know the scripts of a contender, and what they need.
func (r *run) load(ctx context.Context, p scriptPair) error {
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
func (r *run) turn(ctx context.Context, p scriptPair) (float64, error) {
	calls := make([]scriptCall, 0, 2*PairsATurn)
	pipe := r.rdb.Pipeline()
	for range PairsATurn {
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
	return float64(after-before) / PairsATurn, err
}

// spent returns how long the server has executed EVALSHA, in µs, in all.
func (r *run) spent(ctx context.Context) (int64, error) {
	stats, err := places.Info(ctx, r.rdb, "Commandstats")
	if err != nil {
		return 0, err
	}
	return places.CommandStat(stats, "cmdstat_evalsha", "usec")
}
