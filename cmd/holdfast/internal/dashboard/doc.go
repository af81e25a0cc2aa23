// Package dashboard serves a page that shows the locks in Redis, as they change, and what has been seen of them since
// it was started.
//
// # What is read
//
// One goroutine, the observer's, goes through Redis as holdfast ls does, again and again and never twice at once, however many
// look at the page. Between two looks it pauses for the interval, and for four times as long as the last look took if that
// is longer: so it keeps Redis busy for a fifth of the time at most. A look ends when it has found as many locks as are kept; the page
// says so. The page of one lock has it read by itself, once an interval at most, however many look at it.
//
// # What is remembered
//
// history keeps what the looks have shown, of so many locks, so many holds and so many moments each; the oldest goes first. All its
// times are of Redis's clock. It knows of a hold when it was seen first and last, and by when it was gone. What lies
// between two looks it has not seen: a hold may have begun and ended there. How a hold has ended follows from its lease alone; see ending.
//
// # Who may ask
//
// Every request passes guard: the Host must be an address, localhost or a name that was given, since otherwise a page
// of somebody else's could make its own name mean this address; what other sites make a browser ask for is refused; what changes
// anything must be a POST of JSON whose Origin is this page. With a token, everything but the page's own files wants a session, which
// who knows the token gets as a cookie; /metrics wants the token itself, and /healthz nothing. Nothing is logged of a request.
//
// What comes from Redis is made harmless by package present, and the page puts it in as text: its policy forbids scripts and styles
// that are not files of its own, and the making of HTML from text altogether.
//
// # Goroutines
//
// [Run] owns the observer's and the server's, and returns when both have ended, and every handler with them. observer.mu
// guards what was seen, and is not held during calls of Redis. sessions.mu guards the sessions. Neither is taken under the other.
package dashboard
