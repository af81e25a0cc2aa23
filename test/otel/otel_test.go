package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// world is a server in memory under fake time, and what OpenTelemetry is told of it.
type world struct {
	*kit.World

	reader  *sdkmetric.ManualReader
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	hooks   holdfast.Hooks
}

// fake runs f under fake time.
func fake(t *testing.T, f func(t *testing.T, w *world), options ...holdfastotel.Option) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, shared *kit.World) {
		w := &world{World: shared, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
		w.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
		t.Cleanup(func() { kit.OK(t, meters.Shutdown(background), w.tracers.Shutdown(background)) })
		providers := []holdfastotel.Option{holdfastotel.WithMeterProvider(meters), holdfastotel.WithTracerProvider(w.tracers)}
		var err error
		w.hooks, err = holdfastotel.New(append(providers, options...)...)
		kit.OK(t, err)
		f(t, w)
		w.Wipe() // what is lost, or no lock
	})
}

// client returns a client that is watched.
func (w *world) client() (*holdfast.Client, *memdriver.Driver) {
	return w.Client(holdfast.WithHooks(w.hooks))
}

// tell tells a hook of an event.
func (w *world) tell(ctx context.Context, hook string, e holdfast.Event) {
	h := w.hooks
	map[string]func(context.Context, holdfast.Event){
		"wait": h.OnWait, "acquire": h.OnAcquire, "pass": h.OnPass, "refuse": h.OnRefuse,
		"renew": h.OnRenew, "lost": h.OnLost, "end": h.OnEnd, "error": h.OnError,
	}[hook](ctx, e)
}

// collect returns all metrics.
func (w *world) collect() []metricdata.Metrics {
	w.T.Helper()
	synctest.Wait() // the client's goroutines have told
	var all metricdata.ResourceMetrics
	if err := w.reader.Collect(background, &all); err != nil {
		w.T.Fatal(err)
	}
	var found []metricdata.Metrics
	for _, one := range all.ScopeMetrics {
		if one.Scope.Name != "github.com/holdfast-go/holdfast/otel" {
			w.T.Errorf("the scope is %q", one.Scope.Name)
		}
		found = append(found, one.Metrics...)
	}
	return found
}

// points returns the series of all metrics as text, sorted, without the common part of their names; those of histograms with
// their count and sum.
func (w *world) points() (all []string) {
	w.T.Helper()
	for _, m := range w.collect() {
		name := strings.TrimPrefix(m.Name, "holdfast.")
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				all = append(all, fmt.Sprintf("%s %s: %d", name, text(p.Attributes), p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all = append(all, fmt.Sprintf("%s %s: %d in %.3g", name, text(p.Attributes), p.Count, p.Sum))
			}
		default:
			w.T.Fatalf("%T", data)
		}
	}
	slices.Sort(all)
	return all
}

// text is a set of attributes without the common part of their names.
func text(set attribute.Set) string {
	var all []string
	for _, a := range set.ToSlice() {
		key := string(a.Key)
		all = append(all, key[strings.LastIndex(key, ".")+1:]+"="+fmt.Sprint(a.Value.AsInterface()))
	}
	return strings.Join(all, " ")
}

// want checks the series of all metrics, or of those whose names begin so.
func (w *world) want(prefix string, want ...string) {
	w.T.Helper()
	got := slices.DeleteFunc(w.points(), func(point string) bool { return !strings.HasPrefix(point, prefix) })
	if slices.Sort(want); !slices.Equal(got, want) {
		w.T.Errorf("%q is\n%s\nwant\n%s", prefix, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each event counts in its metrics, under its kind, the type of its error, and whether it was handed over.
func TestMetrics(t *testing.T) {
	redis := &holdfast.BackendError{Err: errors.New("gone")}
	lost := &holdfast.LostError{Reason: holdfast.LostTaken}
	const s = time.Second
	for _, row := range []struct {
		hook string
		e    holdfast.Event
		want []string
	}{
		{"wait", holdfast.Event{Kind: "fair"}, []string{"acquire.waiting kind=fair: 1"}},
		{"acquire", holdfast.Event{Kind: "fair", Waited: 2 * s, HadToWait: true}, []string{
			"acquire.duration kind=fair: 1 in 2", "acquire.wait_time kind=fair: 1 in 2", "acquire.waiting kind=fair: -1", "hold.active kind=fair: 1",
		}},
		{"acquire", holdfast.Event{Kind: "read", HandedOver: true}, []string{"acquire.duration kind=read: 1 in 0", "hold.active kind=read: 1"}},
		{"pass", holdfast.Event{Kind: "latch", Waited: s, HadToWait: true}, []string{
			"acquire.duration kind=latch: 1 in 1", "acquire.wait_time kind=latch: 1 in 1", "acquire.waiting kind=latch: -1",
		}},
		{"refuse", holdfast.Event{Kind: "multi", Waited: s, Err: holdfast.ErrClosed}, []string{"acquire.duration type=closed kind=multi: 1 in 1"}},
		{"refuse", holdfast.Event{Kind: "multi", Waited: s, HadToWait: true, Err: context.DeadlineExceeded}, []string{
			"acquire.duration type=timeout kind=multi: 1 in 1", "acquire.wait_time type=timeout kind=multi: 1 in 1", "acquire.waiting kind=multi: -1",
		}},
		{"renew", holdfast.Event{Kind: "write", Held: 10 * s}, []string{"hold.age kind=write: 1 in 10", "hold.renewals kind=write: 1"}},
		{"renew", holdfast.Event{Kind: "write", Held: 10 * s, Err: redis}, []string{"hold.renewals type=backend kind=write: 1"}},
		{"lost", holdfast.Event{Kind: "permits", Held: s, Err: lost}, []string{"hold.losses type=taken kind=permits: 1"}},
		{"end", holdfast.Event{Kind: "mutex", Held: 20 * s}, []string{"hold.active kind=mutex: -1", "hold.duration kind=mutex: 1 in 20"}},
		{"end", holdfast.Event{Kind: "mutex", Held: s, HandedOver: true}, []string{"hold.active kind=mutex: -1", "hold.duration handed_over=true kind=mutex: 1 in 1"}},
		{"end", holdfast.Event{Kind: "mutex", Held: s, Err: lost}, []string{"hold.active kind=mutex: -1", "hold.duration type=lost kind=mutex: 1 in 1"}},
		{"error", holdfast.Event{Kind: "mutex", Err: redis}, []string{"background.errors type=backend kind=mutex: 1"}},
	} {
		fake(t, func(_ *testing.T, w *world) {
			w.tell(background, row.hook, row.e)
			w.want("", row.want...)
		})
	}
}

// Names are an attribute only where they are asked for, and only those.
func TestNames(t *testing.T) {
	label := func(name string) string {
		family, _, _ := strings.Cut(name, ":")
		return strings.TrimSuffix(family, "secret")
	}
	for want, options := range map[string][]holdfastotel.Option{
		"kind=mutex name=orders: 2 in 0, kind=mutex: 1 in 0": {holdfastotel.WithNames(label)},
		"kind=mutex: 3 in 0": nil,
	} {
		fake(t, func(_ *testing.T, w *world) {
			for _, name := range []string{"orders:1", "orders:2", "secret"} {
				w.tell(background, "refuse", holdfast.Event{Name: name, Kind: "mutex"})
			}
			var series []string
			for one := range strings.SplitSeq(want, ", ") {
				series = append(series, "acquire.duration "+one)
			}
			w.want("", series...)
		}, options...)
	}
}

// spanText is a span as text: its name, and its attributes.
func spanText(s sdktrace.ReadOnlySpan) string {
	return s.Name() + " " + text(attribute.NewSet(s.Attributes()...))
}

// An acquire that had to wait is a span, from its beginning to its end, inside that of the caller; with an error, it says who has the
// lock. One that had not is a span if that is asked for.
func TestSpans(t *testing.T) {
	locked := &holdfast.LockedError{Name: "x", Who: holdfast.Identity{Program: "billing", Host: "web-3", PID: 4711}}
	kit.OK(t, locked.Holder.UnmarshalText([]byte("99f17b91-c6cc-889e-88f6-8265bee545cf:7")))
	for _, row := range []struct {
		hook  string
		e     holdfast.Event
		free  bool   // it is a span only where each is
		attrs string // in front of those of the lock
	}{
		{hook: "acquire", e: holdfast.Event{Token: 7, Waited: 2 * time.Second, HadToWait: true}, attrs: "wait_time=2 token=7 "},
		{hook: "acquire", e: holdfast.Event{Waited: time.Second, HadToWait: true, HandedOver: true}, attrs: "wait_time=1 handed_over=true "},
		{hook: "acquire", free: true},
		{hook: "pass", e: holdfast.Event{Waited: time.Second, HadToWait: true}, attrs: "wait_time=1 "},
		{hook: "pass", free: true},
		{
			hook: "refuse", e: holdfast.Event{Waited: 2 * time.Second, HadToWait: true, Err: locked},
			attrs: "type=locked wait_time=2 holder=99f17b91-c6cc-889e-88f6-8265bee545cf:7 who=billing@web-3 pid 4711 ",
		},
		{hook: "refuse", e: holdfast.Event{Err: holdfast.ErrNoPermits}, free: true, attrs: "type=no_permits "},
	} {
		for name, options := range map[string][]holdfastotel.Option{"every": {holdfastotel.WithEverySpan()}, "waits": nil} {
			fake(t, func(t *testing.T, w *world) {
				row.e.Name, row.e.Kind = "x", "mutex"
				ctx, parent := w.tracers.Tracer("test").Start(background, "work")
				began := time.Now()
				time.Sleep(row.e.Waited)
				w.tell(ctx, row.hook, row.e)
				spans := w.spans.Ended()
				parent.End()
				if row.free && name == "waits" {
					if len(spans) > 0 {
						t.Errorf("%v", spans)
					}
					return
				}
				s := spans[0]
				if got, want := spanText(s), "acquire mutex "+row.attrs+"kind=mutex name=x"; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if !s.StartTime().Equal(began) || s.EndTime().Sub(began) != row.e.Waited || s.Parent().SpanID() != parent.SpanContext().SpanID() {
					t.Errorf("from %v to %v, in %v", s.StartTime(), s.EndTime(), s.Parent())
				}
				said, code := "", codes.Unset
				if row.e.Err != nil {
					said, code = row.e.Err.Error(), codes.Error
				}
				if s.Status().Code != code || s.Status().Description != said || (len(s.Events()) == 1 && s.Events()[0].Name == "exception") != (said != "") {
					t.Errorf("%v, %v", s.Status(), s.Events())
				}
			}, options...)
		}
	}
}

// A loss stands in the span under which the lock was acquired, if there is one that has not ended.
func TestLossInASpan(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		e := holdfast.Event{Name: "x", Kind: "mutex", Err: &holdfast.LostError{Reason: holdfast.LostTaken}}
		ctx, span := w.tracers.Tracer("test").Start(background, "work")
		w.tell(ctx, "lost", e)
		span.End()
		w.tell(ctx, "lost", e)
		w.tell(background, "lost", e)
		events := w.spans.Ended()[0].Events()
		if len(events) != 1 {
			t.Fatalf("%v", events)
		}
		if got := text(attribute.NewSet(events[0].Attributes...)); !strings.HasSuffix(got, "kind=mutex name=x") || !strings.Contains(got, "type=taken") {
			t.Error(got)
		}
		w.want("hold.losses", "hold.losses type=taken kind=mutex: 3")
	})
}

// Options that cannot be are refused.
func TestOptions(t *testing.T) {
	for name, option := range map[string]holdfastotel.Option{
		"nil": nil, "meters": holdfastotel.WithMeterProvider(nil), "tracers": holdfastotel.WithTracerProvider(nil), "names": holdfastotel.WithNames(nil),
	} {
		if _, err := holdfastotel.New(option); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := holdfastotel.New(); err != nil { // the global ones
		t.Error(err)
	}
}
