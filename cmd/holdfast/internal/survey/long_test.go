package survey_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// TestScanTooLong counts the names that are too long for a lock, each once, wherever they stand, and reads nothing of them; the longest that
// a lock may have is found.
func TestScanTooLong(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		long := func(i int) string { return strings.Repeat("x", 100_000) + fmt.Sprint(i) }
		for i := range 5 {
			w.do("HSET", long(i), javaOwner, 1)
			w.do("HSET", long(i)+"{tag}", javaOwner, 1)
			w.do("SET", long(i)+"{number}", 5)
			w.do("ZADD", protocol.WaitlistKey(long(i)), 1, javaOwner)
			w.do("SET", protocol.ReservationKey(long(i)), javaOwner)
		}
		w.do("HSET", strings.Repeat("h", protocol.MaxName+1), javaOwner, 1)
		for i, channel := range []string{protocol.LatchChannel(long(0)), protocol.SemaphoreChannel(long(1)), protocol.LatchChannel("latch")} {
			listen := w.rdb.Subscribe
			if _, ok := w.rdb.(*redis.ClusterClient); ok {
				listen = w.rdb.SSubscribe
			}
			sub := listen(w.ctx, channel)
			defer sub.Close()
			if _, err := sub.Receive(w.ctx); err != nil {
				w.Fatal(i, err)
			}
		}
		want := []string{"latch"}
		for _, name := range []string{"job", strings.Repeat("m", protocol.MaxName), strings.Repeat("l", protocol.MaxName-5) + "{tag}"} {
			w.do("HSET", name, javaOwner, 1)
			want = append(want, name)
		}
		w.do("ZADD", protocol.WaitlistKey(strings.Repeat("w", protocol.MaxName)), 1, javaOwner)
		want = append(want, strings.Repeat("w", protocol.MaxName))
		slices.Sort(want)
		var found []string
		tooLong, err := survey.Scan(w.ctx, w.rdb, survey.Options{All: true}, func(l survey.Lock) error { found = append(found, l.Name); return nil })
		slices.Sort(found)
		if err != nil || tooLong != 28 || !slices.Equal(found, want) {
			w.Errorf("%d too long, %v; found %.40q", tooLong, err, found)
		}
		for pattern, want := range map[string]int{long(0): 1, "job": 0, "x*": 10, "nothing*": 0} {
			tooLong, err := survey.Scan(w.ctx, w.rdb, survey.Options{Match: pattern}, func(survey.Lock) error { return nil })
			if tooLong != want || err != nil {
				w.Errorf("%.40q: %d too long, want %d; %v", pattern, tooLong, want, err)
			}
		}
	})
}

// TestLongTexts keeps little of what anybody may have written: owners, values, entries of lines, and what clients say of themselves.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		huge := strings.Repeat("x", 1<<20)
		ours := "0b0ee0e1-9a5c-8e5f-8b0e-0f6cbb0a3f7d:1"
		w.do("HSET", "owner", huge, 1)
		w.do("HSET", "owners", "mode", survey.Reads, huge, 1, javaOwner, 1)
		w.do("HSET", "mode", "mode", huge, javaOwner, 1)
		w.do("HSET", "value", javaOwner, huge)
		w.do("HSET", "who", ours, 1)
		w.do("HSET", protocol.ClientKey(ours), "program", huge, "version", huge, "host", huge, "pid", huge, "since", huge, protocol.HeldField(ours, "who"), huge)
		w.do("HSET", "line", javaOwner, 1)
		w.do("ZADD", protocol.WaitlistKey("line"), 1, huge, 2, huge+":write", 3, ours)
		w.do("HSET", protocol.RequestsKey("line"), huge, huge, ours, huge)
		w.do("RPUSH", protocol.FairQueueKey("fair"), huge, ours)
		w.do("ZADD", protocol.FairTimeoutsKey("fair"), 1, huge)
		w.do("SET", "permits", 3)
		w.do("ZADD", protocol.PermitsKey("permits"), 9e14, "0123456789abcdef")
		w.do("ZADD", protocol.WaitlistKey("permits"), 1, huge, 2, ours)
		w.do("HSET", protocol.RequestsKey("permits"), ours, "ID 3000 9000 0 "+strings.Repeat("i", 16*1000))
		w.do("SET", "token", huge)
		w.do("HSET", "fenced", javaOwner, 1)
		w.do("SET", protocol.TokenKey("fenced"), huge)
		w.do("SET", protocol.ReservationKey("rw"), huge)
		tooLong, err := survey.Scan(w.ctx, w.rdb, survey.Options{All: true}, func(l survey.Lock) error {
			if text, err := json.Marshal(l); err != nil || len(text) > 4096 {
				w.Errorf("%s: %d bytes, %v", l.Name, len(text), err)
			}
			return nil
		})
		if err != nil || tooLong != 0 {
			w.Errorf("%d too long, %v", tooLong, err)
		}
		for _, name := range []string{"value", "who", "line", "fair", "permits"} {
			if text, err := json.Marshal(w.read(name)); err != nil || len(text) > 4096 {
				w.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
		}
		if l := w.read("permits"); len(l.Waiters) != 2 || l.Waiters[1].Owner != ours || l.Waiters[1].Wants != 1000 {
			w.Errorf("%+v", l)
		}
		if l := w.read("line"); l.Line != 3 || len(l.Waiters) != 3 || l.Waiters[2].Owner != ours {
			w.Errorf("%+v", l)
		}
	})
}

// TestCrowds reads so many holders and waiters, and counts the others.
func TestCrowds(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		const many = 20_000
		owner := func(i int) string { return fmt.Sprintf("%08x-9a5c-4e5f-8b0e-0f6cbb0a3f7d:%d", i, i) }
		readers, line, queue := []any{"HSET", "readers", "mode", survey.Reads}, []any{"ZADD", protocol.WaitlistKey("line")}, []any{"RPUSH", protocol.FairQueueKey("fair")}
		for i := range many {
			readers, line, queue = append(readers, owner(i), 1), append(line, i+1, owner(i)), append(queue, owner(i))
		}
		w.do(readers...)
		w.do(line...)
		w.do(queue...)
		w.do("HSET", "line", javaOwner, 1)
		for _, name := range []string{"readers", "line", "fair"} {
			l := w.read(name)
			if name == "readers" && (l.HolderCount != many || len(l.Holders) < 900 || len(l.Holders) > 1100) ||
				name != "readers" && (l.Line != many || l.Waiting != many || len(l.Waiters) != 1000) {
				w.Errorf("%s: %d of %d holders, %d of %d waiters", name, len(l.Holders), l.HolderCount, len(l.Waiters), l.Waiting)
			}
		}
	})
}
