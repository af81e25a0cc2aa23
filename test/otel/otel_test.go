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

// points returns the series of a metric as text, sorted; those of histograms with their count
// and sum.
func (w *world) points(name string) (all []string) {
	w.T.Helper()
	for _, m := range w.collect() {
		if m.Name != name {
			continue
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				all = append(all, fmt.Sprintf("%s: %d", text(p.Attributes), p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all = append(all, fmt.Sprintf("%s: %d in %.3g", text(p.Attributes), p.Count, p.Sum))
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

func (w *world) want(metric string, want ...string) {
	w.T.Helper()
	if got := w.points(metric); !slices.Equal(got, want) {
		w.T.Errorf("%s is\n%s\nwant\n%s", metric, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantZero checks that nothing waits or is held, of any kind.
func (w *world) wantZero() {
	w.T.Helper()
	for _, metric := range []string{"holdfast.acquire.waiting", "holdfast.hold.active"} {
		for _, point := range w.points(metric) {
			if !strings.HasSuffix(point, ": 0") {
				w.T.Errorf("%s is %s", metric, point)
			}
		}
	}
}

// Durations, waits and what comes of them.
func TestMetricsOfAcquires(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		x, other := c.NewMutex("x"), w.quiet().NewMutex("x")
		h := kit.Must(t)(other.Lock(background))
		w.want("holdfast.acquire.duration")
		_, err := x.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		_, err = x.Lock(background, holdfast.Wait(2*time.Second))
		kit.WantError(t, err, holdfast.ErrLocked)
		w.wantZero()
		late, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		_, err = x.Lock(late)
		kit.WantError(t, err, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(background)
		gone, next := kit.Waiting(t, x, ctx), kit.Waiting(t, x, background)
		w.want("holdfast.acquire.waiting", "kind=mutex: 2")
		time.Sleep(time.Second)
		cancel()
		<-gone
		w.want("holdfast.acquire.waiting", "kind=mutex: 1")
		kit.OK(t, h.Unlock())
		h = <-next
		w.wantZeroBut(1)
		kit.OK(t, h.Unlock())
		_, err = x.Lock(background, holdfast.FixedLease(time.Microsecond))
		kit.WantError(t, err, holdfast.ErrInvalid)
		kit.Away(d)
		_, err = x.TryLock(background)
		if backend := (*holdfast.BackendError)(nil); !errors.As(err, &backend) {
			t.Error(err)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
		h = kit.Must(t)(other.Lock(background))
		closed := kit.Waiting(t, x, background)
		kit.OK(t, c.Close())
		<-closed
		_, err = x.Lock(background)
		kit.WantError(t, err, holdfast.ErrClosed)
		kit.OK(t, h.Unlock())
		w.want("holdfast.acquire.duration",
			"kind=mutex: 1 in 1",
			"type=backend kind=mutex: 1 in 6", "type=cancelled kind=mutex: 1 in 1", "type=closed kind=mutex: 2 in 0", "type=invalid kind=mutex: 1 in 0",
			"type=locked kind=mutex: 2 in 2", "type=timeout kind=mutex: 1 in 3")
		w.want("holdfast.acquire.wait_time",
			"kind=mutex: 1 in 1",
			"type=cancelled kind=mutex: 1 in 1", "type=closed kind=mutex: 1 in 0", "type=locked kind=mutex: 1 in 2", "type=timeout kind=mutex: 1 in 3")
		w.wantZero()
	})
}

// wantZeroBut checks that nothing waits and so many are held.
func (w *world) wantZeroBut(holds int) {
	w.T.Helper()
	w.want("holdfast.acquire.waiting", "kind=mutex: 0")
	w.want("holdfast.hold.active", fmt.Sprintf("kind=mutex: %d", holds))
}

// However holds end, they are counted, and none is left.
func TestMetricsOfHolds(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		x := c.NewMutex("x")
		h := kit.Must(t)(x.Lock(background))
		inner := kit.Must(t)(x.Lock(h.Context()))
		w.want("holdfast.hold.active", "kind=mutex: 2")
		kit.OK(t, inner.Unlock())
		time.Sleep(20 * time.Second)
		kit.OK(t, h.Unlock()) // 20 s
		w.wantZero()

		h = kit.Must(t)(x.Lock(background)) // handed over, and lost, and unlocked
		next := kit.Waiting(t, x, background)
		kit.OK(t, h.Unlock())
		h = <-next
		_, err := x.ForceUnlock(background)
		kit.OK(t, err)
		<-h.Context().Done()
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		w.wantZero()

		owner, err := kit.Must(t)(x.Lock(background)).Detach()
		kit.OK(t, err)
		w.wantZero()
		h = kit.Must(t)(x.Adopt(background, owner))
		w.want("holdfast.hold.active", "kind=mutex: 1")
		kit.OK(t, h.Unlock())

		h = kit.Must(t)(x.Lock(background)) // not renewed, and never unlocked
		kit.Silent(d, kit.Faults["refused"])
		<-h.Context().Done()
		d.SetFaults(nil)
		w.wantZero()
		kit.Must(t)(c.NewMutex("y").Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		w.wantZero()
		w.want("holdfast.hold.losses", "type=lease_over kind=mutex: 1", "type=taken kind=mutex: 1", "type=unanswered kind=mutex: 1")
		renewals := strings.Join(w.points("holdfast.hold.renewals"), "\n")
		if !strings.Contains(renewals, "type=backend kind=mutex: ") || !strings.HasPrefix(renewals, "kind=mutex: ") {
			t.Error(renewals)
		}
		if age := w.points("holdfast.hold.age"); len(age) != 1 || !strings.HasPrefix(age[0], "kind=mutex: ") {
			t.Error(age)
		}

		kit.Must(t)(x.Lock(background)) // given back by Close
		kit.OK(t, c.Close())
		w.wantZero()
		ends := map[string]int{}
		for _, point := range w.points("holdfast.hold.duration") {
			what, count, _ := strings.Cut(point, ": ")
			n := 0
			fmt.Sscanf(count, "%d", &n)
			ends[what] = n
		}
		want := map[string]int{"kind=mutex": 4, "handed_over=true kind=mutex": 1, "type=lost kind=mutex": 3, "type=closed kind=mutex": 1}
		if !maps.Equal(ends, want) {
			t.Errorf("ended %v, want %v", ends, want)
		}
	})
}

// Every kind is counted, and comes to zero.
func TestMetricsOfEveryKind(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		far, _ := w.client()
		q := w.quiet()
		rw := c.NewRWMutex("rw")
		lockers := map[string][2]holdfast.Locker{ // and what keeps them from it
			"mutex":   {c.NewMutex("m"), q.NewMutex("m")},
			"fair":    {c.NewFairMutex("f"), q.NewFairMutex("f")},
			"read":    {rw.RLocker(), q.NewRWMutex("rw")},
			"write":   {rw, q.NewRWMutex("rw")},
			"permits": {c.NewPermitSemaphore("p", holdfast.Permits(1)), q.NewPermitSemaphore("p", holdfast.Permits(1))},
			"multi":   {holdfast.NewMultiLock(c.NewMutex("a"), other.NewMutex("b")), q.NewMutex("a")},
			"redlock": {holdfast.NewRedLock(c.NewMutex("r1"), other.NewMutex("r2"), far.NewMutex("r3")), holdfast.NewMultiLock(q.NewMutex("r1"), q.NewMutex("r2"))},
		}
		for kind, pair := range lockers {
			options := []holdfast.LockOption{}
			if kind == "multi" || kind == "redlock" {
				options = append(options, holdfast.WithHooks(w.hooks))
			}
			h := kit.Must(t)(pair[1].Lock(background))
			next := kit.Waiting(t, pair[0], background, options...)
			time.Sleep(time.Second)
			if !slices.Contains(w.points("holdfast.acquire.waiting"), "kind="+kind+": 1") {
				t.Errorf("%s: waiting %v", kind, w.points("holdfast.acquire.waiting"))
			}
			kit.OK(t, h.Unlock())
			h = <-next
			if !slices.Contains(w.points("holdfast.hold.active"), "kind="+kind+": 1") {
				t.Errorf("%s: held %v", kind, w.points("holdfast.hold.active"))
			}
			kit.OK(t, h.Unlock())
			w.wantZero()
		}
		s, l := c.NewUnleasedSemaphore("s", holdfast.Permits(1)), c.NewLatch("l")
		_, err := l.TrySetCount(background, 1)
		kit.OK(t, err, s.Acquire(background, 1))
		time.AfterFunc(time.Second, func() { kit.OK(t, s.Release(1), l.CountDown()) })
		var both sync.WaitGroup
		both.Go(func() { kit.OK(t, s.Acquire(background, 1)) })
		both.Go(func() { kit.OK(t, l.Await(background)) })
		both.Wait()
		w.wantZero()
		waits := strings.Join(w.points("holdfast.acquire.wait_time"), "\n")
		for _, kind := range []string{"fair", "latch", "multi", "mutex", "permits", "read", "redlock", "semaphore", "write"} {
			if !strings.Contains(waits, "kind="+kind+": ") {
				t.Errorf("no wait of %s in\n%s", kind, waits)
			}
		}
		for _, point := range w.points("holdfast.hold.active") {
			if strings.Contains(point, "latch") || strings.Contains(point, "semaphore") {
				t.Error(point)
			}
		}
	})
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
		w.want("holdfast.acquire.duration", "kind=mutex name=orders: 2 in 0", "kind=mutex: 1 in 0")
		w.want("holdfast.hold.active", "kind=mutex name=orders: 0", "kind=mutex: 0")
	}, holdfastotel.WithNames(label))
	fake(t, func(t *testing.T, w *world) {
		use(t, w)
		w.want("holdfast.acquire.duration", "kind=mutex: 3 in 0")
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
		w.wantZero()
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
		w.want("holdfast.hold.losses", "type=taken kind=mutex: 2")
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
