module github.com/holdfast-go/holdfast/bench

go 1.25.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.17.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/goredisdriver v0.0.0
	github.com/holdfast-go/holdfast/rueidisdriver v0.0.0
	github.com/redis/go-redis/v9 v9.21.0
	github.com/redis/rueidis v1.0.79
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.47.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../
	github.com/holdfast-go/holdfast/goredisdriver => ../goredisdriver
	github.com/holdfast-go/holdfast/rueidisdriver => ../rueidisdriver
)
