// Command example locks and unlocks, and tells Prometheus of it at /metrics. Beside it are a
// dashboard for Grafana, dashboard.json, and alert rules for Prometheus, alerts.yml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

func main() {
	listen := flag.String("listen", "localhost:9464", "where /metrics is")
	url := flag.String("redis", "redis://localhost:6379", "the Redis server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err == nil {
		log.Printf("metrics are at http://%s/metrics; end with Ctrl-C", listener.Addr())
		err = run(ctx, listener, *url)
	}
	if err != nil {
		log.Print(err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

// run locks and unlocks until ctx ends.
func run(ctx context.Context, listener net.Listener, url string) (err error) {
	meters, metrics, err := newMeters()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: metrics, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, meters.Shutdown(bounded), server.Shutdown(bounded))
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
	}()

	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	hooks, err := holdfastotel.New(holdfastotel.WithMeterProvider(meters), holdfastotel.WithNames(known))
	if err != nil {
		return err
	}
	client, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithHooks(hooks),
		holdfast.WithHooks(holdfast.LogHooks(slog.Default(), time.Second)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return work(ctx, client)
}

// newMeters returns a meter provider, and what serves its metrics to Prometheus.
func newMeters() (*metric.MeterProvider, http.Handler, error) {
	registry := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry),
		prometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes)) // the names in dashboard.json and alerts.yml
	if err != nil {
		return nil, nil, fmt.Errorf("the exporter: %w", err)
	}
	return metric.NewMeterProvider(metric.WithReader(exporter)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// known lets the metrics tell the locks of this program apart, which are few.
func known(name string) string {
	switch name {
	case "orders", "catalog", "partner":
		return name
	}
	return ""
}

// work has some goroutines contend for a mutex, a read-write mutex and a semaphore.
func work(ctx context.Context, client *holdfast.Client) error {
	catalog := client.NewRWMutex("catalog")
	lockers := []holdfast.Locker{
		client.NewMutex("orders"), client.NewPermitSemaphore("partner", holdfast.Permits(2)), catalog, catalog.RLocker(), catalog.RLocker(),
	}
	var all sync.WaitGroup
	errs := make(chan error, len(lockers)*4)
	for i := range cap(errs) {
		all.Go(func() { errs <- contend(ctx, lockers[i%len(lockers)]) })
	}
	all.Wait()
	close(errs)
	var failed []error
	for err := range errs {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// contend takes the lock again and again. That others have it is no error, and that Redis does not
// answer in time no reason to end: the metrics and the log tell of it.
func contend(ctx context.Context, l holdfast.Locker) error {
	for ctx.Err() == nil {
		err := holdfast.Do(ctx, l, func(ctx context.Context, _ *holdfast.Hold) error {
			pause(ctx, 20*time.Millisecond)
			return nil
		}, holdfast.Wait(100*time.Millisecond))
		var backend *holdfast.BackendError
		if err != nil && !errors.Is(err, holdfast.ErrLocked) && !errors.As(err, &backend) && ctx.Err() == nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

// pause waits for a random while, or until ctx ends.
func pause(ctx context.Context, longest time.Duration) {
	timer := time.NewTimer(rand.N(longest)) //nolint:gosec // chance is enough
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
