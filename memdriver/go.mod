module github.com/holdfast-go/holdfast/memdriver

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/yuin/gopher-lua v1.1.1
	go.uber.org/goleak v1.3.0
)
