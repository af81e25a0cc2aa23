package otel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// client returns a client that is watched, and quiet one that is not.
func (w *world) client() (*holdfast.Client, *memdriver.Driver) {
	return w.Known(holdfast.WithHooks(w.hooks))
}

func (w *world) quiet() *holdfast.Client {
	c, _ := w.Known()
	return c
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
			h := w.hooks
			hooks := map[string]func(context.Context, holdfast.Event){
				"wait": h.OnWait, "acquire": h.OnAcquire, "pass": h.OnPass, "refuse": h.OnRefuse,
				"renew": h.OnRenew, "lost": h.OnLost, "end": h.OnEnd, "error": h.OnError,
			}
			hooks[row.hook](background, row.e)
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
	use := func(t *testing.T, w *world) {
		c, _ := w.client()
		for _, name := range []string{"orders:1", "orders:2", "secret"} {
			kit.OK(t, kit.Must(t)(c.NewMutex(name).Lock(background)).Unlock())
		}
	}
	fake(t, func(t *testing.T, w *world) {
		use(t, w)
		w.want("acquire.duration", "acquire.duration kind=mutex name=orders: 2 in 0", "acquire.duration kind=mutex: 1 in 0")
		w.want("hold.active", "hold.active kind=mutex name=orders: 0", "hold.active kind=mutex: 0")
	}, holdfastotel.WithNames(label))
	fake(t, func(t *testing.T, w *world) {
		use(t, w)
		w.want("acquire.duration", "acquire.duration kind=mutex: 3 in 0")
	})
}

// spanText is a span as text: its name, and its attributes.
func spanText(s sdktrace.ReadOnlySpan) string {
	return s.Name() + " " + text(attribute.NewSet(s.Attributes()...))
}

// A wait is a span, from its beginning to its end, inside that of the caller.
func TestSpanOfAWait(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		x, other := c.NewMutex("x", holdfast.Fenced()), w.quiet().NewMutex("x", holdfast.Fenced())
		ctx, parent := w.tracers.Tracer("test").Start(background, "work")
		defer parent.End()
		kit.OK(t, kit.Must(t)(x.Lock(ctx)).Unlock())
		if n := len(w.spans.Ended()); n != 0 {
			t.Fatalf("%d spans of a free lock", n)
		}
		h := kit.Must(t)(other.Lock(background))
		began := time.Now()
		next := kit.Waiting(t, x, ctx)
		time.Sleep(2 * time.Second)
		kit.OK(t, h.Unlock())
		h = <-next
		if len(w.spans.Ended()) != 1 {
			t.Fatal(w.spans.Ended())
		}
		s := w.spans.Ended()[0]
		if want := fmt.Sprintf("acquire mutex wait_time=%v token=%d kind=mutex name=x", s.EndTime().Sub(began).Seconds(), h.Token()); spanText(s) != want {
			t.Errorf("%s, want %s", spanText(s), want)
		}
		if !s.StartTime().Equal(began) || s.EndTime().Sub(began) < 2*time.Second || s.Parent().SpanID() != parent.SpanContext().SpanID() || s.Status().Code != codes.Unset {
			t.Errorf("from %v to %v, in %v, %v", s.StartTime(), s.EndTime(), s.Parent(), s.Status())
		}
		kit.OK(t, h.Unlock())
	})
}

// A wait in vain is a span with its error, and says who has the lock.
func TestSpanOfARefusal(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := kit.Must(t)(w.quiet().NewMutex("x").Lock(background))
		_, err := c.NewMutex("x").Lock(background, holdfast.Wait(2*time.Second))
		kit.WantError(t, err, holdfast.ErrLocked)
		s := w.spans.Ended()[0]
		if want := "acquire mutex type=locked wait_time=2 holder=" + h.Owner().String() + " who=billing@web-3 pid 4711 kind=mutex name=x"; spanText(s) != want {
			t.Errorf("%s, want %s", spanText(s), want)
		}
		if s.Status().Code != codes.Error || s.Status().Description != err.Error() || len(s.Events()) != 1 || s.Events()[0].Name != "exception" {
			t.Errorf("%v, %v", s.Status(), s.Events())
		}
		kit.OK(t, h.Unlock())
	})
}

// Waits under one context, for several locks at once, are a span each.
func TestSpansUnderOneContext(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		q := w.quiet()
		var all sync.WaitGroup
		for i := range 3 {
			name := fmt.Sprint("x", i)
			h := kit.Must(t)(q.NewMutex(name).Lock(background))
			for range 2 {
				all.Go(func() { kit.OK(t, kit.Must(t)(c.NewMutex(name).Lock(background)).Unlock()) })
			}
			all.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				kit.OK(t, h.Unlock())
			})
		}
		all.Wait()
		took := map[string]int{}
		for _, s := range w.spans.Ended() {
			seconds := int(s.EndTime().Sub(s.StartTime()).Round(time.Second) / time.Second)
			for _, a := range s.Attributes() {
				if a.Key == "holdfast.lock.name" {
					took[fmt.Sprint(a.Value.AsString(), " ", seconds)]++
				}
			}
		}
		if want := map[string]int{"x0 1": 2, "x1 2": 2, "x2 3": 2}; !maps.Equal(took, want) {
			t.Errorf("%v, want %v", took, want)
		}
	})
}

// A free lock is a span if that is asked for.
func TestEverySpan(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewUnleasedSemaphore("s", holdfast.Permits(1))
		kit.OK(t, kit.Must(t)(c.NewMutex("x").Lock(background)).Unlock(), s.Acquire(background, 1))
		kit.WantError(t, s.TryAcquire(background, 1), holdfast.ErrNoPermits)
		var got []string
		for _, s := range w.spans.Ended() {
			got = append(got, spanText(s))
		}
		want := []string{"acquire mutex kind=mutex name=x", "acquire semaphore kind=semaphore name=s", "acquire semaphore type=no_permits kind=semaphore name=s"}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}, holdfastotel.WithEverySpan())
}

// A loss stands in the span under which the lock was acquired.
func TestLossInASpan(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		x := c.NewMutex("x")
		ctx, span := w.tracers.Tracer("test").Start(background, "work")
		h := kit.Must(t)(x.Lock(ctx))
		_, err := x.ForceUnlock(background)
		kit.OK(t, err)
		<-h.Context().Done()
		synctest.Wait()
		span.End()
		events := w.spans.Ended()[0].Events()
		if len(events) != 1 || !strings.HasSuffix(text(attribute.NewSet(events[0].Attributes...)), "kind=mutex name=x") ||
			!strings.Contains(text(attribute.NewSet(events[0].Attributes...)), "type=taken") {
			t.Errorf("%v", events)
		}
		// There may be no span, or it may have ended.
		h = kit.Must(t)(x.Lock(ctx))
		_, err = x.ForceUnlock(background)
		kit.OK(t, err)
		<-h.Context().Done()
		w.want("hold.losses", "hold.losses type=taken kind=mutex: 2")
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
