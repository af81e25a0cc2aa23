package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

const (
	// limit is how long the scenes may take, and sweep the cleaning up after them.
	limit = 18 * time.Second
	sweep = 6 * time.Second
)

// Config says what the demo shows, and where it plays.
type Config struct {
	// Show is what it shows.
	Show Show
	// Target is the Redis to use.
	Target *connect.Target
	// Server describes it to the reader.
	Server string
	// Holder starts a process that holds a mutex, or a permit of a semaphore, until
	// it is killed. It says so by one line on standard output.
	Holder func(ctx context.Context, kind, name string, lease time.Duration) (*Holder, error)
	// Stage is where it is shown.
	Stage Stage
}

// show is one run of the demo.
type show struct {
	Config

	rdb     redis.UniversalClient
	prefix  string
	keys    []string // that the scenes have used
	lasting []string // the same, of those that are meant to stay in Redis
	summary []string
}

// Run plays the demo. It returns an [exit.Error] if anything was not as it
// should be, and the context's cause if ctx ended.
func Run(ctx context.Context, cfg Config) error {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		exit.Because(exit.Failed, "the demo was not over after %v", limit))
	defer cancel()
	s := &show{Config: cfg, rdb: cfg.Target.Client(cfg.Target.Dial), prefix: "holdfast-demo:" + strings.ToLower(rand.Text()[:8])}
	defer s.rdb.Close() //nolint:errcheck // nothing depends on it any more
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return exit.Because(exit.Unavailable, "Redis (%s) cannot be used: %v", cfg.Target, connect.Explain(err))
	}
	s.Stage.Say("Everything below happens live on " + cfg.Server + ". " + cfg.Show.intro)
	err := s.play(ctx)
	if swept := s.sweep(); err == nil {
		err = swept
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return exit.Because(exit.Failed, "not as promised: %w", err)
	}
	s.Stage.Title("Measured in this run")
	for _, line := range s.summary {
		s.Stage.Point(line)
	}
	took := seconds(time.Since(started)) + " in all."
	if n := len(s.keys) + len(s.lasting); n > 0 {
		took = fmt.Sprintf("%d keys used, 0 left behind; %s", n, took)
	}
	s.Stage.Point(took)
	return nil
}

func (s *show) play(ctx context.Context) error {
	for i, scene := range s.Show.scenes {
		s.Stage.Title(fmt.Sprintf("%d of %d: %s", i+1, len(s.Show.scenes), scene.title))
		if err := scene.play(s, ctx); err != nil {
			return fmt.Errorf("scene %d: %w", i+1, err)
		}
	}
	return nil
}

// measured adds a line to the summary.
func (s *show) measuredf(format string, args ...any) {
	s.summary = append(s.summary, fmt.Sprintf(format, args...))
}

// key names the lock of a scene.
func (s *show) key(name string) string {
	key := s.prefix + ":" + name
	s.keys = append(s.keys, key)
	return key
}

// lastingKey notes a key that is meant to outlive the scene, so the demo removes
// it in the end.
func (s *show) lastingKey(key string) { s.lasting = append(s.lasting, key) }

// sweep removes what the scenes have left, which is nothing but the lasting keys
// unless one failed or was interrupted, and makes sure.
func (s *show) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweep)
	defer cancel()
	for _, key := range s.lasting {
		if err := s.rdb.Del(ctx, key).Err(); err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
	}
	var left []string
	for _, key := range s.keys {
		n, err := s.rdb.Del(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
		if n > 0 {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the keys %s were left behind, and have been removed", strings.Join(left, ", "))
	}
	return nil
}

// client returns a client of its own, as another process would have, and what
// closes it. dial is nil, or how it connects.
func (s *show) client(dial connect.Dial, options ...holdfast.ClientOption) (*holdfast.Client, func(), error) {
	if dial == nil {
		dial = s.Target.Dial
	}
	rdb := s.Target.Client(dial)
	client, err := holdfast.New(goredisdriver.New(rdb), options...)
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}
	return client, func() {
		connect.CloseWithin(sweep/4, client) // what it cannot clean up, sweep finds
		_ = rdb.Close()
	}, nil
}

// pttl reads a key's time to live from the server: 0 if there is no such key.
func (s *show) pttl(ctx context.Context, key string) (time.Duration, error) {
	d, err := s.rdb.PTTL(ctx, key).Result()
	return max(0, d), err
}

// seconds writes a duration for readers.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// millis writes a short duration for readers.
func millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
