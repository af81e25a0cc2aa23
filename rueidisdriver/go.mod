module github.com/holdfast-go/holdfast/rueidisdriver

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/redis/rueidis v1.0.76
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.43.0 // indirect
