package wire

import "strings"

// Released is the payload that announces a released lock. Redisson decodes
// every payload as a decimal integer, so nothing else may be sent.
const Released = "0"

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

// Token is the key of the last fencing token of a lock.
func Token(name string) string { return Prefixed("redisson_lock_token", name) }
