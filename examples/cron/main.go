// Command cron does a job that every machine starts at the same time, and one is to do.
package main

import (
	"context"
	"errors"
	"log"
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

	// The machines' clocks differ, and the job may be done sooner than that: MinHold keeps the lock for long enough.
	mu := client.NewMutex("jobs:nightly")
	err = holdfast.Do(ctx, mu, job, holdfast.Wait(0), holdfast.MinHold(time.Minute))
	var locked *holdfast.LockedError
	if errors.As(err, &locked) && locked.Name == mu.Name() { // not a lock that the job failed to acquire
		log.Print("not here: ", err)
		return nil
	}
	return err
}

// job is what is to be done once. Its context ends if the lock is lost, and at SIGTERM.
func job(ctx context.Context, _ *holdfast.Hold) error {
	select {
	case <-time.After(100 * time.Millisecond):
		log.Print("the job is done")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
