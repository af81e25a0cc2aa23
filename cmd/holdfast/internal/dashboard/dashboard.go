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
// anything must be a POST of JSON whose Origin is the Host, or a name that was given, since a proxy may replace Host. With a token,
// everything but the page's own files wants a session, which a cookie names; /metrics wants the token itself. /healthz wants nothing,
// not even a Host. X-Forwarded headers are ignored. Of requests, wrong tokens alone are logged: two lines a minute at most, with an address and
// a count; after ten in a minute each token has to wait for half a second.
//
// Nobody keeps others out by taking time. What is answered at once is bounded by slots, and a request gets one when it was read to its end,
// and gives it back before its answer is written. Connections are bounded, too: the one that has been still for the longest is closed.
//
// What comes from Redis is made harmless by package present, and the page puts it in as text: its policy forbids scripts and styles
// that are not files of its own, and the making of HTML from text altogether.
//
// # Goroutines
//
// [Run] owns the observer's and the server's, and returns when both have ended, and every handler with them. observer.mu
// guards what was seen, and is not held during calls of Redis. sessions.mu guards the sessions, guesses.mu the wrong tokens, and crowd.mu the
// connections. None is taken under another.
package dashboard

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// How long a connection may take for what.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second // longer than anything takes that is asked of Redis for a request
	idleTimeout   = time.Minute
	endTimeout    = 3 * time.Second
	longestUnlock = endTimeout - 500*time.Millisecond // the only thing that goes on when we are to end
	mostHeaders   = 32 << 10
	mostBody      = 32 << 10
	// mostAtOnce is how many requests are answered at once, of those that take work: not the page's own files, /healthz and the sign-in.
	mostAtOnce = 64
)

// Config says what to show, and to whom.
type Config struct {
	Redis redis.UniversalClient
	// Server describes it to people.
	Server string
	// Options say which locks to show.
	Options survey.Options
	// Interval is the pause between two looks.
	Interval time.Duration
	// Most is how many locks are kept.
	Most int
	// Token is what one has to know to see anything; empty: nothing.
	Token string
	// Hosts are the names by which it may be called, apart from addresses and localhost, in small letters; with a port if the page
	// has one in a browser and a proxy replaces Host.
	Hosts []string
	// BasePath is the path below which browsers find the page, such as /locks, whether a proxy strips it or not; empty: the root, or
	// what a proxy strips.
	BasePath string
	// AllowUnlock allows to take locks away.
	AllowUnlock bool
	// Explain says why Redis cannot be used, in one line that holds no credential.
	Explain func(error) string
	// Log writes one line for whoever has started it.
	Log func(format string, args ...any)
}

// Run serves the page until ctx ends, and returns ctx's error, or that of the server. It closes the listener.
func Run(ctx context.Context, listener net.Listener, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := newObserver(cfg)
	server := newServer(ctx, o)
	var owned sync.WaitGroup
	owned.Go(func() { o.run(ctx) })
	ended := make(chan error, 1)
	owned.Go(func() { ended <- server.Serve(listener) })
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	stopping, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	if left := server.Shutdown(stopping); left != nil {
		err = errors.Join(err, server.Close())
	}
	owned.Wait()
	return err
}

func newServer(ctx context.Context, o *observer) *http.Server {
	return &http.Server{
		Handler:           newHandler(o),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: mostHeaders,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnState:      newCrowd().note, DisableGeneralOptionsHandler: true,
		ErrorLog: log.New(lines(o.Log), "", 0),
	}
}

// lines writes what the server has to say, which may have come from anywhere.
type lines func(format string, args ...any)

// Write implements [io.Writer].
func (l lines) Write(text []byte) (int, error) {
	l("%s", present.Safe(strings.TrimSpace(string(text))))
	return len(text), nil
}
