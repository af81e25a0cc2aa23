package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

func main() {
	ctx := context.Background()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL")) // redis://localhost:6379
	if err != nil {
		log.Fatal(err)
	}
	client, err := holdfast.New(goredisdriver.New(redis.NewClient(options)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx) // gives back what is held, stops every goroutine

	mu := client.NewMutex("orders:42") // the same lock as Redisson's getLock("orders:42")
	hold, err := mu.Lock(ctx, holdfast.Wait(5*time.Second))
	if errors.Is(err, holdfast.ErrLocked) {
		log.Fatal("somebody else has it: ", err) // says who, and for how long
	} else if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()

	if err := work(hold.Context()); err != nil { // ends with cause ErrLost if the lock is lost
		log.Print(err)
	}
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
