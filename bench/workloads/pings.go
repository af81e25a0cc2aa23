package workloads

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/call"
)

// pingEvery is the pause between two pings: as long as between two hand-overs, so that
// whoever has to wake up for one has slept as long.
const pingEvery = alternateHold

// pings measure round trips on a client of its own.
type pings struct {
	ping       func(context.Context) error
	disconnect func() error
}

// openPings connects a client of this library, with the settings that contenders have.
func openPings(ctx context.Context, library string, s contenders.Setup) (p *pings, err error) {
	switch library {
	case contenders.GoRedis:
		rdb := contenders.NewGoRedis(s)
		p = &pings{func(ctx context.Context) error { return rdb.Ping(ctx).Err() }, rdb.Close}
	default:
		client, err := rueidis.NewClient(contenders.RueidisOptions(s))
		if err != nil {
			return nil, err
		}
		p = &pings{
			func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() },
			func() error { client.Close(); return nil },
		}
	}
	if err := p.ping(ctx); err != nil { // connects
		return nil, errors.Join(err, p.disconnect())
	}
	return p, nil
}

// start pings until stop is called, which waits, and returns what the pings have taken,
// but for those within the ramp. Nothing happens if p is nil.
func (p *pings) start(ctx context.Context, ramp time.Duration) (stop func() ([]time.Duration, error)) {
	if p == nil {
		return func() ([]time.Duration, error) { return nil, nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var took []time.Duration
	done := make(chan error, 1)
	go func() {
		for counts := time.Now().Add(ramp); ; call.Sleep(ctx, pingEvery) {
			start := time.Now()
			err := p.ping(ctx)
			if ctx.Err() != nil {
				err = nil
			}
			if ctx.Err() != nil || err != nil {
				done <- err
				return
			}
			if start.After(counts) {
				took = append(took, time.Since(start))
			}
		}
	}()
	return func() ([]time.Duration, error) {
		cancel()
		err := <-done
		return took, err
	}
}

func (p *pings) close() error {
	if p == nil {
		return nil
	}
	return p.disconnect()
}
