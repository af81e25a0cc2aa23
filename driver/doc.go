// Package driver is the port between holdfast and a Redis client.
//
// An adapter wraps a client that the program already has and promises four
// things: to run a script once and to say honestly whether it may have run, to
// have the replicas acknowledge it on request, to say which publish command the
// server's topology calls for, and to keep a set of channels subscribed for as
// long as it is wanted. Package driverkit has what adapters share, and package drivertest tests
// an adapter.
//
// # What an adapter must promise
//
// Eval sends the call to the primary that owns the keys, and sends it once. The
// client's own retries are switched off for it, because holdfast itself decides
// whether a call is repeated. Two repetitions are allowed, since both happen only
// after the server has said that it did nothing: EVAL after NOSCRIPT, and the same
// call to another node after MOVED or ASK. Eval never returns a reply that belongs
// to another call. It returns as soon as its context ends, because it runs on the
// goroutine of somebody who has given up then. Half a second later will do where the server
// has fallen silent in that instant, since to leave at once a call needs a goroutine of its own,
// and to wake that costs as much as a near server's answer. What comes of the call after that an adapter tells Call.Late, if it can: the sooner holdfast knows, the
// sooner it takes back what has come too late. EvalReplicated may return later.
//
// An error from Eval is an [*Error]. MayHaveRun is false only when it is
// certain that the script did not run; a lost reply is never certain. Transient is false if the error cannot
// pass, such as that of a client that the program has closed.
//
// A connection that is dead, or leads to the wrong server, costs one call, because callers repeat a failed call. A call that was
// sent and not answered, or was refused with READONLY, LOADING or MASTERDOWN, puts all connections to that server in doubt: idle
// ones may be as dead. Time alone never ends a doubt. A connection in doubt carries calls again when it has answered since and
// leads to a primary; until then calls use a new connection, or one that has answered since. If there is none, they may use any.
// An adapter that probes a connection bounds the probe, and starts none without a call. As long as nothing has failed, an adapter
// makes no connection for this, and sends no command.
//
// EvalReplicated promises all that Eval does, and sends WAIT behind the script,
// to the same server on the same connection, because Redis counts the replicas
// that have what that connection has seen. Eval sends none behind the script. A script that
// is sent again, after NOSCRIPT, MOVED or ASK, is followed by a WAIT of its own;
// the reply to a WAIT behind a script that did not run is dropped. Once the script
// has been answered the call is a success: whatever happens to WAIT then, the reply
// is returned, with 0 acknowledgements if their number is not known. The client's
// read timeout does not cut WAIT short, and the deadline of the context does. A call
// that waits for replicas does not hold up other calls.
//
// A Listener keeps a set of wanted subscriptions. Subscribe and Unsubscribe change
// the set and return at once. The adapter's own goroutines bring the server in line
// with it, and again after every lost connection. Each confirmation by the server is
// delivered as a Subscribed event, the first one and every later one, since a
// message may have been lost in between. Events of one channel arrive in the
// server's order. The sink must not block.
//
// # Goroutines
//
// Eval and EvalReplicated start none that outlives the client's own timeouts. A
// Listener owns the goroutines it starts; Close stops them and waits until they are
// gone. The wrapped client is never closed by an adapter.
package driver
