// Package rueidisdriver lets holdfast use a rueidis client that the program
// already has, for a single server, behind Sentinel, or of a cluster.
//
//	client, err := holdfast.New(rueidisdriver.New(rc))
//
// # Scripts
//
// [Driver.Eval] sends EVALSHA, and EVAL after NOSCRIPT. rueidis repeats only
// commands that it takes to be read-only, so it does not repeat these, and
// DisableRetry need not be set. On a cluster it follows MOVED and ASK. Several
// calls may wait for one connection to be made; if the one that makes it is
// cancelled rueidis fails them all, and then Eval tries again, up to ten times,
// since nothing was sent.
//
// ClientOption.ConnLifetime must stay unset, which is the default: rueidis
// repeats any command, ours too, whose connection fails while it is being
// retired, whether the command has run or not.
//
// Calls to a single server, or behind Sentinel, have connections of their own, from the
// client's blocking pool. A call that comes while none is on its way is made by its caller. One that
// comes while others are on their way waits for them, and leaves with those that have come
// meanwhile: there are two workers, up to eight if the way is long, each with one connection at a
// time, and 128 calls at most go together. A worker whose calls have all been given up is
// replaced. Workers are goroutines that end when nothing came for 50 ms.
//
// On a cluster a call has a goroutine of its own, and uses the connections that carry the
// program's own commands, since the client does not show which node a slot is on, and a node that
// does not answer must not hold up the calls to others. At most 512 calls are
// unanswered there at once, those that were given up included; further ones wait for a place, or
// for the end of their context.
//
// A context that ends makes Eval return, whatever the server does, but for a caller that makes
// its call itself: it waits for the reply until the deadline, half a second at most, and then its connection
// is closed. This happens where a server falls silent that has answered just before, to one call.
// A call that has not been sent by then is not. The others go on, and driver.Call.Late is told what came
// of them, when the server answers or rueidis gives the connection up: at the latest deadline of
// the calls that went together. On a cluster it does so only if nothing else was under way on the
// connection then, and with it end the calls that have come since, the program's own included;
// and otherwise when the connection has been silent for long, see below.
//
// # Replicas
//
// [Driver.EvalReplicated] takes a dedicated connection, so that a WAIT does not
// hold up the calls that share one. On it, EVALSHA is sent, and EVAL after
// NOSCRIPT, and WAIT once the script has been answered. They are not pipelined:
// rueidis gives up all replies of a pipeline when one of them does not come, and
// the script's must not get lost because of WAIT. ConnWriteTimeout bounds the
// script's answer, and not that to WAIT, which has a second beyond its timeout to
// come. Then, or when the deadline of the context has passed, the
// connection is closed. A context that is cancelled before its deadline does not
// cut a wait short, and getting the connection is bounded by Dialer.Timeout
// alone. BlockingPoolSize is how many such calls each server can have at once;
// further ones wait.
//
// On a cluster, MOVED and ASK are followed to nodes that the client knows. If it
// does not know the node, the script is sent as Eval sends it, without WAIT,
// and 0 replicas are reported.
//
// # Listening
//
// rueidis subscribes on the connection that carries the commands, and so does a
// [driver.Listener]. Each channel that is wanted has a subscription with a goroutine
// of its own. The goroutine begins with the first Subscribe, calls Client.Receive
// again and again while the channel is wanted, and ends after Unsubscribe. A channel
// that is wanted again meanwhile is left to the same goroutine, so that the end of
// one subscription cannot overtake the start of the next. Close ends all of them and
// waits.
//
// The listener's mutex guards the subscriptions. It is never held during I/O, nor
// while the sink is called. The sink is called by the goroutine of the channel with
// messages, and by rueidis's reading goroutine with confirmations. So a message
// from before a lost connection may be delivered a little after the Subscribed
// event that follows it; one that comes later is never delivered ahead of it.
//
// When a subscription ends, UNSUBSCRIBE is sent on the connection that it was
// made on, and waited for, at most for one second; a connection that does not
// answer that long keeps the subscription until it is closed. The server then
// ends the subscription of every other Receive on that channel as well, such as
// another listener's on the same client, and they subscribe again.
//
// When Receive fails, it is called again after 50 ms at first and 1 s at most.
// No failure is reported: what there is to see is the Subscribed event that
// follows when it is over. rueidis itself notices a connection that has gone
// silent, by a PING after Dialer.KeepAlive (1 s by default) that is not answered
// within ConnWriteTimeout (10 s by default). Set ConnWriteTimeout to 2 s or so
// if eleven seconds are too long. If Dialer.KeepAlive or ConnWriteTimeout is
// negative, a silent connection is not noticed.
//
// With RESP2 (ClientOption.AlwaysRESP2, or a server before Redis 6) rueidis
// subscribes on a second connection, which it does not replace when it is lost,
// at least up to v1.0.79. Waiters then have to do without messages.
//
// While a server refuses writes with MISCONF, it refuses PING, too. rueidis sends
// a PING behind each UNSUBSCRIBE and, at least up to v1.0.79, panics at that
// answer: a program that stops waiting for a lock meanwhile crashes. Where snapshots may
// fail, set stop-writes-on-bgsave-error to no.
//
// Close does not interrupt a connection attempt that some other call waits for
// as well; that ends by Dialer.Timeout.
package rueidisdriver
