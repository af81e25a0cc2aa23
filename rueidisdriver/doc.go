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
// Calls to a single server, or behind Sentinel, travel together. A call that comes while others
// are on their way waits for them, and leaves with those that have come meanwhile: there are
// two workers, up to eight if the way is long, and 128 calls at most go together. A worker whose
// calls have all been given up is replaced. Workers are goroutines that end when nothing came for
// 50 ms. On a cluster a call has a goroutine of its own, since the client does not show which
// node a slot is on, and a node that does not answer must not hold up the calls to others. At most
// 512 calls are unanswered there at once, those that were given up included; further ones wait for
// a place, or for the end of their context. Calls use the connections that carry the program's
// own commands: dedicated ones are the program's to use up.
//
// A context that ends makes Eval return, whatever the server does. A call that has not been sent by
// then is not. The others go on, and driver.Call.Late is told what came of them, when the server
// answers or rueidis gives the connection up. It does so at the deadline of the context, the
// latest of those that went together, if nothing else was under way on the connection then, and
// with it end the calls that have come since, the program's own included; and otherwise when the
// connection has been silent for long: rueidis sends a PING after Dialer.KeepAlive (1 s by default),
// and gives up after ConnWriteTimeout (10 s by default). Set ConnWriteTimeout to 2 s or so if eleven
// seconds are too long. If either is negative, silence is not noticed.
//
// # Connections
//
// The client's own connections, which the program's commands share, are in one of these states:
//
//   - well: calls use them.
//   - in doubt: a call was sent and not answered, or was refused with READONLY, LOADING or MASTERDOWN. rueidis keeps such a
//     connection: for 11 s by default if it is silent, and for ever if it leads to a replica. Before the next call is sent, a search
//     looks for a spare connection, and calls use that. A spare connection in doubt is closed, and another one is looked for.
//   - proven: each probe of a proof was answered within a second, by a primary. They are well again, and the spare connection is
//     closed when the calls on it have ended.
//   - unnamed, behind Sentinel: they are proven, but no Sentinel has named their server as the primary since the search began. Calls
//     use them, and the doubt stays.
//
// A doubt ends with an answer, never because time has passed. A proof begins with each search, and once a second while calls use the
// spare connection. A probe is a script without effect, which a replica refuses; a server before Redis 7.0 is asked with WAIT for no
// replica. rueidis sends each probe on one of its connections by chance, so a proof takes 64. The first one goes alone. A probe
// that fails, that a replica refuses, or whose answer is late ends the proof, and the doubt stays. If the client uses another
// server, such as after a failover, its connections there are new, and well.
//
// A spare connection that no call has used for a second is closed, and the doubt stays: the next call begins another search. If a
// search finds none, calls use the client's own connections for a second, since nothing is known to be better, and the doubt stays too.
//
// A search takes connections out of the blocking pool, idle ones first, until one answers a probe and leads to a primary. A hundred
// dead ones take a fifth of a second. New ones are made one after another, and the search ends when four of them led to a replica, or
// after a second. Connections that it has tried and not chosen are closed. So BlockingPoolSize must leave room for one.
//
// Behind Sentinel, a search also asks every Sentinel of InitAddress, over new connections, which server is the primary. rueidis
// learns of a failover from its connection to one Sentinel, and does not notice that this connection has fallen silent, unless
// Sentinel.Dialer.KeepAlive is set. If a Sentinel answers within half a second, a new client of that primary serves as the spare
// connection. The adapter gives it the options of the program's client, which it reads where rueidis keeps them; it cannot do so if
// the program has wrapped the client. A listener that connects at that time also uses the new client, which is closed as a spare
// connection is, or with the listener's connection. While the new client and the program's client use different servers, the
// connections of the program's client are not proven: a former primary stays a primary for about ten seconds after an ordered
// failover. If no Sentinel answers in time, they are asked again, once a second while there are calls, and no call waits for that;
// until one answers, a proof leaves the connections unnamed. If the program has wrapped the client, a proof alone makes them well. If
// SendToReplicas is set, the other servers that the client uses must also show that they are replicas.
// The program's own commands go where rueidis sends them, so set Sentinel.Dialer.KeepAlive to a second and ConnWriteTimeout to two.
//
// On a cluster, slots are in doubt in the same way, and each node has a separate spare connection. A proof of a slot sends 16 probes
// to the node to which the client would send calls for the slot. A call for a slot in doubt starts a proof of that slot. Any other
// call starts one of some slot in doubt, because there may be no more calls for that. Each happens once a second at most. To find
// the node of a slot, the adapter asks a node for CLUSTER SLOTS, and again after a refusal or a search that has found nothing, but
// once a second at most. If the node is not known, calls use the client's own connections.
//
// These goroutines are owned by the node that they ask; each is started by a call, so none is started once the
// calls have ended:
//
//   - the search, one a node. It ends after a second, or when a dial does, or when it gets a place in the pool: the program
//     may have them all.
//   - the question to each Sentinel. It ends with the answer, or by timeouts of a second each. Until all have ended, the Sentinels
//     are not asked again.
//   - the proof, of the only server or of a slot. It ends after a second.
//   - the keeper of each spare connection. It waits for the proof, sets a timer for the next one, and closes the connection. It
//     ends with the proof; the timer fires for the last time two seconds after the last call. It also asks the Sentinels again.
//   - the verifier of connections that are unnamed. A call starts it, once a second at most. It asks the Sentinels, and ends after half
//     a second; or it becomes the keeper of the new client.
//
// If the program closes the client, the probes fail, and the goroutines end as above.
//
// The node's spare connection is an atomic pointer, and a call reads nothing else while all is well. The node's mutex is held
// during a search. Doubt.mu, which comes first, is held during a search that follows a failed call. The mutex of the slots in
// doubt is never held during I/O.
//
// If the server closes a connection, the adapter opens another one to each server that the client uses, once in half a second at
// most, and waits for an error reply: a server that has as many connections as its maxclients allows sends one and closes the
// connection, and rueidis loses that reply. The error of the call then contains it. The adapter does not use the program's dial
// function: where servers can be reached only by that, the error does not contain the reply.
//
// A client that the program has closed fails calls for good after a second: rueidis says the same
// of connections that it closes when servers change their roles. A connection that rueidis is making when it is
// closed stays, and then the client works on.
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
// A [driver.Listener] has connections of its own, from the client's blocking pool: one for a single
// server, behind Sentinel, and on a cluster with PUBLISH; one for each primary of a cluster with
// SPUBLISH. Each stays taken until it is lost or the listener is closed, so BlockingPoolSize has to
// be larger by one for each listener. A channel costs no goroutine, and about 80 bytes; a
// connection costs what the client's buffers take, 1 MB by default.
//
// A subscription is in one of these states:
//
//   - unassigned: wanted, and to be assigned to a connection, at once or after a pause.
//   - queued: assigned, and the connection is to send SUBSCRIBE if the channel is wanted by then,
//     else UNSUBSCRIBE. Whatever has changed several times meanwhile is sent once.
//   - requested: sent and not answered yet. If Subscribe or Unsubscribe changes what is wanted, the
//     subscription is queued again.
//   - confirmed: the server has confirmed what was requested. One that is not wanted is forgotten
//     then.
//
// A subscription that the server refuses, or ends by itself because the slot has moved, is
// unassigned again; so is all that was wanted on a connection that is lost. The pause is 50 ms at
// first and 1 s at most, and counted anew after a confirmation. No failure is reported: what there
// is to see is the Subscribed event that follows when it is over.
//
// The listener's mutex guards the subscriptions and the queues. It is never held during I/O, nor
// while the sink is called. These goroutines are owned by the listener:
//
//   - the assigner, one a listener. It asks for the publish command and, on a cluster with
//     SPUBLISH, who owns which slot: CLUSTER SLOTS, or CLUSTER SHARDS to those who may not use
//     that. It asks again after a slot has moved or a connection was lost. A primary that the
//     client does not know yet is not subscribed to; the client learns of it when a script is
//     redirected there.
//   - the writer of each connection. It dials, and sends what is queued, up to 500 requests at a
//     time, and the next when these are answered. Each channel has a command of its own: one that
//     is refused does not spoil the others, and they may lie in different slots.
//   - the watcher of each connection. It sends a PING when nothing came for 1.5 s. If that is not
//     answered within another 1.5 s the connection is lost: after 3 to 4.5 s of silence. It is
//     lost, too, when the client uses another server, such as after a failover.
//
// The sink is called by rueidis's reading goroutine, one for each connection. A connection that is
// lost delivers nothing from then on, and its subscriptions are not assigned before what is being
// delivered has been. So the events of a channel come in the server's order.
//
// A connection that ends is closed and never goes back to the pool, so nothing is left subscribed.
// rueidis waits for a silent server for a second when it closes a connection, unless a blocking
// command is unanswered. So an ECHO that counts as one is sent first, and not waited for longer
// than 0.3 s.
//
// Close ends everything. Dialling ends with it, but not a TLS handshake or a HELLO that the server
// does not answer: Close waits for 0.8 s at most, and such a goroutine ends by Dialer.Timeout,
// without an event.
//
// With RESP2 (ClientOption.AlwaysRESP2, or a server before Redis 6) rueidis makes two connections
// of each, one of which is subscribed; PING goes to the other. If only the subscribed one falls
// silent, rueidis itself notices, after Dialer.KeepAlive and ConnWriteTimeout: 11 s by default.
//
// rueidis sends a PING behind each UNSUBSCRIBE and, at least up to v1.0.79, panics if that is
// refused with anything but LOADING, BUSY or a missing right, such as with MISCONF, while snapshots
// fail; and if UNSUBSCRIBE is refused as well, with BUSY, while a script takes too long. So the
// writer asks with a PING of its own right before. While it is refused, what is not wanted stays
// subscribed and is not delivered. If writes are refused from just then on, the connection is given
// up in a way that avoids the panic, provided that the user may use ECHO. The panic remains if the server
// becomes busy just then, or if the process then stands still for seconds, so that rueidis sends one more PING.
package rueidisdriver
