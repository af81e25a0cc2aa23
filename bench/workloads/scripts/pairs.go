package scripts

import (
	"crypto/rand"
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The owner of every lock here, as long as a real one: holdfast's, and Redisson's.
const (
	scriptOwner   = "5e8f1c3a-7b2d-8e4f-9a1b-c2d3e4f5a6b7:1"
	redissonOwner = "5e8f1c3a-7b2d-4e4f-9a1b-c2d3e4f5a6b7:1"
)

// publish is the command that messages are sent with, on a single server.
const publish = "PUBLISH"

// A scriptPair is a kind of lock as one side takes it and gives it back. Each call
// of pair returns the two calls of one pair.
type scriptPair struct {
	// semaphore is where there have to be permits before the first pair; empty if the
	// pair needs none.
	semaphore string
	pair      func() [2]scriptCall
}

// A scriptCall is one EVALSHA, and the reply by which it has done its work.
type scriptCall struct {
	script *driver.Script
	keys   []string
	args   []any
	want   func(reply any) bool
	// leaves is a key that the caller deletes later, with a command of its own.
	leaves string
}

// scriptKind compares two ways to take a lock of a kind, and to give it back.
type scriptKind struct {
	name             string
	holdfast, theirs scriptPair
}

// scriptKinds are all that are compared. The names of their locks begin with id.
func scriptKinds(id string, lease time.Duration) []scriptKind {
	name := func(side, kind string) string { return id + ":" + side + ":" + kind }
	kinds := []scriptKind{
		{name: "mutex", theirs: redissonMutex(name("redisson", "mutex"), lease)},
		{name: "fair lock", theirs: redissonFair(name("redisson", "fair"), lease)},
		{name: "read lock", theirs: redissonRead(name("redisson", "read"), lease)},
		{name: "write lock", theirs: redissonWrite(name("redisson", "write"), lease)},
		{name: "permit", theirs: redissonPermits(name("redisson", "permits"), lease)},
	}
	for i, w := range []protocol.Waitable{
		protocol.NewMutex(name("holdfast", "mutex")),
		protocol.Fair{Mutex: protocol.NewMutex(name("holdfast", "fair"))},
		protocol.NewRead(name("holdfast", "read")),
		protocol.NewWrite(name("holdfast", "write")),
	} {
		kinds[i].holdfast = holdfastPair(w, lease)
	}
	kinds[4].holdfast = holdfastPermits(name("holdfast", "permits"), lease)
	return kinds
}

// holdfastPair is what the library sends for a free lock.
func holdfastPair(w protocol.Waitable, lease time.Duration) scriptPair {
	acquire := protocol.Acquire{Owner: scriptOwner, From: 0, To: 1, Lease: lease}
	return scriptPair{pair: func() [2]scriptCall {
		return [2]scriptCall{framed(w.Acquire(acquire)), framed(w.Release(scriptOwner, 1, 0))}
	}}
}

func holdfastPermits(name string, lease time.Duration) scriptPair {
	permits := protocol.Permits{Name: name}
	p := holdfastPair(nil, lease)
	p.semaphore = name
	p.pair = func() [2]scriptCall {
		return holdfastPair(protocol.PermitSet{Permits: permits, IDs: []string{string(randomID())}}, lease).pair()
	}
	return p
}

// framed is a request as package call sends it: with a limit, the channel and the
// publish command in front.
func framed(r script.Request) scriptCall {
	limit := time.Now().Add(time.Hour).UnixMilli()
	args := append(make([]any, 0, 3+len(r.Args)), strconv.FormatInt(limit, 10), r.Channel, publish)
	for _, arg := range r.Args {
		args = append(args, arg)
	}
	return scriptCall{script: r.Script, keys: r.Keys, args: args, want: func(reply any) bool {
		parsed, err := script.Parse(reply)
		return err == nil && parsed.Code == script.Done
	}}
}

func randomID() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	return id
}

// barest is the pair of the bare contenders: see bare.go.
func barest(id string, lease time.Duration) scriptPair {
	take, give := driver.NewScript("take", contenders.BareTake), driver.NewScript("give", contenders.BareGive)
	name := id + ":bare"
	return scriptPair{pair: func() [2]scriptCall {
		return [2]scriptCall{
			{script: take, keys: []string{name}, args: []any{contenders.BareOwner, millisText(lease)}, want: isOne},
			{script: give, keys: []string{name, name + ":channel"}, want: isOne},
		}
	}}
}

func millisText(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func isOne(reply any) bool { return reply == int64(1) }
func isNil(reply any) bool { return reply == nil }
func isOK(reply any) bool  { return reply == "OK" }

// redisson has scripts that do what Redisson's do, command for command, for a kind of lock each:
// keys, arguments and replies are the same. The text is ours. What follows a
// contended or nested lock is there only as far as it decides what a free one costs.
//
//go:embed redisson
var redisson embed.FS

// like is the script of this name.
func like(name string) *driver.Script {
	text, err := redisson.ReadFile("redisson/" + name + ".lua")
	if err != nil {
		panic(err) // it is part of this program
	}
	return driver.NewScript(name, string(text))
}

// latchTTL is how long Redisson keeps the outcome of an unlock, ms, with its
// default settings.
const latchTTL = "18000"

// redissonPair is a pair as Redisson sends it to a single server. keys and args are
// those of the release before the latch and its time to live, which come last.
func redissonPair(name, kind string, taken, given scriptCall) scriptPair {
	taken.script, taken.want = like(kind+"_take"), isNil
	given.script, given.want = like(kind+"_give"), isOne
	keys, args := given.keys, given.args
	return scriptPair{pair: func() [2]scriptCall {
		given := given
		given.leaves = protocol.Prefixed("redisson_unlock_latch", name) + ":" + hex.EncodeToString(randomID())
		given.keys = slices.Concat(keys, []string{given.leaves})
		given.args = slices.Concat(args, []any{latchTTL})
		return [2]scriptCall{taken, given}
	}}
}

func redissonMutex(name string, lease time.Duration) scriptPair {
	ms := millisText(lease)
	return redissonPair(name, "mutex",
		scriptCall{keys: []string{name}, args: []any{ms, redissonOwner}},
		scriptCall{keys: []string{name, protocol.LockChannel(name)}, args: []any{"0", ms, redissonOwner, publish}})
}

func redissonFair(name string, lease time.Duration) scriptPair {
	ms, now := millisText(lease), strconv.FormatInt(time.Now().UnixMilli(), 10)
	queue, timeouts := protocol.FairQueueKey(name), protocol.FairTimeoutsKey(name)
	return redissonPair(name, "fair",
		scriptCall{keys: []string{name, queue, timeouts}, args: []any{ms, redissonOwner, "300000", now}},
		scriptCall{
			keys: []string{name, queue, timeouts, protocol.LockChannel(name)},
			args: []any{"0", ms, redissonOwner, now, publish},
		})
}

func redissonRead(name string, lease time.Duration) scriptPair {
	holds := protocol.ReadPrefix(name) + redissonOwner + ":rwlock_timeout"
	return redissonPair(name, "read",
		scriptCall{keys: []string{name, holds}, args: []any{millisText(lease), redissonOwner, protocol.WriterField(redissonOwner)}},
		scriptCall{
			keys: []string{name, protocol.RWChannel(name), holds, "{" + name + "}"},
			args: []any{"0", redissonOwner, publish},
		})
}

func redissonWrite(name string, lease time.Duration) scriptPair {
	ms, writer := millisText(lease), protocol.WriterField(redissonOwner)
	return redissonPair(name, "write",
		scriptCall{keys: []string{name}, args: []any{ms, writer}},
		scriptCall{keys: []string{name, protocol.RWChannel(name)}, args: []any{"1", ms, writer, publish}})
}

func redissonPermits(name string, lease time.Duration) scriptPair {
	held, channel := protocol.PermitsKey(name), protocol.SemaphoreChannel(name)
	take, give := like("permits_take"), like("permits_give")
	return scriptPair{semaphore: name, pair: func() [2]scriptCall {
		now := time.Now()
		ms, expiry := strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(lease).UnixMilli(), 10)
		id := randomID()
		return [2]scriptCall{
			{
				script: take, want: isOK, keys: []string{name, held, channel},
				args: []any{"1", expiry, ms, "922337203685477", publish, id},
			},
			{
				script: give, want: isOne, keys: []string{name, channel, held},
				args: []any{id, "1", ms, publish},
			},
		}
	}}
}
