// Package wakeup tells those who listen on a channel that something may have
// changed there.
//
// A [Hub] shares one listener between all of a client's waiters and holders.
// Channels are counted: the first subscription to one subscribes, the last one to end
// unsubscribes. Every subscription of a channel hears of every message, and of
// every confirmation, because a message may have been lost before it.
//
// The hub has no goroutine; it runs on the listener's. Hub.mu guards the map of
// channels and every subscription, and is held while either runs, so that none runs
// after Leave has returned. So they must not block and not call the hub.
//
// Nothing here can fail: a subscription that does not come about says nothing, and
// waiters never rely on a message alone.
package wakeup
