// Command leader does something for as long as it lives, on one of several machines. When the leader dies, another follows.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
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
	client, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	log.Print("a candidate")
	// One who is killed blocks the others for the lease. One who ends by SIGTERM blocks nobody.
	err = holdfast.Lead(ctx, client.NewMutex("scheduler"), lead, holdfast.RenewedLease(2*time.Second),
		holdfast.WithHooks(holdfast.LogHooks(slog.Default(), 0)))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead runs on one machine at a time, until ctx ends: then another may lead.
func lead(ctx context.Context, _ *holdfast.Hold) error {
	log.Print("leading")
	defer log.Print("not leading any more")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			log.Print("at work")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
