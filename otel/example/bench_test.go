package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

// BenchmarkPairOnRedis takes a free lock on a real server and gives it back, without hooks and as
// the program has them. The turns are short, so that both meet the same machine: run it with
// -count.
func BenchmarkPairOnRedis(b *testing.B) {
	s := redistest.Start(b)
	meters, _, err := newMeters()
	if err != nil {
		b.Fatal(err)
	}
	hooks, err := holdfastotel.New(holdfastotel.WithMeterProvider(meters))
	if err != nil {
		b.Fatal(err)
	}
	for _, of := range []struct {
		name    string
		options []holdfast.ClientOption
	}{
		{"none", nil},
		{"metrics", []holdfast.ClientOption{holdfast.WithHooks(hooks)}},
		{"log+metrics", []holdfast.ClientOption{
			holdfast.WithHooks(hooks), holdfast.WithHooks(holdfast.LogHooks(slog.New(slog.DiscardHandler), time.Second)),
		}},
	} {
		b.Run(of.name, func(b *testing.B) {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			defer rdb.Close()
			c, err := holdfast.New(goredisdriver.New(rdb), of.options...)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			mu := c.NewMutex("a")
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				h, err := mu.Lock(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Unlock(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
