package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestAddresses has names stand in addresses as people write them, with whatever else they hold percent-encoded.
func TestAddresses(t *testing.T) {
	t.Parallel()
	w := served(t)
	for name, id := range map[string]string{
		"orders:42": "orders:42", "a/b c": "a%2Fb%20c", "100%": "100%25", "50%25": "50%2525", "\"<#?&+": "%22%3C%23%3F&+", "\xff": "%FF", "ü": "%C3%BC", "\n": "%0A",
	} {
		if got := idOf(name); got != id {
			t.Errorf("%q: %s, want %s", name, got, id)
		}
		w.holds(name, newPerson(1, "billing", "web-3").owner(), time.Minute)
		_, text := w.answers(http.MethodGet, "/api/lock?id="+url.QueryEscape(id), nil, nil)
		if !strings.Contains(text, `"holder_count":1`) {
			t.Errorf("%q: %s", name, text)
		}
	}
}

// reply is what the dashboard answers, apart from its text.
type reply struct {
	StatusCode int
	Header     http.Header
	cookies    []*http.Cookie
}

// ask makes a request as a browser that is at the page would, but for what change changes.
func (w *world) ask(method, path string, body any, change func(*http.Request)) (answer reply, text string) {
	w.Helper()
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			w.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.addr+path, &sent)
	if err != nil {
		w.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://"+w.addr)
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, response.Cookies()}, string(got)
}

// refused makes a request that must be refused.
func (w *world) refused(what string, status int, says, method, path string, body any, change func(*http.Request)) {
	w.Helper()
	answer, text := w.ask(method, path, body, change)
	if answer.StatusCode != status || !strings.Contains(text, says) {
		w.Errorf("%s: %d %s; want %d with %q", what, answer.StatusCode, text, status, says)
	}
}

// answers makes a request that must succeed.
func (w *world) answers(method, path string, body any, change func(*http.Request)) (answer reply, text string) {
	w.Helper()
	answer, text = w.ask(method, path, body, change)
	if answer.StatusCode != http.StatusOK {
		w.Errorf("%s: %d %s", path, answer.StatusCode, text)
	}
	return answer, text
}

// shows waits until the list of locks has a text.
func (w *world) shows(part string) {
	w.Helper()
	eventually(w.T, part, func() bool {
		_, text := w.ask(http.MethodGet, "/api/locks", nil, nil)
		return strings.Contains(text, part)
	})
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// seenOf is what the page would send to take a lock away.
func (w *world) seenOf(name string) map[string]string {
	w.Helper()
	l, err := survey.Read(context.Background(), w.rdb, name)
	if err != nil {
		w.Fatal(err)
	}
	return map[string]string{"id": idOf(name), "seen": force.Holders(l)}
}

// TestGuard asks as other sites would have a browser ask.
func TestGuard(t *testing.T) {
	t.Parallel()
	w := served(t, mayUnlock, func(c *Config) { c.Hosts = []string{"locks.example.com"} })
	seen := w.seenOf("job")
	port := w.addr[strings.LastIndex(w.addr, ":"):]

	for _, name := range []string{"evil.example", "evil.example" + port, "127.0.0.1.evil.example", "localhost.evil.example", "xlocks.example.com", "", "locks.example.com.evil.example"} {
		for _, path := range []string{"/", "/app.js", "/api/locks", "/api/lock?id=" + idOf("job")} {
			if name == "" { // HTTP/1.1 wants a Host, so a client of Go's sends its own
				continue
			}
			w.refused("the host "+name+" at "+path, http.StatusMisdirectedRequest, "--host", http.MethodGet, path, nil, host(name))
		}
	}
	for _, name := range []string{"127.0.0.1", "[::1]:9000", "localhost:9000", "LOCALHOST", "locks.example.com", "Locks.Example.com.:443", "10.0.0.7"} {
		w.answers(http.MethodGet, "/api/locks", nil, host(name))
	}

	unlock := func(what string, status int, says string, change func(*http.Request)) {
		t.Helper()
		w.refused(what, status, says, http.MethodPost, "/api/unlock", seen, change)
	}
	for _, origin := range []string{"http://evil.example", "null", "", "http://127.0.0.1", "http://localhost" + port, "http://" + w.addr + ".evil.example", "ftp://" + w.addr, "http://127.0.0.1:1", "//" + w.addr} {
		unlock("the origin "+origin, http.StatusForbidden, "own page", header("Origin", origin))
	}
	unlock("no origin", http.StatusForbidden, "own page", func(r *http.Request) { r.Header.Del("Origin") })
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx", "text/plain; application/json"} {
		unlock("the type "+kind, http.StatusForbidden, "JSON", header("Content-Type", kind))
	}
	unlock("another site", http.StatusForbidden, "another site", header("Sec-Fetch-Site", "cross-site"))
	unlock("a sister site", http.StatusForbidden, "another site", header("Sec-Fetch-Site", "same-site"))
	unlock("another host", http.StatusMisdirectedRequest, "--host", host("evil.example"))
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		w.refused(method, http.StatusForbidden, "own page", method, "/api/unlock", seen, func(r *http.Request) {
			header("Origin", "http://"+w.addr)(r)
			header("Content-Type", "application/json")(r)
		})
	}
	if answer, _ := w.ask(http.MethodGet, "/api/unlock", nil, nil); answer.StatusCode == http.StatusOK {
		t.Error("GET unlocks")
	}
	w.refused("a read for another site", http.StatusForbidden, "another site", http.MethodGet, "/api/locks", nil, header("Sec-Fetch-Site", "cross-site"))
	w.refused("a script for another site", http.StatusForbidden, "another site", http.MethodGet, "/app.js", nil, header("Sec-Fetch-Site", "cross-site"))
	link := func(r *http.Request) {
		header("Sec-Fetch-Site", "cross-site")(r)
		header("Sec-Fetch-Mode", "navigate")(r)
	}
	w.answers(http.MethodGet, "/", nil, link)
	w.refused("too much", http.StatusBadRequest, "not understood", http.MethodPost, "/api/unlock", map[string]string{"id": strings.Repeat("x", mostBody)}, nil)
	w.refused("no JSON", http.StatusBadRequest, "not understood", http.MethodPost, "/api/unlock", "job", nil)
	w.refused("another field", http.StatusBadRequest, "not understood", http.MethodPost, "/api/unlock", map[string]string{"name": "job"}, nil)
	w.refused("no address", http.StatusBadRequest, "no lock's address", http.MethodPost, "/api/unlock", map[string]string{"id": "%zz"}, nil)
	for _, id := range []string{"%zz", "", "100%25%", strings.Repeat("x", protocol.MaxName+1)} {
		w.refused("no address", http.StatusBadRequest, "no lock's address", http.MethodGet, "/api/lock?id="+url.QueryEscape(id), nil, nil)
	}
	w.refused("a lock that nobody holds", http.StatusConflict, "nobody holds it", http.MethodPost, "/api/unlock", map[string]string{"id": idOf("none")}, nil)
	unseen := map[string]string{"id": idOf("job"), "seen": ""}
	w.refused("holders unseen", http.StatusConflict, "changed hands", http.MethodPost, "/api/unlock", unseen, nil)
	w.do("SET", "text", "hello")
	w.refused("no lock", http.StatusConflict, "nobody to take it from", http.MethodPost, "/api/unlock", map[string]string{"id": idOf("text")}, nil)
	if w.rdb.Exists(t.Context(), "job").Val() != 1 {
		t.Fatal("it was taken away")
	}
	w.answers(http.MethodPost, "/api/unlock", seen, nil)
	if w.rdb.Exists(t.Context(), "job").Val() != 0 {
		t.Error("it was not taken away")
	}
	if strings.Contains(w.hasSaid(), "/api/") {
		t.Errorf("requests are logged: %s", w.hasSaid())
	}
}

// TestUnlockOff refuses to take locks away, whatever the page would have.
func TestUnlockOff(t *testing.T) {
	t.Parallel()
	w := served(t)
	w.refused("unlock", http.StatusForbidden, "without --allow-unlock", http.MethodPost, "/api/unlock", w.seenOf("job"), nil)
	if w.rdb.Exists(t.Context(), "job").Val() != 1 {
		t.Error("it was taken away")
	}
}

// TestUnlockAway has Redis hang: there is an answer all the same, and nothing goes on behind it.
func TestUnlockAway(t *testing.T) {
	t.Parallel()
	w := served(t, mayUnlock)
	seen := w.seenOf("job")
	w.proxy.BlackHole(redistest.Both, true)
	w.refused("unlock", http.StatusBadGateway, "Redis cannot be used", http.MethodPost, "/api/unlock", seen, nil)
	w.proxy.BlackHole(redistest.Both, false)
	eventually(t, "Redis is back", func() bool {
		answer, _ := w.ask(http.MethodPost, "/api/unlock", seen, nil)
		return answer.StatusCode == http.StatusOK
	})
}

// TestHeaders are on every answer, refusals included.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := served(t)
	for _, path := range []string{"/", "/app.js", "/style.css", "/icon.svg", "/api/locks", "/api/lock", "/nothing", "/api/nothing", "/../handler.go", "/assets/"} {
		for _, change := range []func(*http.Request){nil, host("evil.example")} {
			answer, _ := w.ask(http.MethodGet, path, nil, change)
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY", "Access-Control-Allow-Origin": "", "Server": "",
			} {
				if got := answer.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got, want)
				}
			}
		}
	}
	for _, rule := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, rule) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy has no %q, or something unsafe: %s", rule, policy)
		}
	}
}

// TestOutside finds no address in the page's files that is not its own.
func TestOutside(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(assets, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(assets, path)
		for _, address := range regexp.MustCompile(`(https?:)?//[a-z0-9.-]+\.[a-z]+|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(| style=| on[a-z]+=`).FindAllString(string(text), -1) {
			if address != "http://www.w3.org" { // a name, and nothing that is fetched
				t.Errorf("%s has %s", path, address)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestToken wants one for all but the page's own files, and gives a session for it.
func TestToken(t *testing.T) {
	t.Parallel()
	const token = "correct horse battery staple"
	w := served(t, mayUnlock, func(c *Config) { c.Token = token })
	closed := func(change func(*http.Request)) {
		t.Helper()
		w.refused("locks", http.StatusUnauthorized, "token", http.MethodGet, "/api/locks", nil, change)
		w.refused("locks with the token in the address", http.StatusUnauthorized, "token", http.MethodGet, "/api/locks?token="+url.QueryEscape(token), nil, change)
		w.refused("a lock", http.StatusUnauthorized, "token", http.MethodGet, "/api/lock?id="+idOf("job"), nil, change)
		w.refused("unlock", http.StatusUnauthorized, "token", http.MethodPost, "/api/unlock", w.seenOf("job"), change)
		w.refused("sign out", http.StatusUnauthorized, "token", http.MethodPost, "/api/sign-out", struct{}{}, change)
	}
	closed(nil)
	closed(header("Cookie", cookieName+"=made-up"))
	closed(header("Cookie", cookieName+"="+token))
	for _, guess := range []string{"", token[1:], token + "x", strings.ToUpper(token)} {
		w.refused("the guess "+guess, http.StatusUnauthorized, "not the token", http.MethodPost, signInPath, map[string]string{"token": guess}, nil)
	}
	w.refused("the token of another site", http.StatusForbidden, "own page", http.MethodPost, signInPath, map[string]string{"token": token}, header("Origin", "http://evil.example"))
	answer, _ := w.ask(http.MethodPost, signInPath, map[string]string{"token": token}, nil)
	if len(answer.cookies) != 1 {
		t.Fatalf("%d, cookies %v", answer.StatusCode, answer.cookies)
	}
	session := answer.cookies[0]
	if !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "" || session.Domain != "" || strings.Contains(session.Value, token) || len(session.Value) < 40 {
		t.Errorf("%+v", session)
	}
	if session.Secure {
		t.Error("a browser would not send the session back to plain HTTP")
	}
	behindTLS, _ := w.ask(http.MethodPost, signInPath, map[string]string{"token": token}, header("Origin", "https://"+w.addr))
	if len(behindTLS.cookies) != 1 || !behindTLS.cookies[0].Secure {
		t.Errorf("behind a proxy with TLS: %d, cookies %v", behindTLS.StatusCode, behindTLS.cookies)
	}
	signedIn := header("Cookie", session.Name+"="+session.Value)
	if _, text := w.answers(http.MethodGet, "/api/lock?id="+idOf("job"), nil, signedIn); strings.Contains(text, token) {
		t.Errorf("the token is shown: %s", text)
	}
	w.answers(http.MethodPost, "/api/sign-out", struct{}{}, signedIn)
	closed(signedIn)
	if strings.Contains(w.hasSaid(), token) {
		t.Error("the token is logged")
	}
}

// TestSessionsEnd by themselves, and there are not more of them than so many.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := newSessions("token", &guesses{})
	r := httptest.NewRequest(http.MethodPost, signInPath, nil)
	first, _ := s.begin(r, "token")
	for key := range s.open {
		s.open[key] = time.Now().Add(-time.Second)
	}
	if s.has(first) {
		t.Error("a session is good for longer than it should be")
	}
	for range mostSessions + 10 {
		s.begin(r, "token")
	}
	if len(s.open) > mostSessions {
		t.Errorf("%d sessions", len(s.open))
	}
}

// TestCredentials asks for everything of a dashboard whose Redis has a password.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tW0rd"
	w := newWorld(t)
	w.holds("job", javaOwner, 0)
	w.do("CONFIG", "SET", "requirepass", secret)
	cfg := w.config()
	cfg.Redis = w.client(":" + secret + "@" + w.proxy.Addr())
	w.serve(cfg)
	look := func(text string) {
		t.Helper()
		w.shows(text)
		for _, path := range []string{"/api/locks", "/api/lock?id=" + idOf("job"), "/api/lock?id=" + idOf("none"), "/"} {
			if _, text := w.ask(http.MethodGet, path, nil, nil); strings.Contains(text, secret) {
				t.Errorf("%s shows the password", path)
			}
		}
	}
	look(javaOwner)
	w.do("CONFIG", "SET", "requirepass", "another")
	w.proxy.Cut()
	look("the user name or the password is wrong")
	if strings.Contains(w.hasSaid(), secret) {
		t.Error("the password is logged")
	}
}

// TestHealth asks a dashboard that wants a token how it is, without one.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := served(t, func(c *Config) { c.Token = "a token of the test's" })
	for _, step := range []struct {
		do   func()
		want int
	}{{func() {}, http.StatusOK}, {func() { w.proxy.Refuse(true); w.proxy.Cut() }, http.StatusServiceUnavailable}, {func() { w.proxy.Refuse(false) }, http.StatusOK}} {
		step.do()
		eventually(t, fmt.Sprint(step.want), func() bool {
			answer, text := w.ask(http.MethodGet, "/healthz", nil, nil)
			return answer.StatusCode == step.want && !strings.Contains(text, "job") && !strings.Contains(text, w.proxy.Addr())
		})
	}
}

// TestOneLook has many look at the page: Redis is asked as often as for one.
func TestOneLook(t *testing.T) {
	t.Parallel()
	w := served(t, func(c *Config) { c.Interval = 24 * time.Hour })
	w.shows(javaOwner)
	w.answers(http.MethodGet, "/api/lock?id="+idOf("job"), nil, nil)
	asked := func() int { return w.proxy.Requests(func([]byte) bool { return true }) }
	before := asked()
	for range 50 {
		w.ask(http.MethodGet, "/api/locks?q=job", nil, nil)
		w.ask(http.MethodGet, "/api/lock?id="+idOf("job"), nil, nil)
	}
	if more := asked() - before; more > 0 {
		t.Errorf("Redis was asked %d times more", more)
	}
}

// TestTooLong says how many names are not shown, and shows the others.
func TestTooLong(t *testing.T) {
	t.Parallel()
	w := served(t)
	for i := range 3 {
		w.do("HSET", strings.Repeat("x", 1<<20)+fmt.Sprint(i), javaOwner, "1")
	}
	w.shows(`"too_long":3`)
	if _, text := w.answers(http.MethodGet, "/api/locks", nil, nil); !strings.Contains(text, `"name":"job"`) || strings.Contains(text, "xxx") || len(text) > 10_000 {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

// TestCluster has locks on all nodes, and takes one away.
func TestCluster(t *testing.T) {
	t.Parallel()
	addrs := strings.Join(redistest.StartCluster(t, 3, 0).Addrs(), ",")
	w := &world{T: t}
	w.rdb = w.client(addrs)
	for i := range 30 {
		w.do("HSET", fmt.Sprintf("lock:%d", i), javaOwner, "1")
	}
	w.serve(Config{
		Redis: w.client(addrs), Server: "cluster", Interval: 100 * time.Millisecond, Most: 1000, Log: w.logf, AllowUnlock: true,
		Explain: func(err error) string { return err.Error() },
	})
	w.shows(`"held":30,"waiting"`)
	w.answers(http.MethodPost, "/api/unlock", w.seenOf("lock:7"), nil)
	w.shows(`"held":29,"waiting"`)
}

// TestPause keeps Redis busy for a fifth of the time at most.
func TestPause(t *testing.T) {
	t.Parallel()
	o := newObserver(Config{Interval: time.Second})
	for took, want := range map[time.Duration]time.Duration{time.Millisecond: time.Second, time.Second: 4 * time.Second, time.Minute: 4 * time.Minute} {
		if got := o.found(nil, false, 0, began, began, took); got != want {
			t.Errorf("a pause of %v after %v, want %v", got, took, want)
		}
	}
}

// TestRun ends in time though somebody hangs on the line, and leaves nothing behind; and when nobody can be served any more.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for what, want := range map[string]error{"the context ends": context.Canceled, "the listener fails": net.ErrClosed} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().String()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, listener, w.config()) }()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /api/locks HTTP/1.1\r\nHost: local") // and no more
		if errors.Is(want, net.ErrClosed) {
			_ = listener.Close()
		} else {
			cancel()
		}
		select {
		case err := <-ended:
			if !errors.Is(err, want) {
				t.Errorf("%s: it ended with %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: it does not end", what)
		}
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Errorf("%s: the address is still in use", what)
		}
	}
	s := newServer(t.Context(), newObserver(w.config()))
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
		t.Error("a request may take for ever")
	}
}

// TestCrowd refuses more at once than it answers.
func TestCrowd(t *testing.T) {
	t.Parallel()
	w := served(t)
	w.shows(javaOwner)
	w.proxy.BlackHole(redistest.Both, true)
	crowd := make(chan int, 3*mostAtOnce)
	for i := range cap(crowd) {
		go func() {
			response, err := http.Get(fmt.Sprintf("http://%s/api/lock?id=%s", w.addr, idOf(fmt.Sprint("job", i))))
			if err != nil {
				crowd <- 0
				return
			}
			defer response.Body.Close()
			crowd <- response.StatusCode
		}()
	}
	counts := map[int]int{}
	for range cap(crowd) {
		counts[<-crowd]++
	}
	if counts[http.StatusServiceUnavailable] == 0 || counts[http.StatusBadGateway] == 0 || counts[0] > 0 {
		t.Errorf("%v", counts)
	}
}

// TestMetrics reads what Prometheus gets: of a dashboard that wants a token, and of a Redis that goes away.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const token = "a token of the test's"
	w := served(t, func(c *Config) { c.Token = token })
	p := newPerson(1, "billing", "web-3")
	w.isHere(p, time.Hour, "other")
	w.holds("other", p.owner(), time.Minute)
	w.refused("without the token", http.StatusUnauthorized, "token", http.MethodGet, metricsPath, nil, nil)
	w.refused("with another one", http.StatusUnauthorized, "token", http.MethodGet, metricsPath, nil, header("Authorization", "Bearer nothing"))
	metrics := func() string {
		answer, text := w.ask(http.MethodGet, metricsPath, nil, header("Authorization", "Bearer "+token))
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
			t.Fatalf("%d %v %s", answer.StatusCode, answer.Header, text)
		}
		return text
	}
	eventually(t, "it has looked", func() bool { return strings.Contains(metrics(), "holdfast_dashboard_locks{kind=\"mutex\"} 2\n") })
	text := metrics()
	for _, line := range []string{
		"holdfast_dashboard_up 1", `holdfast_dashboard_held{kind="mutex"} 2`, `holdfast_dashboard_held{kind="latch"} 0`,
		`holdfast_dashboard_waiting{kind="mutex"} 0`, `holdfast_dashboard_leases_ran_out_total 0`, "# TYPE holdfast_dashboard_held gauge", "# TYPE holdfast_dashboard_leases_ran_out_total counter",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	form := regexp.MustCompile(`^(# HELP [a-z_]+ .+\.|# TYPE [a-z_]+ (gauge|counter)|[a-z_]+(\{kind="[a-z]+"\})? [0-9.e+]+)$`)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if !form.MatchString(line) {
			t.Errorf("%q is not in the format", line)
		}
	}
	_, after, _ := strings.Cut(text, "\nholdfast_dashboard_longest_hold_seconds ")
	if value, _, _ := strings.Cut(after, "\n"); !strings.HasPrefix(value, "36") {
		t.Errorf("the longest hold is %q, want an hour", value)
	}
	if strings.Contains(text, "job") || strings.Contains(text, "billing") {
		t.Errorf("it names a lock or its holder:\n%s", text)
	}
	w.proxy.Refuse(true)
	w.proxy.Cut()
	eventually(t, "Redis is away", func() bool { return strings.Contains(metrics(), "holdfast_dashboard_up 0\n") })
	if text := metrics(); strings.Contains(text, "kind=") || !strings.Contains(text, "holdfast_dashboard_last_look_timestamp_seconds ") {
		t.Errorf("while Redis is away:\n%s", text)
	}
}
