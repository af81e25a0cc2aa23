module github.com/holdfast-go/holdfast/valkeydriver

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/valkey-io/valkey-go v1.0.76
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.43.0 // indirect
