package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
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
	hosts    []string
	sessions *sessions // nil: anybody may
	slots    chan struct{}
	next     http.Handler
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		refuse(w, http.StatusServiceUnavailable, "too many ask at once; try again")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	switch {
	case !g.knows(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "this dashboard does not go by that name; the flag --host gives it one")
	case foreign(r):
		refuse(w, http.StatusForbidden, "another site may not use this dashboard")
	case r.Method != http.MethodGet && r.Method != http.MethodHead && !ofThePage(r):
		refuse(w, http.StatusForbidden, "what changes anything must be JSON that comes from the dashboard's own page")
	case g.closed(r):
		refuse(w, http.StatusUnauthorized, "the token is wanted")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// knows reports whether a Host can be nobody else's: an address needs no DNS, and localhost is never asked for.
func (g *guard) knows(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.Contains(g.hosts, strings.TrimSuffix(name, "."))
}

// foreign reports whether a browser says that another site has made it ask. To follow a link to the page is fine.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", sameOrigin, "none":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// ofThePage reports whether a request that changes something is the page's: no other can send its origin, or JSON without being asked
// first.
func ofThePage(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Method != http.MethodPost {
		return false
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && (origin.Scheme == "http" || origin.Scheme == "https") && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// closed reports whether a request wants a session and has none. Programs that read the metrics send the token itself.
func (g *guard) closed(r *http.Request) bool {
	if g.sessions == nil || r.URL.Path == signInPath {
		return false
	}
	if r.URL.Path == metricsPath {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return !ok || !g.sessions.opens(token)
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
	token digest

	mu   sync.Mutex
	open map[digest]time.Time // until when
}

func newSessions(token string) *sessions {
	return &sessions{token: sha256.Sum256([]byte(token)), open: map[digest]time.Time{}}
}

// opens reports whether that is the token.
func (s *sessions) opens(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], s.token[:]) == 1
}

// begin opens a session for who knows the token.
func (s *sessions) begin(token string) (secret string, ok bool) {
	if !s.opens(token) {
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
// A page that has come by way of a proxy with TLS has it sent by that way alone.
func cookie(r *http.Request, secret string) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure would keep it from plain HTTP on loopback
		Name: cookieName, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionFor.Seconds()),
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}
