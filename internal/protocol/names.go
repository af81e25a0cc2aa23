package protocol

import (
	"strconv"
	"strings"
)

// Released is the payload that announces a released lock. Redisson decodes
// every payload as a decimal integer, so nothing else may be sent.
const Released = "0"

// WriterReleased is the payload that announces that a writer has left. To
// Redisson it says to wake all who wait, not one.
const WriterReleased = "1"

// What stands before a name, or behind it, in the keys beside a lock's own, and in channels. [NamesOf] takes names out of these again.
const (
	waitlistPrefix   = "holdfast_waitlist"
	requestsPrefix   = "holdfast_requests"
	yieldPrefix      = "holdfast_yield"
	nextPrefix       = "holdfast_next"
	callsPrefix      = "holdfast_calls"
	zeroPrefix       = "holdfast_zero"
	heartbeatsPrefix = "holdfast_lock_waiting"
	clientPrefix     = "holdfast_client"
	tokenPrefix      = "redisson_lock_token"
	queuePrefix      = "redisson_lock_queue"
	timeoutsPrefix   = "redisson_lock_timeout"
	unlockPrefix     = "redisson_unlock_latch" // Redisson's alone
	semaphorePrefix  = "redisson_sc"
	latchPrefix      = "redisson_countdownlatch__channel__"
	permitsSuffix    = "timeout"
	readHoldInfix    = ":rwlock_timeout:"
	writerSuffix     = ":write"
)

// Prefixed joins a prefix to a lock's name, with the whole name as the hash tag
// unless the name brings one of its own.
func Prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Suffixed joins a suffix to a lock's name, with the same tag as [Prefixed].
func Suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// LockChannel is where the release of a plain lock is announced.
func LockChannel(name string) string { return Prefixed("redisson_lock__channel", name) }

// WaitlistKey is the key of a lock's waitlist, RequestsKey that of its waiters' requests, and YieldKey that of the time until which the
// lock is left to unlisted waiters. Redisson knows none of them.
func WaitlistKey(name string) string { return Prefixed(waitlistPrefix, name) }

// RequestsKey is described at [WaitlistKey].
func RequestsKey(name string) string { return Prefixed(requestsPrefix, name) }

// YieldKey is described at [WaitlistKey].
func YieldKey(name string) string { return Prefixed(yieldPrefix, name) }

// GrantChannel is where a client hears that it was granted a lock; one for all locks, or, if messages belong to a shard,
// one for each. WAITLIST and grant_channel in lua/waitlist.lua have the same names.
func GrantChannel(client, name string, sharded bool) string {
	if sharded {
		return WaitlistKey(name) + ":" + client
	}
	return "holdfast_granted:" + client
}

// TokenKey is the key of the last fencing token of a lock.
func TokenKey(name string) string { return Prefixed(tokenPrefix, name) }

// RWChannel is where the releases of a read-write lock are announced.
func RWChannel(name string) string { return Prefixed("redisson_rwlock", name) }

// ReadPrefix is what stands in front of the owner in the keys of read holds.
func ReadPrefix(name string) string { return Suffixed(name, "") }

// ReadHoldKey is the key of an owner's read hold, the i-th from 1 on.
func ReadHoldKey(name, owner string, i int) string {
	return ReadPrefix(name) + owner + readHoldInfix + strconv.Itoa(i)
}

// ReservationKey is the key of the waiter for whom others make way: one who
// wants many permits. Redisson does not know it.
func ReservationKey(name string) string { return Prefixed(nextPrefix, name) }

// WriterField is the field of an owner that writes.
func WriterField(owner string) string { return owner + writerSuffix }
