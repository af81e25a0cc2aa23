package force

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// before calls f before the first script that a client sends.
type before struct{ f func() }

func (b *before) script(cmd redis.Cmder) {
	if f := b.f; f != nil && strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
		b.f = nil
		f()
	}
}

func (*before) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.script(cmd)
		return next(ctx, cmd)
	}
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			b.script(cmd)
		}
		return next(ctx, cmds)
	}
}

// Whoever gets the lock while it is being taken away from another keeps it.
func TestOnlyThoseWhoWereNamed(t *testing.T) {
	t.Parallel()
	const first, second = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57", "99f17b91-c6cc-489e-88f6-8265bee545cf:1"
	const permit, other = "0123456789abcdef", "fedcba9876543210"
	server := redistest.Start(t)
	for name, c := range map[string]struct {
		now, then [][]string
		kind      survey.Kind
	}{
		"mutex": {[][]string{{"HSET", "mutex", first, "1"}}, [][]string{{"DEL", "mutex"}, {"HSET", "mutex", second, "1"}}, survey.Mutex},
		"fair": {
			[][]string{{"HSET", "fair", first, "1"}, {"RPUSH", "redisson_lock_queue:{fair}", second}},
			[][]string{{"DEL", "fair"}, {"HSET", "fair", second, "1"}},
			survey.Fair,
		},
		"rw": {
			[][]string{{"HSET", "rw", "mode", "write", first + ":write", "1"}},
			[][]string{{"DEL", "rw"}, {"HSET", "rw", "mode", "write", second + ":write", "1"}},
			survey.RW,
		},
		"permits": {
			[][]string{{"SET", "permits", "0"}, {"ZADD", "{permits}:timeout", "9e14", permit}},
			[][]string{{"ZREM", "{permits}:timeout", permit}, {"ZADD", "{permits}:timeout", "9e14", other}},
			survey.Permits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer rdb.Close()
			send := func(commands [][]string) {
				for _, command := range commands {
					server.Cli(t, command...)
				}
			}
			look := func() survey.Lock {
				t.Helper()
				l, err := survey.Read(t.Context(), rdb, name)
				if err != nil || l.Kind != c.kind || l.HolderCount != 1 {
					t.Fatalf("%+v, %v", l, err)
				}
				return l
			}
			send(c.now)
			said := look()
			hook := &before{f: func() { send(c.then) }}
			rdb.AddHook(hook)
			done, err := Unlock(t.Context(), rdb, said)
			var changed *ChangedError
			if done || !errors.As(err, &changed) || hook.f != nil {
				t.Errorf("%v, %v", done, err)
			}
			if done, err = Unlock(t.Context(), rdb, look()); !done || err != nil { // it is the second's, who is named now
				t.Errorf("%v, %v", done, err)
			}
			if l, err := survey.Read(t.Context(), rdb, name); err == nil && l.HolderCount > 0 {
				t.Errorf("%+v", l)
			}
		})
	}
}

// A mutex that turns out to be fair, since somebody has begun to wait for it, or is not known to be fair any more, has
// not changed hands.
func TestOneWhoBeginsToWaitChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	join, leave := []string{"RPUSH", "redisson_lock_queue:{job}", "99f17b91-c6cc-489e-88f6-8265bee545cf:1"}, []string{"DEL", "redisson_lock_queue:{job}"}
	for _, kinds := range []struct {
		now, then []string
		is, gets  survey.Kind
	}{{leave, join, survey.Mutex, survey.Fair}, {join, leave, survey.Fair, survey.Mutex}} {
		look := func(want survey.Kind) survey.Lock {
			l, err := survey.Read(t.Context(), rdb, "job")
			if err != nil || l.Kind != want {
				t.Fatalf("%+v, %v", l, err)
			}
			return l
		}
		server.Cli(t, "HSET", "job", "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57", "1")
		server.Cli(t, kinds.now...)
		said := look(kinds.is)
		server.Cli(t, kinds.then...)
		hook := &before{f: func() { server.Cli(t, leave...); server.Cli(t, join...) }}
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer rdb.Close()
		rdb.AddHook(hook)
		if Holders(look(kinds.gets)) != Holders(said) {
			t.Errorf("from %s to %s: other holders", kinds.is, kinds.gets)
		}
		if done, err := Unlock(t.Context(), rdb, said); !done || err != nil {
			t.Errorf("from %s to %s: %v, %v", kinds.is, kinds.gets, done, err)
		}
		if left := server.Cli(t, "EXISTS", "redisson_lock_queue:{job}"); left != "0" || hook.f != nil {
			t.Errorf("from %s to %s: it was not forced as a fair one, for who stands in line and does not answer is still there", kinds.is, kinds.gets)
		}
	}
}

// A forced unlock wakes plain and fair waiters, whichever of the two the mutex looked like.
func TestForceWakesPlainAndFairWaiters(t *testing.T) {
	t.Parallel()
	const waiter = "99f17b91-c6cc-489e-88f6-8265bee545cf:1"
	server := redistest.Start(t)
	for kind, channel := range map[survey.Kind]string{
		survey.Mutex: "redisson_lock__channel:{mutex}:" + waiter,
		survey.Fair:  "redisson_lock__channel:{fair}",
	} {
		t.Run(string(kind), func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer rdb.Close()
			name := string(kind)
			stand := func() { server.Cli(t, "RPUSH", "redisson_lock_queue:{"+name+"}", waiter) }
			server.Cli(t, "HSET", name, "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57", "1")
			if kind == survey.Fair {
				stand()
			} else {
				rdb.AddHook(&before{f: stand})
			}
			said, err := survey.Read(t.Context(), rdb, name)
			if err != nil || said.Kind != kind {
				t.Fatalf("%+v, %v", said, err)
			}
			sub := rdb.Subscribe(t.Context(), channel)
			defer sub.Close()
			if _, err := sub.Receive(t.Context()); err != nil { // it is subscribed
				t.Fatal(err)
			}
			if done, err := Unlock(t.Context(), rdb, said); !done || err != nil {
				t.Fatalf("%v, %v", done, err)
			}
			heard, err := sub.ReceiveTimeout(t.Context(), 10*time.Second)
			if message, ok := heard.(*redis.Message); err != nil || !ok || message.Payload != "0" {
				t.Errorf("on %s: %v, %v", channel, heard, err)
			}
		})
	}
}

// A forced unlock has the next in line have the mutex.
func TestForceGrantsToTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	holder, next := "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57", "99f17b91-c6cc-889e-88f6-8265bee545cf:1"
	server.Cli(t, "HSET", "job", holder, "1")
	server.Cli(t, "ZADD", "holdfast_waitlist:{job}", "1", next)
	server.Cli(t, "HSET", "holdfast_requests:{job}", next, "number 3000 9999999999999 0")
	sub := rdb.Subscribe(t.Context(), "holdfast_granted:"+next[:36])
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil { // it is subscribed
		t.Fatal(err)
	}
	said, err := survey.Read(t.Context(), rdb, "job")
	if err != nil || said.Kind != survey.Mutex || said.Line != 1 {
		t.Fatalf("%+v, %v", said, err)
	}
	if done, err := Unlock(t.Context(), rdb, said); !done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
	heard, err := sub.ReceiveTimeout(t.Context(), 10*time.Second)
	if message, ok := heard.(*redis.Message); err != nil || !ok || message.Payload != "number" {
		t.Errorf("%v, %v", heard, err)
	}
	if holders := server.Cli(t, "HKEYS", "job"); holders != next {
		t.Errorf("it is held by %q", holders)
	}
}

// More holders than are read may be others at the next look, since renewals change their order: all of them
// are meant.
func TestMoreHoldersThanAreNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	server.Cli(t, "SET", "permits", "0")
	const add = "for i = ARGV[1], ARGV[2] do redis.call('ZADD', KEYS[1], 9e14 + i + ARGV[3], string.format('%016d', i)) end"
	server.Cli(t, "EVAL", add, "1", "{permits}:timeout", "1", "1500", "0")
	said, err := survey.Read(t.Context(), rdb, "permits")
	if err != nil || said.HolderCount != 1500 || len(said.Holders) == 1500 {
		t.Fatalf("%d of %d, %v", len(said.Holders), said.HolderCount, err)
	}
	server.Cli(t, "EVAL", add, "1", "{permits}:timeout", "1", "700", "1500") // as if they had been renewed
	if done, err := Unlock(t.Context(), rdb, said); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if left := server.Cli(t, "ZCARD", "{permits}:timeout"); left != "0" {
		t.Errorf("%s are left", left)
	}
}

// TestVictimsOfACrowd names nobody if none of those who were read holds the lock.
func TestVictimsOfACrowd(t *testing.T) {
	t.Parallel()
	got := Victims(survey.Lock{Name: "x", Kind: survey.RW, HolderCount: 5})
	if want := `the read-write lock "x" is held by 5 owners, of whom none is named`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
