package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// The attributes of metrics and spans.
const (
	kindKey       = attribute.Key("holdfast.lock.kind")
	nameKey       = attribute.Key("holdfast.lock.name")
	handedOverKey = attribute.Key("holdfast.hold.handed_over")
	errorTypeKey  = attribute.Key("error.type")
)

// The bounds of the histograms, in seconds: an acquire takes from tens of microseconds to
// minutes, a hold lasts up to hours.
var (
	acquireBounds = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}
	holdBounds    = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}
)

// metrics records the metrics.
type metrics struct {
	label func(name string) string

	duration, waitTime metric.Float64Histogram // of acquires
	waiting, active    metric.Int64UpDownCounter
	held, age          metric.Float64Histogram // of holds
	renewals, losses   metric.Int64Counter
	errors             metric.Int64Counter

	known map[series]options // never written to after newMetrics
}

// series is what the attributes say beside the name.
type series struct {
	kind, errorType string
	handedOver      bool
}

// options are attributes as the instruments take them. They are slices already, so that no call
// has to make one.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// newMetrics makes the instruments.
func newMetrics(c config) (*metrics, error) {
	meter := c.meters.Meter(scope)
	m := &metrics{label: c.label, known: knownSeries()}
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	upDown := func(name, unit, what string) metric.Int64UpDownCounter {
		u, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return u
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		n, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return n
	}
	m.duration = histogram("holdfast.acquire.duration", "How long acquires took, those that failed included.", acquireBounds)
	m.waitTime = histogram("holdfast.acquire.wait_time", "How long acquires took that had to wait.", acquireBounds)
	m.waiting = upDown("holdfast.acquire.waiting", "{acquire}", "How many acquires wait now.")
	m.active = upDown("holdfast.hold.active", "{hold}", "How many holds there are now.")
	m.held = histogram("holdfast.hold.duration", "How long holds have lasted that are over.", holdBounds)
	m.age = histogram("holdfast.hold.age", "How long holds had lasted each time that they were renewed.", holdBounds)
	m.renewals = counter("holdfast.hold.renewals", "{renewal}", "How often holds were to be renewed.")
	m.losses = counter("holdfast.hold.losses", "{hold}", "How many holds were lost.")
	m.errors = counter("holdfast.background.errors", "{error}", "How many failures no call has returned.")
	return m, errors.Join(errs...)
}

// knownSeries are the options of what mostly happens.
func knownSeries() map[series]options {
	types := append(make([]string, 0, 2+len(errorTypes)+len(lossTypes)), "", otherType)
	for _, known := range errorTypes {
		types = append(types, known.text)
	}
	for _, text := range lossTypes {
		types = append(types, text)
	}
	all := map[series]options{}
	for _, kind := range []string{"mutex", "fair", "read", "write", "permits", "semaphore", "latch", "multi", "redlock"} {
		all[series{kind: kind, handedOver: true}] = series{kind: kind, handedOver: true}.options("")
		for _, text := range types {
			all[series{kind: kind, errorType: text}] = series{kind: kind, errorType: text}.options("")
		}
	}
	return all
}

// options makes the attributes; name is "" if there is none.
func (s series) options(name string) options {
	attrs := []attribute.KeyValue{kindKey.String(s.kind)}
	if name != "" {
		attrs = append(attrs, nameKey.String(name))
	}
	if s.errorType != "" {
		attrs = append(attrs, errorTypeKey.String(s.errorType))
	}
	if s.handedOver {
		attrs = append(attrs, handedOverKey.Bool(true))
	}
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return options{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
}

// of returns the options of an event's series.
func (m *metrics) of(e holdfast.Event, s series) options {
	s.kind = e.Kind
	name := ""
	if m.label != nil {
		name = m.label(e.Name)
	}
	if known, ok := m.known[s]; ok && name == "" {
		return known
	}
	return s.options(name)
}

// waits counts an acquire that begins to wait.
func (m *metrics) waits(ctx context.Context, e holdfast.Event) {
	m.waiting.Add(ctx, 1, m.of(e, series{}).add...)
}

// acquired records an acquire that is over, whatever came of it.
func (m *metrics) acquired(ctx context.Context, e holdfast.Event) {
	how := m.of(e, series{errorType: errorType(e.Err)})
	m.duration.Record(ctx, e.Waited.Seconds(), how.record...)
	if e.HadToWait {
		m.waitTime.Record(ctx, e.Waited.Seconds(), how.record...)
		m.waiting.Add(ctx, -1, m.of(e, series{}).add...)
	}
}

// begins counts a new hold.
func (m *metrics) begins(ctx context.Context, e holdfast.Event) {
	m.active.Add(ctx, 1, m.of(e, series{}).add...)
}

// ended records a hold that is over.
func (m *metrics) ended(ctx context.Context, e holdfast.Event) {
	how := m.of(e, series{errorType: errorType(e.Err), handedOver: e.HandedOver})
	m.held.Record(ctx, e.Held.Seconds(), how.record...)
	m.active.Add(ctx, -1, m.of(e, series{}).add...)
}

// renewed records a renewal, and how old the hold was.
func (m *metrics) renewed(ctx context.Context, e holdfast.Event) {
	m.renewals.Add(ctx, 1, m.of(e, series{errorType: errorType(e.Err)}).add...)
	if e.Err == nil {
		m.age.Record(ctx, e.Held.Seconds(), m.of(e, series{}).record...)
	}
}

// lost counts a loss.
func (m *metrics) lost(ctx context.Context, e holdfast.Event) {
	m.losses.Add(ctx, 1, m.of(e, series{errorType: lossType(e.Err)}).add...)
}

// failed counts a failure in the background.
func (m *metrics) failed(ctx context.Context, e holdfast.Event) {
	m.errors.Add(ctx, 1, m.of(e, series{errorType: errorType(e.Err)}).add...)
}
