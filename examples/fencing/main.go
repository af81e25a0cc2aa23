// Command fencing writes into an SQL database under a lock, once by a holder who is too late: the database refuses that. Then it
// prints what its metrics say of the lock.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL")) // redis://localhost:6379
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	registry := prom.NewRegistry() // which promhttp.HandlerFor would serve at /metrics
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		return err
	}
	hooks, err := holdfastotel.New(holdfastotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter))),
		holdfastotel.WithNames(func(name string) string { return name })) // as many metrics as names: here it is one
	if err != nil {
		return err
	}
	client, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithHooks(hooks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	db, err := sql.Open("sqlite", "file::memory:?cache=shared")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, body TEXT, token INTEGER)"); err != nil {
		return err
	}

	orders := client.NewMutex("orders:42", holdfast.Fenced())
	late, err := orders.Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := orders.ForceUnlock(ctx); err != nil { // as if its process had stood still until its lease was over
		return err
	}
	err = holdfast.Do(ctx, orders, func(ctx context.Context, hold *holdfast.Hold) error {
		return save(ctx, db, hold.Token(), "the newer one")
	})
	if err != nil {
		return err
	}
	log.Print("written by the newer holder")
	if err := save(ctx, db, late.Token(), "the older one"); !errors.Is(err, errStale) {
		return fmt.Errorf("written by one who holds the lock no more: %w", err)
	}
	log.Print("refused: ", errStale)
	return show(registry)
}

var errStale = errors.New("a newer holder has written this row")

// save writes a row, unless somebody with a greater token has. The comparison and the write are one statement.
func save(ctx context.Context, db *sql.DB, token int64, body string) error {
	result, err := db.ExecContext(ctx, `INSERT INTO orders (id, body, token) VALUES (42, ?, ?)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body, token = excluded.token WHERE token <= excluded.token`, body, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errStale)
	}
	return nil
}

// show prints how often what has happened.
func show(registry *prom.Registry) error {
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if h := one.GetHistogram(); h != nil {
				log.Printf("%s: %d, %.6f s in all", family.GetName(), h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}
	return nil
}
