package dashboard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// connections opens some to the dashboard, on each of which that is said and no more. If they are answered, the next one
// comes when an answer has begun, of which no more is read. They are closed when the test ends.
func (w *world) connections(n int, says string, answered bool) []net.Conn {
	w.Helper()
	all := make([]net.Conn, n)
	for i := range all {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = conn.Close() })
		if tcp, ok := conn.(*net.TCPConn); !ok || tcp.SetReadBuffer(4096) != nil || tcp.SetDeadline(time.Now().Add(patience)) != nil {
			w.Fatalf("it is a %T", conn)
		}
		if _, err := io.WriteString(conn, says); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			w.Fatal(err)
		}
		if answered {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				w.Fatal(err)
			}
		}
		all[i] = conn
	}
	return all
}

// TestSlowCrowds: whoever is slow to send or to read keeps nobody out, neither a probe nor one who is signed in.
func TestSlowCrowds(t *testing.T) {
	t.Parallel()
	const token = "correct horse battery staple"
	crowds := map[string]struct {
		n        int
		says     string
		answered bool
	}{
		"sign-ins whose bodies do not end": {2 * mostAtOnce, "POST " + signInPath + " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"token\":", false},
		"chunks that do not end":           {2 * mostAtOnce, "POST " + signInPath + " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"tok\r\n", false},
		"bodies that are waited for":       {2 * mostAtOnce, "POST " + signInPath + " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", false},
		"reads with a body":                {2 * mostAtOnce, "GET /api/locks HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\nContent-Length: 1000000\r\n\r\n", true},
		"unlocks whose bodies do not end":  {2 * mostAtOnce, "POST /api/unlock HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nCookie: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", false},
		"headers that do not end":          {2 * mostAtOnce, "GET /api/locks HTTP/1.1\r\nHost: local", false},
		"nothing at all":                   {2 * mostConnections, "", false},
		"files that are not read":          {2 * mostAtOnce, strings.Repeat("GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 100), false},
		"requests that are kept alive":     {2 * mostConnections, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", false},
	}
	for what, crowd := range crowds {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) { // one after the other: each takes a thousand file descriptors
			w := served(t, mayUnlock, func(c *Config) { c.Token = token })
			for i := range 300 {
				w.do("HSET", fmt.Sprintf("lock:%d:%s", i, strings.Repeat("x", 1000)), javaOwner, "1")
			}
			eventually(t, "it has looked", func() bool {
				answer, _ := w.ask(http.MethodGet, healthPath, nil, nil)
				return answer.StatusCode == http.StatusOK
			})
			answer, _ := w.answers(http.MethodPost, signInPath, map[string]string{"token": token}, nil)
			session := answer.cookies[0].Name + "=" + answer.cookies[0].Value
			w.connections(crowd.n, strings.ReplaceAll(crowd.says, "%s", session), crowd.answered)
			for range 20 {
				w.answers(http.MethodGet, healthPath, nil, nil)
				w.answers(http.MethodGet, "/api/locks", nil, header("Cookie", session))
			}
			w.answers(http.MethodPost, signInPath, map[string]string{"token": token}, nil)
		})
	}
}

// TestSlowReaders: an answer that is not read holds no slot.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := newHandler(newObserver(w.config()))
	ask := func(answer http.ResponseWriter) {
		page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/api/locks", nil))
	}
	writing, read := make(chan struct{}), make(chan struct{})
	var readers sync.WaitGroup
	for range 2 * mostAtOnce {
		readers.Go(func() { ask(&slowReader{httptest.NewRecorder(), writing, read}) })
		<-writing
	}
	quick := httptest.NewRecorder()
	if ask(quick); quick.Code != http.StatusOK {
		t.Errorf("%d %s", quick.Code, quick.Body)
	}
	close(read)
	readers.Wait()
}

// slowReader takes an answer when read is closed.
type slowReader struct {
	http.ResponseWriter

	writing, read chan struct{}
}

func (s *slowReader) Write(text []byte) (int, error) {
	s.writing <- struct{}{}
	<-s.read
	return s.ResponseWriter.Write(text)
}

// TestConnections closes the connection that has been still for the longest, if there is one too many.
func TestConnections(t *testing.T) {
	t.Parallel()
	c := newCrowd()
	all := make([]net.Conn, mostConnections+2)
	for i := range all {
		all[i], _ = net.Pipe()
		defer all[i].Close()
	}
	open := func(i int) bool { return !errors.Is(all[i].SetDeadline(time.Time{}), io.ErrClosedPipe) }
	for _, conn := range all[:mostConnections] {
		c.note(conn, http.StateNew)
	}
	c.note(all[0], http.StateActive)
	c.note(all[0], http.StateIdle)
	c.note(all[1], http.StateActive)
	if c.note(all[mostConnections], http.StateNew); open(2) || !open(0) || !open(1) || !open(3) {
		t.Error("it is not the one that has been still for the longest that is closed")
	}
	c.note(all[2], http.StateActive) // it has come too late
	c.note(all[2], http.StateClosed)
	c.note(all[4], http.StateClosed)
	if c.note(all[mostConnections+1], http.StateNew); !open(3) {
		t.Error("one is closed though there is room")
	}
	if c.line.Len() != mostConnections || len(c.at) != mostConnections {
		t.Errorf("%d and %d connections", c.line.Len(), len(c.at))
	}
}

// TestOddRequests is answered with what it deserves, and no more is read of it than may be.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	w := served(t, mayUnlock)
	const begin, end = " HTTP/1.1\r\nHost: localhost\r\n", "\r\n\r\n"
	post := func(body string) string {
		return "POST /api/unlock" + begin + "Origin: http://localhost\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(body)) + end + body
	}
	for what, c := range map[string]struct {
		request string
		status  int
	}{
		"a cookie of 1 MB":        {"GET /api/locks" + begin + "Cookie: a=" + strings.Repeat("x", 1<<20) + end, http.StatusRequestHeaderFieldsTooLarge},
		"10,000 headers":          {"GET /api/locks" + begin + strings.Repeat("X: y\r\n", 10_000) + end, http.StatusRequestHeaderFieldsTooLarge},
		"a path of 1 MB":          {"GET /" + strings.Repeat("x", 1<<20) + begin + end, http.StatusRequestHeaderFieldsTooLarge},
		"a path of many dots":     {"GET /" + strings.Repeat("../", 5000) + begin + end, http.StatusNotFound},
		"a huge limit":            {"GET /api/locks?limit=9223372036854775808" + begin + end, http.StatusOK},
		"a negative limit":        {"GET /api/locks?limit=-9223372036854775808" + begin + end, http.StatusOK},
		"a huge id":               {post(`{"id":9223372036854775808}`), http.StatusBadRequest},
		"a number without an end": {post(`{"id":1e999999}`), http.StatusBadRequest},
		"JSON that is deep":       {post(strings.Repeat("[", 30_000)), http.StatusBadRequest},
		"a long body":             {post(strings.Repeat(" ", mostBody+1)), http.StatusBadRequest},
		"many ranges":             {"GET /app.js" + begin + "Range: bytes=0-" + strings.Repeat(",0-", 5000) + end, http.StatusOK},
		"a range far behind":      {"GET /app.js" + begin + "Range: bytes=9223372036854775808-" + end, http.StatusRequestedRangeNotSatisfiable},
		"OPTIONS of the server":   {"OPTIONS *" + begin + end, http.StatusForbidden},
		"TRACE":                   {"TRACE /" + begin + end, http.StatusForbidden},
		"CONNECT":                 {"CONNECT localhost:1" + begin + end, http.StatusNotFound},
		"HTTP/2":                  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", http.StatusMisdirectedRequest},
		"two lengths":             {"POST /api/unlock" + begin + "Content-Length: 1\r\nContent-Length: 2" + end + "ab", http.StatusBadRequest},
		"a length of 2^63":        {"POST /api/unlock" + begin + "Content-Length: 9223372036854775808" + end, http.StatusBadRequest},
	} {
		conn := w.connections(1, c.request, false)[0]
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", what, response.StatusCode, c.status)
		}
	}
}
