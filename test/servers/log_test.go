package servers

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A password stands in no record, whatever goes wrong.
func TestLogHooksTellNoPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithPassword("sesame"))
	var text bytes.Buffer
	p := kit.GoRedis("wrong", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: "default", Password: "wr0ng"}, nil)
	c := p.Client(t, holdfast.WithHooks(holdfast.LogHooks(slog.New(slog.NewTextHandler(&text, nil)), 0)))
	_, err := c.NewMutex(kit.Fresh()).TryLock(background)
	if err == nil {
		t.Fatal("no error")
	}
	if got := text.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "password of the Redis client is wrong") || strings.Contains(got, "wr0ng") {
		t.Errorf("logged %q", got)
	}
}
