package otel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/doctable"
	"github.com/holdfast-go/holdfast/test/kit"
)

// keys are the names of attributes.
func keys(set attribute.Set) (all []string) {
	for _, a := range set.ToSlice() {
		all = append(all, string(a.Key))
	}
	return all
}

// everything makes happen what there are metrics and attributes for, but names.
func everything(t *testing.T, w *world) {
	t.Helper()
	c, d := w.client()
	x := c.NewMutex("x")
	h := kit.Must(t)(x.Lock(background))
	next := kit.Waiting(t, x, background)
	gone := kit.Waiting(t, x, background, holdfast.Wait(time.Second))
	time.Sleep(2 * time.Second)
	<-gone
	kit.OK(t, h.Unlock())
	h = <-next
	last := kit.Waiting(t, x, background)
	kit.OK(t, h.Unlock()) // handed over
	h = <-last
	time.Sleep(20 * time.Second) // renewed
	kit.Away(d)
	<-h.Context().Done() // not renewed, and lost
	d.SetFaults(nil)
	time.Sleep(time.Minute)
	h = kit.Must(t)(x.Lock(background))
	kit.Away(d)
	if h.Unlock() == nil {
		t.Error("no error")
	}
	time.Sleep(time.Minute) // failed in the background
}

// The table of the metrics is what the SDK is told: names, instruments, units and attributes.
func TestMetricsAreDocumented(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		everything(t, w)
		w.want("background.errors", "background.errors type=backend kind=mutex: 1")
		w.want("acquire.waiting", "acquire.waiting kind=mutex: 0")
		w.want("hold.active", "hold.active kind=mutex: 0")
		var got []string
		for _, m := range w.collect() {
			var attributes []string
			instrument := ""
			note := func(kind string, more ...string) {
				instrument = kind
				for _, key := range more {
					if !slices.Contains(attributes, key) {
						attributes = append(attributes, key)
					}
				}
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					note(map[bool]string{true: "counter", false: "up-down counter"}[data.IsMonotonic], keys(p.Attributes)...)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					note("histogram", keys(p.Attributes)...)
				}
			}
			if m.Description == "" {
				t.Errorf("%s has no description", m.Name)
			}
			slices.Sort(attributes)
			got = append(got, fmt.Sprint(m.Name, ", ", instrument, ", ", m.Unit, ", ", attributes))
		}
		var want []string
		for _, row := range doctable.Rows(t, "../../docs/telemetry.md", "metric") {
			attributes := strings.Split(row[4], ", ")
			slices.Sort(attributes)
			want = append(want, fmt.Sprint(row[0], ", ", row[1], ", ", row[2], ", ", attributes))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("there are\n%s\ndocumented are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
