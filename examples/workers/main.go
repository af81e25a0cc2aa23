// Command workers calls a partner who bears two calls at a time, over all processes and machines.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"sync"
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

	// The permit of a process that dies is free again after its lease.
	partner := client.NewPermitSemaphore("partner", holdfast.Permits(2))
	jobs := make(chan int)
	errs := make(chan error, 5)
	var workers sync.WaitGroup
	for range cap(errs) {
		workers.Go(func() { errs <- work(ctx, rdb, partner, jobs) })
	}
	for job := range 20 {
		jobs <- job
	}
	close(jobs)
	workers.Wait()
	close(errs)
	for each := range errs {
		err = errors.Join(err, each)
	}
	return err
}

// work does jobs until there are no more. After an error it takes them and does nothing, so that the others are not held up.
func work(ctx context.Context, rdb *redis.Client, partner holdfast.Locker, jobs <-chan int) (err error) {
	for job := range jobs {
		if err != nil {
			continue
		}
		err = holdfast.Do(ctx, partner, func(ctx context.Context, _ *holdfast.Hold) error {
			return call(ctx, rdb, job)
		}, holdfast.Wait(time.Minute))
	}
	return err
}

// call stands for the call. It counts how many there are at a time.
func call(ctx context.Context, rdb *redis.Client, job int) error {
	n, err := rdb.Incr(ctx, "partner:calls").Result()
	if err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond)
	log.Printf("job %d: call %d of those at this time", job, n) //nolint:gosec // they are numbers
	return rdb.Decr(ctx, "partner:calls").Err()
}
