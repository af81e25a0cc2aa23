package test

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

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
	const n = 64
	for range n {
		all.Go(func() {
			l := client.NewMutex("lock")
			for range b.N / n {
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
