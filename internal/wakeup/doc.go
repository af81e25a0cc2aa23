// Package wakeup tells those who listen on a channel that something may have
// changed there.
//
// A [Hub] shares one listener between all of a client's waiters and holders.
// Channels are counted: the first seat subscribes, the last one to leave
// unsubscribes. Every message rings every seat of its channel, and so does every
// confirmed subscription, because a message may have been lost before it. A ring
// carries nothing: whoever is rung asks Redis.
//
// The hub has no goroutine; it runs on the listener's. Hub.mu guards the map of
// channels and every seat, and is held while a seat is rung, so that no ring
// comes after Leave has returned. A ring must therefore not block and not call
// the hub.
//
// Nothing here can fail: a subscription that does not come about rings nobody,
// and waiters never rely on a ring alone.
package wakeup
