package rights

import "strings"

// Kind is a kind of lock: a row of docs/acl.md.
type Kind struct {
	Name string // as on the page
	Rights
	// Waiting are the rights by which a waiter stands in line, and a release grants the lock to the next one. Without them it
	// works, but waiters ask every few seconds.
	Waiting Rights
	// Expiry are the rights that Expire and Delete need besides; of objects that have these methods.
	Expiry Rights
}

// ID returns the name on the command line: "fair, fenced" is fair-fenced.
func (k Kind) ID() string { return strings.NewReplacer(", ", "-", " ", "-").Replace(k.Name) }

const (
	mutexCommands   = "DEL EVAL EVALSHA EXISTS HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SUBSCRIBE TIME UNSUBSCRIBE"
	pollingCommands = "DEL EVAL EVALSHA EXISTS HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH TIME"
	fencedCommands  = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE"
	writerCommands  = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET PEXPIRE PTTL PUBLISH SUBSCRIBE TIME UNSUBSCRIBE"
	fairCommands    = "DEL EVAL EVALSHA EXISTS HDEL HEXISTS HGET HGETALL HKEYS HSET LINDEX LLEN LPOS LRANGE LREM LTRIM PERSIST PEXPIRE PTTL PUBLISH RPUSH SUBSCRIBE " +
		"TIME UNLINK UNSUBSCRIBE ZADD ZCARD ZRANGEBYSCORE ZREM ZSCORE"
	fairFencedCommands = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HSET LINDEX LLEN LPOS LRANGE LREM LTRIM PERSIST PEXPIRE PTTL PUBLISH RPUSH " +
		"SET SUBSCRIBE TIME UNLINK UNSUBSCRIBE ZADD ZCARD ZRANGEBYSCORE ZREM ZSCORE"
	readerCommands = "DEL EVAL EVALSHA EXISTS GET HDEL HEXISTS HGET HGETALL HKEYS HLEN HSET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME TYPE UNSUBSCRIBE"
	permitCommands = "DEL DECRBY EVAL EVALSHA EXISTS GET INCRBY PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE " +
		"ZREM ZREMRANGEBYSCORE ZSCORE"
	unleasedCommands = "DEL EVAL EVALSHA EXISTS GET INCRBY PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZRANGEBYSCORE ZREM ZSCORE"
	latchCommands    = "DECR DEL EVAL EVALSHA EXISTS GET PEXPIRE PTTL PUBLISH SET SUBSCRIBE TIME UNSUBSCRIBE ZADD ZRANGEBYSCORE ZREM ZSCORE"

	nameKey      = "NAME"
	tokenKey     = " redisson_lock_token:{NAME}" //nolint:gosec // a name
	asksKey      = "holdfast_asks:{NAME}"
	fairKeys     = "NAME redisson_lock_queue:{NAME} redisson_lock_timeout:{NAME} holdfast_lock_waiting:{NAME}"
	rwKeys       = "NAME {NAME}:*:rwlock_timeout:* holdfast_next:{NAME}"
	mutexChannel = "redisson_lock__channel:{NAME}"
	fairChannel  = "redisson_lock__channel:{NAME}:*"
	rwChannel    = "redisson_rwlock:{NAME}"
	permitSignal = "redisson_sc:{NAME}"
	granted      = "holdfast_granted:TENANT*"
)

var (
	// Line are the rights that waiters for a plain or a read-write lock, or for permits, need to stand in line.
	Line = of("GET HDEL HGET HSET PUBSUB|NUMSUB SET ZADD ZCARD ZPOPMIN ZRANGE ZRANK ZREM",
		"holdfast_line:{NAME} "+asksKey+" holdfast_turn:{NAME}", granted)
	// fairGrants are the rights by which a release grants a fair lock.
	fairGrants = of("PUBSUB|NUMSUB ZCOUNT", asksKey, granted)
	// Identity are the rights to a client's own record, and to those of the clients that hold locks.
	Identity = of("DEL HDEL HGET HSET PEXPIRE TIME", "holdfast_client:TENANT*", "")
	// Replicas are the rights that WithReplicaAck needs. By them rueidis and valkey-go also tell a primary from a replica, before Redis
	// 7.0 and without EVAL.
	Replicas = of("WAIT", "", "")
	expiry   = of("DEL PERSIST PEXPIRE", "", "")
)

// Kinds are all kinds, in the order of docs/acl.md.
var Kinds = []Kind{
	{Name: "mutex", Rights: of(mutexCommands, nameKey, mutexChannel), Waiting: Line},
	{Name: "non-reentrant", Rights: of(mutexCommands, nameKey, mutexChannel), Waiting: Line},
	{Name: "fenced", Rights: of(fencedCommands, nameKey+tokenKey, mutexChannel), Waiting: Line},
	{Name: "polling", Rights: of(pollingCommands, nameKey, mutexChannel), Waiting: Line},
	{Name: "fair", Rights: of(fairCommands, fairKeys, fairChannel), Waiting: fairGrants},
	{Name: "fair, fenced", Rights: of(fairFencedCommands, fairKeys+tokenKey, fairChannel), Waiting: fairGrants},
	{Name: "reader", Rights: of(readerCommands, rwKeys, rwChannel), Waiting: Line},
	{Name: "writer", Rights: of(writerCommands, rwKeys, rwChannel), Waiting: Line},
	{Name: "writer, writers first", Rights: of(fencedCommands, rwKeys, rwChannel), Waiting: Line},
	{Name: "writer, fenced", Rights: of(fencedCommands, rwKeys+tokenKey, rwChannel), Waiting: Line},
	{
		Name:    "permit semaphore",
		Rights:  of(permitCommands, "NAME {NAME}:timeout holdfast_next:{NAME} holdfast_calls:{NAME}", permitSignal+" holdfast_lost:{NAME}"),
		Waiting: Line, Expiry: expiry,
	},
	{
		Name:   "unleased semaphore",
		Rights: of(unleasedCommands, "NAME holdfast_next:{NAME} holdfast_calls:{NAME}", permitSignal), Expiry: expiry,
	},
	{
		Name:   "latch",
		Rights: of(latchCommands, "NAME holdfast_calls:{NAME} holdfast_zero:{NAME}", "redisson_countdownlatch__channel__{NAME}"), Expiry: expiry,
	},
}

// IDs returns the names of all kinds on the command line.
func IDs() (ids []string) {
	for _, k := range Kinds {
		ids = append(ids, k.ID())
	}
	return ids
}
