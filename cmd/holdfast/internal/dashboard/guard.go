package dashboard

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
)

const (
	cookieName = "holdfast_dashboard"
	// sessionFor is for how long a session is good.
	sessionFor   = 12 * time.Hour
	mostSessions = 1000
	sessionBytes = 32
	// sameOrigin is what browsers say of a page and its own server.
	sameOrigin = "same-origin"
)

// policy lets the page use its own files and nothing else, and make no HTML from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// protect sets the headers of all answers.
func protect(header http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
		"Cross-Origin-Resource-Policy": sameOrigin,
		"Cross-Origin-Opener-Policy":   sameOrigin,
	} {
		header.Set(name, value)
	}
}

// guard refuses requests that do not come from the page, or not from somebody who may use it.
type guard struct {
	base     string    // what a request's path may begin with
	hosts    []string  // as Config.Hosts
	sessions *sessions // nil: anybody may
	next     http.Handler
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	r = g.withoutBase(r)
	if status, why := g.refusal(r); why != "" {
		refuse(w, status, why)
		return
	}
	if r.Method == http.MethodPost { // whole, before it gets a slot
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
		if err != nil {
			refuse(w, http.StatusBadRequest, notUnderstood)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	g.next.ServeHTTP(w, r)
}

// withoutBase takes the base path off a request's path, unless a proxy has done so.
func (g *guard) withoutBase(r *http.Request) *http.Request {
	rest, found := strings.CutPrefix(r.URL.Path, g.base)
	if g.base == "" || !found || rest != "" && rest[0] != '/' {
		return r
	}
	changed := *r
	changed.URL = &url.URL{Path: cmp.Or(rest, "/"), RawQuery: r.URL.RawQuery}
	return &changed
}

// refusal returns the status and the reason of a refusal; without a reason the request is let through. /healthz is exempt from the
// check of Host, because health probes send any Host, or none.
func (g *guard) refusal(r *http.Request) (status int, why string) {
	if r.URL.Path != healthPath && !g.knows(r.Host) {
		return http.StatusMisdirectedRequest, unknownHost(r.Host)
	}
	if foreign(r) {
		return http.StatusForbidden, "another site may not use this dashboard"
	}
	if path.Clean(r.URL.Path) != r.URL.Path { // the mux would redirect it, to a path without the base
		return http.StatusNotFound, noPage
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if why := g.notThePage(r); why != "" {
			return http.StatusForbidden, why
		}
	}
	if g.closed(r) {
		return http.StatusUnauthorized, "the token is wanted"
	}
	return 0, ""
}

// knows reports whether a Host can be nobody else's: an address needs no DNS, and localhost is never asked for.
func (g *guard) knows(host string) bool {
	name := bareName(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.ContainsFunc(g.hosts, func(known string) bool { return bareName(known) == name })
}

// bareName is a Host in small letters, without its port, brackets and the dot at its end.
func bareName(host string) string {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// unknownHost returns the reason for refusing a Host, and the remedy.
func unknownHost(host string) string {
	if host == "" {
		return "the request has no Host; only " + healthPath + " is answered without one that is an address, localhost or a name that --host gives"
	}
	name := cut(present.Safe(bareName(host)))
	return fmt.Sprintf("the request has the Host %s, which is not a name of this dashboard; if it is to be one, start the dashboard with --host %[1]s", name)
}

// foreign reports whether a browser says that another site has made it ask. To follow a link to the page is fine.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", sameOrigin, "none":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// notThePage returns why a request that changes something may not come from the dashboard's page; empty if it does come from there.
// Another page can neither forge its Origin nor send JSON without a preflight. Origin must match Host or a name given by --host,
// because a proxy may replace Host.
func (g *guard) notThePage(r *http.Request) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Method != http.MethodPost {
		return "what changes anything must be JSON that comes from the dashboard's own page"
	}
	given := r.Header.Get("Origin")
	if given == "" {
		return "the request has no Origin, so it may not come from the dashboard's own page; a proxy must pass Origin on"
	}
	origin, err := url.Parse(given)
	port := ""
	if err == nil {
		port = map[string]string{"http": ":80", "https": ":443"}[origin.Scheme]
	}
	if port == "" || origin.Host == "" {
		return "the request's Origin is not the dashboard's own page"
	}
	from := withoutPort(origin.Host, port)
	if from == withoutPort(r.Host, port) || slices.ContainsFunc(g.hosts, func(known string) bool { return from == withoutPort(known, port) }) {
		return ""
	}
	return fmt.Sprintf("the browser's page is at %s, but the request has the Host %s, so it may not come from the dashboard's own page; "+
		"if that is the page's address, have the proxy pass Host on, or start the dashboard with --host %s",
		cut(present.Safe(given)), cut(present.Safe(r.Host)), cut(present.Safe(from)))
}

// withoutPort is a Host in small letters, without the port if that is the scheme's own.
func withoutPort(host, port string) string { return strings.TrimSuffix(strings.ToLower(host), port) }

// closed reports whether a request wants a session and has none. Programs that read the metrics send the token itself.
func (g *guard) closed(r *http.Request) bool {
	if g.sessions == nil || r.URL.Path == signInPath {
		return false
	}
	if r.URL.Path == metricsPath {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return !ok || !g.sessions.opens(r, token)
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		return false
	}
	cookie, err := r.Cookie(cookieName)
	return err != nil || !g.sessions.has(cookie.Value)
}

// digest is what secrets are compared by: of one length, so that the time it takes tells nothing.
type digest [sha256.Size]byte

// sessions are those who have given the token.
type sessions struct {
	token   digest
	guesses *guesses

	mu   sync.Mutex
	open map[digest]time.Time // until when
}

func newSessions(token string, guesses *guesses) *sessions {
	return &sessions{token: sha256.Sum256([]byte(token)), guesses: guesses, open: map[digest]time.Time{}}
}

// opens reports whether that is the token, which has come with a request. After many wrong ones it takes a while.
func (s *sessions) opens(r *http.Request, token string) bool {
	pause := time.NewTimer(s.guesses.delay(time.Now()))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-r.Context().Done():
		return false
	}
	given := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(given[:], s.token[:]) == 1 {
		return true
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a listener that is no TCP's
		from = r.RemoteAddr
	}
	s.guesses.add(time.Now(), from)
	return false
}

// begin opens a session for who knows the token.
func (s *sessions) begin(r *http.Request, token string) (secret string, ok bool) {
	if !s.opens(r, token) {
		return "", false
	}
	random := make([]byte, sessionBytes)
	_, _ = rand.Read(random) // it never fails
	secret = base64.RawURLEncoding.EncodeToString(random)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, until := range s.open {
		if now.After(until) || len(s.open) >= mostSessions {
			delete(s.open, key)
		}
	}
	s.open[sha256.Sum256([]byte(secret))] = now.Add(sessionFor)
	return secret, true
}

// has reports whether there is such a session. It is found by its digest, so the time that it takes tells nothing of it.
func (s *sessions) has(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, found := s.open[sha256.Sum256([]byte(secret))]
	return found && time.Now().Before(until)
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(secret)))
}

// cookie hands a session to the browser, or takes it back if it is empty. Scripts do not see it, and other sites cannot have it sent.
// A page that has come by way of a proxy with TLS has it sent by that way alone. It has no Path, so browsers send it only to paths in
// the directory of the request: to /api/, below whatever path the proxy shows the page.
func cookie(r *http.Request, secret string) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure would keep it from plain HTTP on loopback
		Name: cookieName, Value: secret, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionFor.Seconds()),
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}
