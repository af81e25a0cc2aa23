package main

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// newGoRedis returns a client with the settings that all contenders on go-redis
// share: its defaults, except for the size of the pool.
func newGoRedis(s setup) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: s.pool})
}

// rueidisOptions are the settings that all contenders on rueidis share: its
// defaults. It pipelines all goroutines on a few connections and has no pool for
// such commands.
func rueidisOptions(s setup) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.addr}}
}
