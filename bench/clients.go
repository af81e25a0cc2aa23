package main

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// newGoRedis returns a client with the settings that all contenders on go-redis
// share: its defaults, except for the size of the pool.
func newGoRedis(s setup) *redis.Client {
	options := &redis.Options{Addr: s.addr, PoolSize: s.pool}
	if s.small {
		options.ReadBufferSize, options.WriteBufferSize = smallBuffer, smallBuffer
	}
	return redis.NewClient(options)
}

// smallBuffer has room for what a lock sends, apart from the scripts' texts.
const smallBuffer = 4096

// rueidisOptions are the settings that all contenders on rueidis share: its
// defaults. It pipelines all goroutines on a few connections and has no pool for
// such commands.
func rueidisOptions(s setup) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: []string{s.addr}}
	if s.small {
		o.ReadBufferEachConn, o.WriteBufferEachConn = smallBuffer, smallBuffer
		o.RingScaleEachConn = 6
		o.PipelineMultiplex = -1 // one connection for calls
	}
	return o
}
