// Package wakeup tells those who listen on a channel that something may have
// changed there.
//
// A [Hub] shares one listener between all of a client's waiters and holders.
// Channels are counted: the first subscription to one subscribes, the last one to end
// unsubscribes. Every message notifies every subscription of its channel, and so does
// every confirmation, because a message may have been lost before it. A notification
// says one of two things: something may have changed, so ask Redis (Notify); or others have
// the lock, so there is no need to ask yet (NotifyAcquired).
//
// The hub has no goroutine; it runs on the listener's. Hub.mu guards the map of
// channels and every subscription, and is held while either runs, so that none runs
// after Leave has returned. So they must not block and not call the hub.
//
// Nothing here can fail: a subscription that does not come about notifies nobody, and
// waiters never rely on a notification alone.
package wakeup
