package doctor

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// kind is a kind of lock: what a user needs for it, as in docs/acl.md, and a pair of lock and
// unlock, or what comes next to one.
type kind struct {
	name     string
	commands string // apart by spaces, as are the others
	keys     string // NAME is the lock's name
	channels string
	try      func(ctx context.Context, t trial) error
}

// trial is one try of a kind on one name.
type trial struct {
	client *holdfast.Client
	redis  redis.UniversalClient
	name   string
}

const (
	mutexCommands  = "DEL EVAL EVALSHA EXISTS HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SUBSCRIBE TIME UNSUBSCRIBE"
	fencedCommands = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE"
	writerCommands = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SUBSCRIBE TIME UNSUBSCRIBE"
	mutexChannel   = "redisson_lock__channel:{NAME}"
	rwKeys         = "NAME {NAME}:* holdfast_next:{NAME}"
	rwChannel      = "redisson_rwlock:{NAME}"
	fairKeys       = "NAME redisson_lock_queue:{NAME} redisson_lock_timeout:{NAME} holdfast_lock_waiting:{NAME}"
	fairChannel    = "redisson_lock__channel:{NAME}:*"
	nameOnly       = "NAME"
	tokenKey       = " redisson_lock_token:{NAME}" //nolint:gosec // a name
)

// kinds are the rows of docs/acl.md, in their order.
var kinds = []kind{
	{"mutex", mutexCommands, nameOnly, mutexChannel, mutex()},
	{"non-reentrant", mutexCommands, nameOnly, mutexChannel, mutex(holdfast.NonReentrant())},
	{"fenced", fencedCommands, nameOnly + tokenKey, mutexChannel, mutex(fenced)},
	{
		"polling", strings.NewReplacer(" SUBSCRIBE", "", " UNSUBSCRIBE", "").Replace(mutexCommands), nameOnly, mutexChannel,
		mutex(holdfast.Polling(callTimeout, callTimeout)),
	},
	{
		"fair", "DEL EVAL EVALSHA EXISTS HDEL HEXISTS HGET HGETALL HKEYS HSET LINDEX LLEN LPOS LRANGE LREM LTRIM PERSIST PEXPIRE PTTL PUBLISH RPUSH SUBSCRIBE " +
			"TIME UNLINK UNSUBSCRIBE ZADD ZCARD ZRANGEBYSCORE ZREM ZSCORE", fairKeys, fairChannel, fair(),
	},
	{
		"fair, fenced", "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET LINDEX LLEN LPOS LRANGE LREM LTRIM PERSIST PEXPIRE PTTL PUBLISH RPUSH " +
			"SET SUBSCRIBE TIME UNLINK UNSUBSCRIBE ZADD ZCARD ZRANGEBYSCORE ZREM ZSCORE", fairKeys + tokenKey, fairChannel, fair(fenced),
	},
	{
		"reader", "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HLEN HSET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME TYPE UNSUBSCRIBE",
		rwKeys, rwChannel, reader,
	},
	{"writer", writerCommands, rwKeys, rwChannel, writer()},
	{"writer, writers first", fencedCommands, rwKeys, rwChannel, writer(holdfast.WritersFirst())},
	{"writer, fenced", fencedCommands, rwKeys + tokenKey, rwChannel, writer(fenced)},
	{
		"permit semaphore", "DEL DECRBY EVAL EVALSHA EXISTS GET INCRBY PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE " +
			"ZREM ZREMRANGEBYSCORE ZSCORE", "NAME {NAME}:timeout holdfast_next:{NAME} holdfast_calls:{NAME}", "redisson_sc:{NAME} holdfast_lost:{NAME}", permit,
	},
	{
		"unleased semaphore", "DEL EVAL EVALSHA EXISTS GET INCRBY PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZRANGEBYSCORE ZREM ZSCORE",
		"NAME holdfast_next:{NAME} holdfast_calls:{NAME}", "redisson_sc:{NAME}", unleased,
	},
	{
		"latch", "DECR DEL EVAL EVALSHA EXISTS GET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZRANGEBYSCORE ZREM ZSCORE",
		"NAME holdfast_calls:{NAME} holdfast_zero:{NAME}", "redisson_countdownlatch__channel__{NAME}", latch,
	},
}

// line is what a user needs besides for those who wait for a plain or a read-write lock, or for permits, to stand in line.
var line = kind{
	commands: "GET HDEL HGET HSET PUBSUB|NUMSUB SET ZADD ZCARD ZPOPMIN ZRANGE ZRANK ZREM",
	keys:     "holdfast_line:{NAME} holdfast_asks:{NAME} holdfast_turn:{NAME}",
	channels: "holdfast_granted:*",
}

// lineSharded is the same on a cluster with sharded messages.
var lineSharded = kind{commands: line.commands, keys: line.keys, channels: "holdfast_line:{NAME}:*"}

// inLine reports whether those who wait for it may stand in a line.
func (k kind) inLine() bool {
	return (k.channels == mutexChannel || k.channels == rwChannel) && strings.Contains(k.commands, "UNSUBSCRIBE") || k.name == "permit semaphore"
}

// KindNames are the names of all kinds, as docs/acl.md has them, in a form for the command line:
// "fair, fenced" is fair-fenced.
func KindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.id())
	}
	return names
}

// id is the kind's name on the command line.
func (k kind) id() string { return strings.NewReplacer(", ", "-", " ", "-").Replace(k.name) }

// fenced has the last token end by itself, too.
var fenced = holdfast.Fenced(holdfast.TokenTTL(scratchTTL))

func mutex(options ...holdfast.MutexOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewMutex(t.name, options...)) }
}

func fair(options ...holdfast.AnyMutexOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewFairMutex(t.name, options...)) }
}

func reader(ctx context.Context, t trial) error {
	return pair(ctx, t.client.NewRWMutex(t.name).RLocker())
}

func writer(options ...holdfast.RWOption) func(context.Context, trial) error {
	return func(ctx context.Context, t trial) error { return pair(ctx, t.client.NewRWMutex(t.name, options...)) }
}

// pair locks and unlocks. The lock would end by itself.
func pair(ctx context.Context, l holdfast.Locker) error {
	hold, err := l.TryLock(ctx, holdfast.FixedLease(scratchTTL))
	if err != nil {
		return err
	}
	return hold.Unlock()
}

// ready makes a semaphore with a permit, or a latch with a count, that ends by itself.
func (t trial) ready(ctx context.Context) error {
	return t.redis.Set(ctx, t.name, 1, scratchTTL).Err()
}

func permit(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return pair(ctx, t.client.NewPermitSemaphore(t.name))
}

func unleased(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	s := t.client.NewUnleasedSemaphore(t.name)
	if err := s.TryAcquire(ctx, 1); err != nil {
		return err
	}
	return s.Release(1)
}

func latch(ctx context.Context, t trial) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.client.NewLatch(t.name).CountDown()
}
