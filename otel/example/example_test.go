package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/memdriver"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

var background = context.Background()

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// scrape parses what a handler tells Prometheus.
func scrape(t *testing.T, metrics http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequestWithContext(background, http.MethodGet, "/metrics", http.NoBody))
	parse := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parse.TextToMetricFamilies(answer.Body)
	ok(t, err)
	return families
}

// exposed makes everything happen that there is a metric for, and returns the labels of each
// metric that Prometheus is told of then, by the name that a query has for it.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	var families map[string]*dto.MetricFamily
	faketime.Test(t, func(t *testing.T) {
		meters, metrics, err := newMeters()
		ok(t, err)
		hooks, err := holdfastotel.New(holdfastotel.WithMeterProvider(meters), holdfastotel.WithNames(known))
		ok(t, err)
		server, err := memdriver.NewServer()
		ok(t, err)
		defer server.Close()
		d := server.Driver()
		client, err := holdfast.New(d, holdfast.WithHooks(hooks))
		ok(t, err)
		x := client.NewMutex("orders")
		h, err := x.Lock(background)
		ok(t, err)
		next := make(chan *holdfast.Hold, 1)
		go func() {
			h, err := x.Lock(background)
			if err != nil {
				t.Error(err)
			}
			next <- h
		}()
		synctest.Wait()
		ok(t, h.Unlock()) // handed over
		h = <-next
		if _, err := x.TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
			t.Error(err)
		}
		time.Sleep(20 * time.Second) // renewed
		_, err = x.ForceUnlock(background)
		ok(t, err)
		<-h.Context().Done() // lost
		h, err = x.Lock(background)
		ok(t, err)
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
		time.Sleep(20 * time.Second) // not renewed
		if h.Unlock() == nil {
			t.Error("no error")
		}
		time.Sleep(time.Minute) // failed in the background
		d.SetFaults(nil)
		ok(t, client.Close())
		families = scrape(t, metrics)
		ok(t, meters.Shutdown(background))
	})
	all := map[string][]string{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			given := []string{"job", "instance"} // by Prometheus itself
			for _, l := range m.GetLabel() {
				given = append(given, l.GetName())
			}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				all[name+"_bucket"] = append(all[name+"_bucket"], append(given, "le")...)
				all[name+"_count"] = append(all[name+"_count"], given...)
				all[name+"_sum"] = append(all[name+"_sum"], given...)
				continue
			}
			all[name] = append(all[name], given...)
		}
	}
	return all
}

// The program runs, and tells Prometheus of what it does.
func TestExample(t *testing.T) {
	s := redistest.Start(t)
	var text bytes.Buffer
	log.SetOutput(&text)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	listener, err := (&net.ListenConfig{}).Listen(background, "tcp", "127.0.0.1:0")
	ok(t, err)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- run(ctx, listener, "redis://"+s.Addr()) }()
	client := &http.Client{Timeout: 30 * time.Second}
	for _, want := range []string{
		`holdfast_acquire_duration_seconds_count{holdfast_lock_kind="permits",holdfast_lock_name="partner"`,
		`holdfast_acquire_wait_time_seconds_bucket{holdfast_lock_kind="write",holdfast_lock_name="catalog"`,
		`holdfast_hold_active{holdfast_lock_kind="mutex",holdfast_lock_name="orders"`,
	} {
		for body := ""; !strings.Contains(body, want); {
			answer, err := client.Get("http://" + listener.Addr().String() + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			ok(t, err, answer.Body.Close())
			body = string(got)
			select {
			case err := <-ran:
				t.Fatalf("it has ended: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	cancel()
	select {
	case err := <-ran:
		ok(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	for key := range strings.Lines(s.Cli(t, "KEYS", "*")) {
		if !strings.Contains(key, "partner") { // the semaphore, and the calls that have set its permits
			t.Errorf("it left %s", key)
		}
	}
	if err := run(background, &brokenListener{}, "redis://"+s.Addr()+"/x"); err == nil {
		t.Error("a wrong address is no error")
	}
}

// brokenListener accepts nothing.
type brokenListener struct{}

func (*brokenListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (*brokenListener) Close() error              { return nil }
func (*brokenListener) Addr() net.Addr            { return &net.TCPAddr{} }

var queries = parser.NewParser(parser.Options{})

// checkQuery checks that an expression parses, and that each metric and each label in it is there.
func checkQuery(t *testing.T, what, text string, there map[string][]string, used map[string]bool) {
	t.Helper()
	expr, err := queries.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	var has []string // the labels of all its metrics
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		given, ok := there[selector.Name]
		if !ok {
			t.Errorf("%s: there is no metric %q", what, selector.Name)
		}
		used[selector.Name] = true
		has = append(has, given...)
		for _, m := range selector.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(given, m.Name) {
				t.Errorf("%s: %s has no label %q", what, selector.Name, m.Name)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range sum.Grouping {
				if !slices.Contains(has, label) {
					t.Errorf("%s: no metric has the label %q", what, label)
				}
			}
		}
		return nil
	})
}

// readAlerts reads alerts.yml as Prometheus does.
func readAlerts(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	ok(t, err)
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, queries, slog.Default())
	ok(t, errs...)
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// The rules are valid, and ask for what there is.
func TestAlertsAreOfWhatThereIs(t *testing.T) {
	there := exposed(t)
	used := map[string]bool{}
	rules := readAlerts(t)
	page, err := os.ReadFile("../../docs/telemetry.md")
	ok(t, err)
	for _, rule := range rules {
		if !strings.Contains(string(page), "\n| `"+rule.Alert+"` | ") {
			t.Errorf("%s is not documented", rule.Alert)
		}
		checkQuery(t, rule.Alert, rule.Expr, there, used)
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("%s says too little", rule.Alert)
		}
	}
	if len(rules) < 7 || len(used) < 7 {
		t.Errorf("%d rules of %v", len(rules), used)
	}
}

// Each alert is raised by what it is for, and by that alone: of a program that works there is none.
func TestAlertsAreRaised(t *testing.T) {
	const fine = `
		holdfast_hold_losses_total{job="a",holdfast_lock_kind="mutex",error_type="taken"} 3x60
		holdfast_hold_renewals_total{job="a",holdfast_lock_kind="mutex"} 0+6x60
		holdfast_acquire_duration_seconds_count{job="a",holdfast_lock_kind="mutex"} 0+60x60
		holdfast_acquire_duration_seconds_count{job="a",holdfast_lock_kind="mutex",error_type="locked"} 0+60x60
		holdfast_acquire_waiting{job="a",holdfast_lock_kind="mutex"} 2x60
		holdfast_acquire_wait_time_seconds_count{job="a",holdfast_lock_kind="mutex"} 0+6x60
		holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="1.0"} 0+6x60
		holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="10.0"} 0+6x60
		holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="+Inf"} 0+6x60
		holdfast_hold_age_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="900.0"} 0+6x60
		holdfast_hold_age_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="+Inf"} 0+6x60
		holdfast_hold_age_seconds_count{job="a",holdfast_lock_kind="mutex"} 0+6x60
		holdfast_background_errors_total{job="a",holdfast_lock_kind="mutex",error_type="backend"} 1x60`
	bad := map[string][]string{ // each in place of the whole
		"HoldfastLockLost": {
			`holdfast_hold_losses_total{job="a",holdfast_lock_kind="mutex",error_type="taken"} _x57 1x3`, // the first one
			`holdfast_hold_losses_total{job="a",holdfast_lock_kind="mutex",error_type="taken"} 1x57 2x3`,
		},
		"HoldfastRenewalsFail": {`
			holdfast_hold_renewals_total{job="a",holdfast_lock_kind="mutex",error_type="backend"} 0+3x60
			holdfast_hold_renewals_total{job="a",holdfast_lock_kind="mutex"} 0+6x60`},
		"HoldfastRedisFails": {`holdfast_acquire_duration_seconds_count{job="a",holdfast_lock_kind="mutex",error_type="backend"} 0+6x60`},
		"HoldfastWaitsLong": {`
			holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="1.0"} 0+6x60
			holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="10.0"} 0+9x60
			holdfast_acquire_wait_time_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="+Inf"} 0+9x60`},
		"HoldfastNobodyGetsIn": {
			`holdfast_acquire_waiting{job="a",holdfast_lock_kind="mutex"} 2x60`, // nobody ever has
			`
			holdfast_acquire_waiting{job="a",holdfast_lock_kind="mutex"} 2x60
			holdfast_acquire_wait_time_seconds_count{job="a",holdfast_lock_kind="mutex"} 60x60`,
		},
		"HoldfastHeldTooLong": {
			`
			holdfast_hold_age_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="900"} 0+6x60
			holdfast_hold_age_seconds_count{job="a",holdfast_lock_kind="mutex"} 0+7x60`,
			`
			holdfast_hold_age_seconds_bucket{job="a",holdfast_lock_kind="mutex",le="900.0"} 0+6x60
			holdfast_hold_age_seconds_count{job="a",holdfast_lock_kind="mutex"} 0+7x60`,
		},
		"HoldfastBackgroundErrors": {
			`holdfast_background_errors_total{job="a",holdfast_lock_kind="mutex",error_type="backend"} _x57 1x3`,
			`holdfast_background_errors_total{job="a",holdfast_lock_kind="mutex",error_type="backend"} 1x57 2x3`,
		},
	}
	for _, rule := range readAlerts(t) {
		if raised(t, fine, rule.Expr) {
			t.Errorf("%s is raised though all is well", rule.Alert)
		}
		if len(bad[rule.Alert]) == 0 {
			t.Errorf("nothing is known for %s", rule.Alert)
		}
		for i, series := range bad[rule.Alert] {
			if !raised(t, series, rule.Expr) {
				t.Errorf("%s is not raised by its case %d", rule.Alert, i)
			}
		}
	}
}

// raised reports whether an expression is true of something after an hour of series.
func raised(t *testing.T, series, expr string) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: queries})
	defer func() { ok(t, engine.Close()) }()
	query, err := engine.NewInstantQuery(background, load(t, series), nil, expr, time.Unix(0, 0).Add(time.Hour))
	ok(t, err)
	defer query.Close()
	found := query.Exec(background)
	ok(t, found.Err)
	vector, isVector := found.Value.(promql.Vector)
	if !isVector {
		t.Fatalf("%T", found.Value)
	}
	return len(vector) > 0
}

// load makes a storage of series with a value each minute, one a line, as promtool reads them.
func load(t *testing.T, series string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for line := range strings.Lines(series) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		metric, values, err := queries.ParseSeriesDesc(strings.TrimSpace(line))
		ok(t, err)
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{at: int64(i) * time.Minute.Milliseconds(), value: v.Value})
			}
		}
		all = append(all, storage.NewListSeries(metric, samples))
	}
	pick := func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		picked := seriesList{at: -1}
		for _, one := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
				picked.all = append(picked.all, one)
			}
		}
		return &picked
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: pick}}
}

// seriesList are series, one after another.
type seriesList struct {
	all []storage.Series
	at  int
}

func (l *seriesList) Next() bool                      { l.at++; return l.at < len(l.all) }
func (l *seriesList) At() storage.Series              { return l.all[l.at] }
func (*seriesList) Err() error                        { return nil }
func (*seriesList) Warnings() annotations.Annotations { return nil }

// sample is one value of a series.
type sample struct {
	at    int64 // in ms
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// dashboard is what matters of dashboard.json.
type dashboard struct {
	Title      string `json:"title"`
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		GridPos     struct {
			X int `json:"x"`
			Y int `json:"y"`
			W int `json:"w"`
			H int `json:"h"`
		} `json:"gridPos"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// The dashboard is valid, asks for what there is, and leaves none of it out.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	ok(t, err)
	var d dashboard
	ok(t, json.Unmarshal(text, &d))
	there := exposed(t)
	used := map[string]bool{}
	variables := []string{"$__rate_interval", "5m", "$__range", "1h"} // Grafana's own
	for _, v := range d.Templating.List {
		variables = append(variables, "$"+v.Name, ".*")
		if v.Type == "query" {
			query, _, _ := strings.Cut(strings.TrimPrefix(v.Definition, "label_values("), ", ")
			checkQuery(t, "variable "+v.Name, strings.NewReplacer(variables...).Replace(query), there, map[string]bool{})
		}
	}
	if d.Title == "" || d.UID == "" || len(d.Templating.List) != 3 || len(d.Panels) < 15 {
		t.Errorf("%+v", d)
	}
	ids, places := map[int]bool{}, map[string]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%q has the id %d of another", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				place := fmt.Sprint(x, " ", y)
				if other, taken := places[place]; taken || x > 23 {
					t.Fatalf("%q is where %q is, or beside the page", p.Title, other)
				}
				places[place] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%+v", p)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] {
				t.Errorf("%q has two %s", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			expr := strings.NewReplacer(variables...).Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%q has an unknown variable: %s", p.Title, target.Expr)
			}
			checkQuery(t, p.Title, expr, there, used)
		}
	}
	for name := range there {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		shown := slices.ContainsFunc([]string{base, base + "_bucket", base + "_count"}, func(n string) bool { return used[n] })
		if strings.HasPrefix(name, "holdfast_") && !shown {
			t.Errorf("%s is on no panel", name)
		}
	}
}
