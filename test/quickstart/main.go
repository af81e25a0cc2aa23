package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

func main() {
	logging.Disable() // go-redis logs each failed connection; holdfast returns an error
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	client, err := holdfast.New(goredisdriver.New(redis.NewClient(options)))
	if err != nil {
		return err
	}
	defer client.Close() // gives back what is held, stops every goroutine

	mu := client.NewMutex("orders:42") // the same lock as Redisson's getLock("orders:42")
	hold, err := mu.Lock(ctx, holdfast.Wait(5*time.Second))
	if errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("somebody else has it: %w", err) // err names the holder and its lease
	}
	if err != nil {
		return err
	}
	defer hold.Unlock()

	return work(hold.Context()) // ends if the lock is lost; its cause matches ErrLost
}

func work(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		log.Print("done")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
