package handover

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// BenchmarkHandOver is a Lock and an Unlock of one of 64 goroutines that want the same lock.
func BenchmarkHandOver(b *testing.B) {
	server, err := memdriver.NewServer()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	client, err := holdfast.New(server.Driver())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.ReportAllocs()
	var all sync.WaitGroup
	var pairs atomic.Int64
	for range 64 {
		all.Go(func() {
			l := client.NewMutex("lock")
			for pairs.Add(1) <= int64(b.N) {
				h, err := l.Lock(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				if err := h.Unlock(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
