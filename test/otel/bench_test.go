package otel_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/instant"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/test/kit"
)

// hookSets are what docs/telemetry.md compares. Providers without an exporter do what one costs while
// nobody reads it.
func hookSets(t testing.TB) map[string][]holdfast.ClientOption {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tracers := sdktrace.NewTracerProvider()
	with := func(options ...holdfastotel.Option) []holdfast.ClientOption {
		options = append(options, holdfastotel.WithMeterProvider(meters), holdfastotel.WithTracerProvider(tracers))
		h, err := holdfastotel.New(options...)
		if err != nil {
			t.Fatal(err)
		}
		return []holdfast.ClientOption{holdfast.WithHooks(h)}
	}
	log := holdfast.LogHooks(slog.New(slog.DiscardHandler), time.Second)
	return map[string][]holdfast.ClientOption{
		"none":        nil,
		"log":         {holdfast.WithHooks(log)},
		"metrics":     with(),
		"with names":  with(holdfastotel.WithNames(func(name string) string { return name })),
		"every span":  with(holdfastotel.WithEverySpan()),
		"log+metrics": append(with(), holdfast.WithHooks(log)),
	}
}

// BenchmarkPair takes a free lock and gives it back.
func BenchmarkPair(b *testing.B) {
	for name, options := range hookSets(b) {
		b.Run(name, func(b *testing.B) {
			c, err := holdfast.New(instant.New(), options...)
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

// What happens at each Lock and Unlock allocates nothing beside the library's own.
func TestPairAllocatesNothingMore(t *testing.T) {
	allocations := map[string]float64{}
	for name, options := range hookSets(t) {
		c, err := holdfast.New(instant.New(), options...)
		kit.OK(t, err)
		mu := c.NewMutex("a")
		allocations[name] = testing.AllocsPerRun(2000, func() {
			h, err := mu.Lock(background)
			kit.OK(t, err)
			_ = h.Context() // it is made when it is asked for, and hooks are told under it
			kit.OK(t, h.Unlock())
		})
		kit.OK(t, c.Close())
	}
	for _, name := range []string{"log", "metrics", "log+metrics"} {
		if allocations[name] > allocations["none"] {
			t.Errorf("%s: %v allocations a pair, and %v without", name, allocations[name], allocations["none"])
		}
	}
	t.Log(allocations)
}
