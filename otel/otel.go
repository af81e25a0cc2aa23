package otel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// scope is the name of the meter and of the tracer.
const scope = "github.com/holdfast-go/holdfast/otel"

// An Option sets something for [New].
type Option func(c *config) error

// config is what options amount to.
type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	label   func(name string) string // nil: metrics do not have names
	every   bool                     // acquires that did not wait have spans, too
}

// errInvalid is what the errors for options match.
var errInvalid = holdfast.ErrInvalid

// WithMeterProvider sets where metrics go. The default is the global one, and a noop provider
// switches metrics off.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("holdfast/otel: %w option: WithMeterProvider(nil)", errInvalid)
		}
		c.meters = p
		return nil
	}
}

// WithTracerProvider sets where spans go. The default is the global one, and a noop provider
// switches spans off.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("holdfast/otel: %w option: WithTracerProvider(nil)", errInvalid)
		}
		c.tracers = p
		return nil
	}
}

// WithNames gives metrics the attribute holdfast.lock.name: what label makes of the lock's name,
// or none where that is empty. Each value is a time series of its own in every metric, so let
// there be few: return the names of a handful of locks that you know, or what many have in
// common, as "orders" for "orders:42". Without it metrics do not say which lock it was; spans
// always have the full name. label is called at every event, by many goroutines at once.
func WithNames(label func(name string) string) Option {
	return func(c *config) error {
		if label == nil {
			return fmt.Errorf("holdfast/otel: %w option: WithNames(nil)", errInvalid)
		}
		c.label = label
		return nil
	}
}

// WithEverySpan makes a span of each acquire, also if it did not have to wait. Without it only
// waits are spans: a free lock takes well below a millisecond.
func WithEverySpan() Option {
	return func(c *config) error {
		c.every = true
		return nil
	}
}

// New returns hooks that record metrics and spans, for [holdfast.WithHooks]: among the options
// of a client for all its locks, and once more among those of a call for several locks
// ([holdfast.MultiLock]) as a whole. They can serve any number of clients. Both providers have
// to be shut down by whoever has made them.
//
// The error matches [holdfast.ErrInvalid] if an option is nil, or is what the meter provider
// says to an instrument.
func New(options ...Option) (holdfast.Hooks, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, option := range options {
		if option == nil {
			return holdfast.Hooks{}, fmt.Errorf("holdfast/otel: %w option: one of them is nil", errInvalid)
		}
		if err := option(&c); err != nil {
			return holdfast.Hooks{}, err
		}
	}
	m, err := newMetrics(c)
	if err != nil {
		return holdfast.Hooks{}, fmt.Errorf("holdfast/otel: %w", err)
	}
	s := spans{tracer: c.tracers.Tracer(scope), every: c.every}
	acquired := func(ctx context.Context, e holdfast.Event) {
		m.acquired(ctx, e)
		s.acquired(ctx, e)
	}
	return holdfast.Hooks{
		OnWait:   m.waits,
		OnRefuse: acquired,
		OnPass:   acquired,
		OnAcquire: func(ctx context.Context, e holdfast.Event) {
			m.begins(ctx, e)
			acquired(ctx, e)
		},
		OnRenew: m.renewed,
		OnLost: func(ctx context.Context, e holdfast.Event) {
			m.lost(ctx, e)
			s.lost(ctx, e)
		},
		OnEnd:   m.ended,
		OnError: m.failed,
	}, nil
}
