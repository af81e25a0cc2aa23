// Package goredisdriver lets holdfast use a go-redis client that the program
// already has: a *redis.Client, a failover client, a *redis.ClusterClient, or a
// wrapper around one of them.
//
//	client, err := holdfast.New(goredisdriver.New(rdb))
//
// # Scripts
//
// [Driver.Eval] sends EVALSHA, and EVAL after NOSCRIPT. go-redis repeats a
// command whose reply was lost, up to three times by default. Here it does not:
// each call is a command that forbids it (NoRetry), whatever the client's
// settings are, so no option of the client needs to be changed. What go-redis
// still repeats on a cluster are calls that a server has refused with MOVED or ASK.
//
// A call that comes while none is on its way to the same node is made by its caller, if the last
// one was answered within 100 ms, and the client is no wrapper. One that
// comes while others are on their way waits for them, and leaves in one pipeline with those that have come meanwhile: there are two workers a node,
// and up to eight if the way there is long, each with one connection at a time, and 128 calls
// at most in a pipeline. A worker whose calls have all been given up is replaced. A program's
// hooks on the client see what workers send: a call alone as a command, and otherwise as part of a pipeline; on
// a cluster, those of the node's client see it. They do not see a call that its caller makes, as most are. A call that a node of a cluster has refused
// with MOVED or ASK is sent again alone. Workers are goroutines that end when nothing came
// for 50 ms.
//
// A context that ends makes Eval return, whatever the server does, but for a caller that makes
// its call itself: it waits for the reply until the deadline, half a second at most, and then its connection
// is closed. This happens where a server falls silent that has answered just before, to one call.
// If the connection has to be made anew just then, each step of that may take as long.
// A call that has not been sent by then is not. The others go on: the client's ReadTimeout bounds them, and
// driver.Call.Late is told what came of them. After a connection has failed, a cluster
// client is told to look up its nodes again, which it does in the background.
//
// # Connections
//
// To each node, the connections of the pool are in one of these states:
//
//   - trusted: a call uses any of them, as go-redis chooses.
//   - in doubt: a call was sent and not answered, or was refused with READONLY, LOADING or MASTERDOWN,
//     or a connection was dead before a call was sent on it.
//     Before the next call is sent, the idle connections are closed, the program's included, and
//     the pool makes new ones. Then they are trusted again.
//
// So connections that a firewall has forgotten cost one call, however many there are. The commands that close
// them are not written, and no hook sees them.
//
// If the server closes a connection, the adapter opens another one to each server that the client uses, once in half a second at
// most, and waits for an error reply: a server that has as many connections as its maxclients allows sends one and closes the
// connection, and go-redis often loses that reply. The error of the call then contains it.
//
// A call that finds all PoolSize connections taken, by the program's own blocking commands perhaps,
// ends a little before its caller leaves, with an error that says so and that nothing was sent. A
// program that blocks on Redis for long gives holdfast a client of its own, which is cheap: it needs
// two connections, and one for messages.
//
// A failover client asks a Sentinel before it makes a connection, with its own timeouts. If the one that it uses
// is silent, it asks that again and again, for ReadTimeout each time, before it asks the others: 13 s
// were measured with the default settings. The error says so. With
//
//	redis.FailoverOptions{MaxRetries: -1, DialTimeout: 2 * time.Second, ReadTimeout: time.Second, …}
//
// it took 2 to 4 s. DialTimeout must be the longer one: else it may end before the client sees that the Sentinel is silent, and
// that one is asked for ever. The client then repeats no command of the program's either.
//
// A client that the program has closed fails calls for good, a cluster's after a second: go-redis
// closes the clients of nodes that have gone, too.
//
// # Replicas
//
// [Driver.EvalReplicated] sends EVALSHA and WAIT in one pipeline, hence on one
// connection, and after NOSCRIPT another pipeline with EVAL and WAIT. If replicas
// are late just then, the first WAIT takes up to the timeout as well. Each call
// keeps a connection of the pool to itself until its WAIT is answered, so a
// program that makes many calls at once needs a PoolSize of as many. The pipeline
// is sent through [redis.Client.WithTimeout], on the same pool, so that the
// ReadTimeout begins to count only after WAIT's own timeout; a wrapper around the
// client that lacks this method is left with its own ReadTimeout. WAIT is not given
// more time than the context has left, so the context's deadline is kept
// without ContextTimeoutEnabled, too, while the server answers.
//
// On a cluster the pipeline goes through the client of the node that owns the slot,
// and only the hooks of that client see it. After MOVED or ASK it is sent to the
// named node, on a connection made for this one call, which no hooks see. READONLY
// is left to the caller.
//
// # Listening
//
// A [driver.Listener] has a subscription for each channel that is wanted, a
// connection for each node that is subscribed to, and for each connection the
// requests to subscribe and unsubscribe that are not sent or not answered yet. One
// mutex, the listener's, guards all of them. It is never held during I/O, nor while
// the sink is called.
//
// A call refused with MOVED or ASK has a goroutine that follows it, and so has the first
// search for a cluster's nodes. Both end by the client's timeouts; nobody waits for them.
//
// These goroutines are owned by the listener, and Close waits for them:
//
//   - the assigner, one a listener. It assigns every subscription without a
//     connection to one: on a cluster with sharded pub/sub to the primary of the
//     channel's slot, and everywhere else to one node for all.
//   - the writer of each connection. It dials, sends the requests, and a PING when
//     nothing came for a while, and closes the connection in the end.
//   - the reader of each connection. It waits for messages and calls the sink. So
//     the sink is called by one goroutine a node.
//
// A connection that fails in any way, or that leaves a PING unanswered for 1.5 s,
// is closed; so a silent connection is given up after 3 to 4.5 s. Its subscriptions
// go back to the assigner, which looks up the node again, after 50 ms at first and
// 1 s at most. So does a single subscription that a server refuses (no permission,
// or the slot has moved) or ends by itself. No failure is reported: what there is to
// see is the Subscribed event that follows when it is over.
//
// PubSub.Channel is not used, since it does not notice that pongs stay away.
//
// Close interrupts whatever waits for a message or for a TCP connection. It
// cannot interrupt go-redis during a TLS handshake or a HELLO that the server
// does not answer; these end by the client's DialTimeout and ReadTimeout.
package goredisdriver
