package wire

// FairQueue is the key of a fair lock's line: a list of owners, the next first.
func FairQueue(name string) string { return Prefixed("redisson_lock_queue", name) }

// FairTimeouts is the key of the times until which each of a fair lock's waiters
// is believed to live: a sorted set, scores in ms since the epoch.
func FairTimeouts(name string) string { return Prefixed("redisson_lock_timeout", name) }

// FairHeartbeats is the key of when each of holdfast's own waiters was last heard
// of. Redisson has no such key.
func FairHeartbeats(name string) string { return Prefixed("holdfast_lock_waiting", name) }

// WaiterChannel is where one waiter of a fair lock is told that it is next.
func WaiterChannel(name, owner string) string { return LockChannel(name) + ":" + owner }
