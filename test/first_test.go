package test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memdriver.NewServer()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := holdfast.New(s.Driver())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		mu := c.NewMutex("x")
		h, err := mu.Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Log(s.Do("HGETALL", "x"))
		n, err := mu.Lock(h.Context())
		t.Log(s.Do("HGETALL", "x"))
		time.Sleep(time.Minute)
		t.Log(s.Do("PTTL", "x"))
		t.Log(mu.Inspect(context.Background()))
		_, err = mu.TryLock(context.Background())
		t.Log(err)
		go func() {
			time.Sleep(10*time.Second)
			t.Log(n.Unlock())
			t.Log(h.Unlock())
			t.Log(h.Unlock())
		}()
		start := time.Now()
		h2, err := mu.Lock(context.Background())
		t.Log(time.Since(start), err)
		t.Log(h2.Unlock())
		t.Log(s.Do("KEYS", "*"))
	})
}
