module github.com/holdfast-go/holdfast/test

go 1.25.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/gocronlock v0.0.0
	github.com/holdfast-go/holdfast/goredisdriver v0.0.0
	github.com/holdfast-go/holdfast/memdriver v0.0.0
	github.com/holdfast-go/holdfast/otel v0.0.0
	github.com/holdfast-go/holdfast/rueidisdriver v0.0.0
	github.com/holdfast-go/holdfast/valkeydriver v0.0.0
	github.com/jonboulle/clockwork v0.5.0
	github.com/redis/go-redis/v9 v9.19.0
	github.com/redis/rueidis v1.0.76
	github.com/valkey-io/valkey-go v1.0.76
	go.opentelemetry.io/otel v1.43.0
	go.opentelemetry.io/otel/sdk v1.43.0
	go.opentelemetry.io/otel/sdk/metric v1.43.0
	go.uber.org/goleak v1.3.0
	golang.org/x/tools v0.44.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/metric v1.43.0 // indirect
	go.opentelemetry.io/otel/trace v1.43.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/mod v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
