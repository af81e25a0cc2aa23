// Command cache reads two things that belong together, or rebuilds both: nobody reads one that is new beside one that is old.
//
//	cache          reads a hundred times
//	cache rebuild  rebuilds ten times
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

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

	c := catalog{lock: client.NewRWMutex("catalog"), rdb: rdb}
	if len(os.Args) > 1 && os.Args[1] == "rebuild" {
		return c.rebuild(ctx, 10)
	}
	return c.read(ctx, 100)
}

// catalog is the cache: a list of names, and their prices, of the same version.
type catalog struct {
	lock *holdfast.RWMutex
	rdb  *redis.Client
}

// rebuild makes both anew while nobody reads.
func (c *catalog) rebuild(ctx context.Context, times int) error {
	for range times {
		err := holdfast.Do(ctx, c.lock, func(ctx context.Context, _ *holdfast.Hold) error {
			version, err := c.rdb.Incr(ctx, "catalog:names").Result()
			if err != nil {
				return err
			}
			return c.rdb.Set(ctx, "catalog:prices", version, 0).Err()
		})
		if err != nil {
			return err
		}
	}
	log.Printf("rebuilt %d times", times)
	return nil
}

// read reads both. Those who read do so at the same time, on all machines.
func (c *catalog) read(ctx context.Context, times int) error {
	for range times {
		err := holdfast.Do(ctx, c.lock.RLocker(), func(ctx context.Context, _ *holdfast.Hold) error {
			names, err := c.rdb.Get(ctx, "catalog:names").Result()
			if errors.Is(err, redis.Nil) {
				return nil // it has not been built yet
			}
			if err != nil {
				return err
			}
			prices, err := c.rdb.Get(ctx, "catalog:prices").Result()
			if err == nil && names != prices {
				err = fmt.Errorf("names of version %s, prices of version %s", names, prices)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	log.Printf("read %d times", times)
	return nil
}
