package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// secretWord stands in every credential of [TestNoCredentialIsShown], and nowhere else.
const secretWord = "s3cr3tW0rd"

// spoilers are what makes a URL malformed, or a parser lose its way, in a credential or around it.
var spoilers = []string{
	"", "", "", " ", "\n", "\r\n", "\t", "\x00", "%", "%zz", "%2", "%40", "%2F", "%0a", "/", "//", "?", "#", ":", "::", "@", "@@", ",", "[", "]", "[::1]",
	"&", "=", ";", "\\", "'", "\"", "`", "$", "{", "}", "\xff", "é", "\u202e", "\x1b[2J", "0", "6379", "://",
}

// malformedURL is a URL with a credential in it, in one of the places where people put them.
func malformedURL(r *rand.Rand) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	spoiled := func() string { return pick(spoilers...) }
	secret := func() string { // percent-encoded or not, with something before and behind
		word := spoiled() + secretWord + spoiled()
		switch r.IntN(4) {
		case 0:
			return url.QueryEscape(word)
		case 1:
			return url.PathEscape(word)
		}
		return word
	}
	scheme := pick("redis", "rediss", "valkey", "valkeys", "redis+sentinel", "rediss+sentinel", "unix", "http", "", "redis ", "REDIS")
	separator := pick("://", "://", "://", "://", ":/", ":", "//", "")
	host := pick("h", "h:1", "h:0", "h:x", "h h", "[::1]", "[::1]:1", "::1", "a,b:2", "a,,b", "", "h:99999", "127.0.0.1:1", "/run/redis.sock", "h%")
	path := pick("", "", "/", "/0", "/x", "/m", "/m/1", "/m/x", "//", "/1/2", "?", "?db=1", "?cluster=true", "?skip_verify=true", "?x", "#f")
	switch r.IntN(8) {
	case 0: // the user
		return scheme + separator + secret() + "@" + host + path
	case 1: // both
		return scheme + separator + secret() + ":" + secret() + "@" + host + path
	case 2: // a parameter
		return scheme + separator + host + pick("", "/", "/0", "/m") + "?" + pick("password", "db", "cluster", "skip_verify", "auth", "", "p%") + pick("=", "") + secret()
	case 3: // a fragment
		return scheme + separator + host + path + "#" + secret()
	case 4: // twice
		return scheme + separator + "u:" + secret() + "@" + secret() + "@" + host + path
	default: // the password
		return scheme + separator + pick("", "u", "u%40", "u u", spoiled()) + ":" + secret() + "@" + host + path
	}
}

// TestNoCredentialIsShown has 100,000 URLs with a credential in them, most of them malformed: neither the error, nor what the tool calls the
// server, nor an error of a connection that is wrapped a few times shows it.
func TestNoCredentialIsShown(t *testing.T) {
	t.Parallel()
	const urls = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	understood := 0
	log := new(clientLog)
	redis.SetLogger(log)
	for range urls {
		text := malformedURL(r)
		target, err := Options{URL: text, InsecureSkipVerify: r.IntN(2) == 0}.Resolve()
		var shown []string
		if err != nil {
			shown = append(shown, err.Error(), fmt.Sprintf("%+v %#v", err, err), Explain(fmt.Errorf("while looking: %w", err)).Error())
		} else {
			understood++
			shown = append(shown, target.String(), strings.Join(target.Hosts(), " "), target.Master())
			if understood%50 == 0 { // a client is made for it, which takes its time
				shown = append(shown, afterFailure(t, target)...)
			}
		}
		shown = append(shown, log.take()...)
		for _, line := range shown {
			if strings.Contains(line, secretWord) {
				t.Fatalf("%q shows %q", text, line)
			}
		}
	}
	t.Logf("%d of %d were understood", understood, urls)
	if understood < urls/100 || understood > urls/2 {
		t.Errorf("%d of %d were understood; it should be some, and most should not", understood, urls)
	}
}

// clientLog is what the Redis client writes to its log, which the tool switches off.
type clientLog struct {
	mu    sync.Mutex
	lines []string
}

// Printf implements the client's interface of a log.
func (l *clientLog) Printf(_ context.Context, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *clientLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.lines
	l.lines = nil
	return taken
}

// afterFailure are the texts of a connection to it that fails, as they are shown to people.
func afterFailure(t *testing.T, target *Target) (texts []string) {
	t.Helper()
	refused := func(_ context.Context, network, addr string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("refused: " + addr)}
	}
	var err error
	if target.Master() == "" { // a client of sentinels asks each of them, for long
		rdb := target.Node(target.Hosts()[0], refused)
		err = rdb.Ping(t.Context()).Err()
		_ = rdb.Close()
	} else {
		rdb := target.Sentinel(target.Hosts()[0], refused)
		err = rdb.Ping(t.Context()).Err()
		_ = rdb.Close()
	}
	wrapped := fmt.Errorf("while connecting: %w", &driver.Error{Err: fmt.Errorf("again: %w", err), MayHaveRun: true})
	return append(texts, err.Error(), wrapped.Error(), Explain(wrapped).Error(), Explain(errors.Join(err, redis.ErrClosed)).Error())
}

// TestLongErrorsAreCut: a server that says megabytes does not have them printed.
func TestLongErrorsAreCut(t *testing.T) {
	t.Parallel()
	long := errors.New("WRONGPASS " + strings.Repeat("é", 1<<20))
	for _, err := range []error{Explain(long), ExplainSentinel(long), Explain(errors.New("ERR " + strings.Repeat("x", 1<<20)))} {
		if text := err.Error(); len(text) > 2*mostSaid || !utf8.ValidString(text) || !strings.Contains(text, "…") {
			t.Errorf("%d bytes: %.100q", len(text), text)
		}
	}
	if !errors.Is(Explain(long), long) {
		t.Error("it is not wrapped")
	}
}
