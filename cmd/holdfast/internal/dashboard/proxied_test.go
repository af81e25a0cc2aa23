package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// toolsHost is the name that browsers know the proxy by.
const toolsHost = "tools.example.com"

// front describes how a reverse proxy shows the dashboard.
type front struct {
	prefix      string // where
	strips      bool   // it takes the prefix off
	keepsHost   bool   // it passes Host on
	host        string // else it sends this one; empty: the dashboard's address
	addsNoSlash bool   // it shows the page at the prefix without a slash, too
}

// handler passes on what is below the prefix. The rest of the host is another program's.
func (f front) handler(addr string) http.Handler {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr})
		r.SetXForwarded()
		switch {
		case f.keepsHost:
			r.Out.Host = r.In.Host
		case f.host != "":
			r.Out.Host = f.host
		}
		if f.strips {
			r.Out.URL.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.In.URL.Path, f.prefix), "/")
		}
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, f.prefix+"/") && (!f.addsNoSlash || r.URL.Path != f.prefix) {
			http.Error(w, "another program", http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

var references = regexp.MustCompile(`(?:href|src)="([^"#][^"]*)"`)

// TestProxied does what a browser does at the page behind a proxy: it loads what the page names, signs in, reads, takes a lock away.
func TestProxied(t *testing.T) {
	t.Parallel()
	const token = "correct horse battery staple"
	for _, c := range []struct {
		what, page, host, base string
		by                     front
	}{
		{"root", "https://tools.example.com/", toolsHost, "", front{strips: true, keepsHost: true}},
		{"root, Host replaced", "https://tools.example.com/", toolsHost, "", front{strips: true}},
		{"root, another port, Host replaced", "https://tools.example.com:8443/", toolsHost + ":8443", "", front{strips: true}},
		{"root, another port, Host without it", "https://tools.example.com:8443/", toolsHost + ":8443", "", front{strips: true, host: toolsHost}},
		{"root, Host with the usual port", "https://tools.example.com/", toolsHost, "", front{strips: true, host: toolsHost + ":443"}},
		{"root, plain HTTP", "http://tools.example.com/", toolsHost, "", front{strips: true}},
		{"an IPv6 address, Host passed on", "https://[fd00::1]:8443/", toolsHost, "", front{strips: true, keepsHost: true}},
		{"an IPv6 address, Host replaced", "https://[fd00::1]:8443/", "[fd00::1]:8443", "", front{strips: true}},
		{"a path that is stripped", "https://tools.example.com/locks/", toolsHost, "", front{prefix: "/locks", strips: true, keepsHost: true}},
		{"a path that is stripped, Host replaced", "https://tools.example.com/locks/", toolsHost, "", front{prefix: "/locks", strips: true}},
		{"a path that is stripped, --base-path", "https://tools.example.com/locks/", toolsHost, "/locks", front{prefix: "/locks", strips: true}},
		{"a path that is stripped, no slash, --base-path", "https://tools.example.com/locks", toolsHost, "/locks", front{prefix: "/locks", strips: true, addsNoSlash: true}},
		{"a path that stays", "https://tools.example.com/locks/", toolsHost, "/locks", front{prefix: "/locks"}},
		{"a path that stays, no slash", "https://tools.example.com/locks", toolsHost, "/locks", front{prefix: "/locks", addsNoSlash: true}},
		{"a longer path that stays", "https://tools.example.com/team/a/locks/", toolsHost, "/team/a/locks", front{prefix: "/team/a/locks", keepsHost: true}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := served(t, mayUnlock, func(cfg *Config) { cfg.Token, cfg.Hosts, cfg.BasePath = token, []string{c.host}, c.base })
			page, err := url.Parse(c.page)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(c.by.handler(w.addr))
			defer proxy.Close()
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Timeout: patience}
			do := func(method, ref string, body string) (int, string) {
				t.Helper()
				at, err := page.Parse(ref)
				if err != nil {
					t.Fatal(err)
				}
				r, err := http.NewRequestWithContext(t.Context(), method, proxy.URL+at.RequestURI(), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Host = at.Host
				r.Header.Set("Sec-Fetch-Site", sameOrigin)
				if method == http.MethodPost {
					r.Header.Set("Origin", page.Scheme+"://"+page.Host)
					r.Header.Set("Content-Type", "application/json")
				}
				for _, cookie := range jar.Cookies(at) {
					r.AddCookie(cookie)
				}
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				jar.SetCookies(at, response.Cookies())
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return response.StatusCode, string(text)
			}
			status, html := do(http.MethodGet, "", "")
			found := references.FindAllStringSubmatch(html, -1)
			if status != http.StatusOK || len(found) < 3 {
				t.Fatalf("the page: %d %s", status, html)
			}
			script := ""
			for _, reference := range found {
				if strings.HasSuffix(reference[1], "/app.js") {
					script = reference[1]
				}
				if status, text := do(http.MethodGet, reference[1], ""); status != http.StatusOK {
					t.Errorf("%s: %d %s", reference[1], status, text)
				}
			}
			beside := func(path string) string { return strings.TrimSuffix(script, "app.js") + path } // as the scripts do
			expect := func(want int, method, path, body string) {
				t.Helper()
				if status, text := do(method, beside(path), body); status != want {
					t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
				}
			}
			expect(http.StatusUnauthorized, http.MethodGet, "metrics", "")
			expect(http.StatusUnauthorized, http.MethodGet, "api/locks", "")
			expect(http.StatusOK, http.MethodPost, "api/sign-in", `{"token":"`+token+`"}`)
			expect(http.StatusOK, http.MethodGet, "api/locks", "")
			expect(http.StatusOK, http.MethodGet, "api/lock?id=job", "")
			expect(http.StatusOK, http.MethodPost, "api/unlock", `{"id":"job","seen":"`+w.seenOf("job")["seen"]+`"}`)
			outside, err := page.Parse("/")
			if err != nil {
				t.Fatal(err)
			}
			if cookies := jar.Cookies(outside); len(cookies) > 0 {
				t.Errorf("other programs of the host get %v", cookies)
			}
			expect(http.StatusOK, http.MethodPost, "api/sign-out", `{}`)
			expect(http.StatusUnauthorized, http.MethodGet, "api/locks", "")
		})
	}
}

// TestProxiedGuard sends what other sites can make a browser send to a dashboard that has a base path and names.
func TestProxiedGuard(t *testing.T) {
	t.Parallel()
	w := served(t, mayUnlock, func(c *Config) { c.Hosts, c.BasePath = []string{toolsHost, "admin.example.com:8443"}, "/locks" })
	for _, path := range []string{"/locks", "/locks/", "/locks/app.js", "/locks/api/locks", "/locks/metrics", "/api/locks"} {
		w.refused("evil.example at "+path, http.StatusMisdirectedRequest, "--host evil.example", http.MethodGet, path, nil, host("evil.example:8378"))
	}
	for _, path := range []string{"/lockss", "/locksapi/locks", "/locks/locks/api/locks", "/locks//api/locks", "/locks/x/../api/locks", "//evil.example/..", "/other/"} {
		answer, text := w.ask(http.MethodGet, path, nil, nil)
		if answer.StatusCode != http.StatusNotFound || !strings.Contains(text, noPage) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, text)
		}
	}
	w.refused("a read for another site", http.StatusForbidden, "another site", http.MethodGet, "/locks/api/locks", nil, header("Sec-Fetch-Site", "cross-site"))
	seen := w.seenOf("job")
	for _, origin := range []string{
		"http://evil.example", "https://xtools.example.com", "https://tools.example.com.evil.example", "https://tools.example.com:9999", "https://tools.example.com@evil.example",
		"https://admin.example.com", "https://admin.example.com:443", "https://example.com", "null", "https://", "tools.example.com", "ftp://tools.example.com",
	} {
		for _, path := range []string{"/locks/api/unlock", "/api/unlock"} {
			w.refused("the origin "+origin, http.StatusForbidden, "own page", http.MethodPost, path, seen, header("Origin", origin))
		}
	}
	for _, forwarded := range []string{"X-Forwarded-Host", "X-Original-Host", "Forwarded"} {
		w.refused(forwarded, http.StatusForbidden, "own page", http.MethodPost, "/api/unlock", seen, func(r *http.Request) {
			header("Origin", "http://evil.example")(r)
			header(forwarded, "evil.example")(r)
		})
		w.refused(forwarded, http.StatusMisdirectedRequest, "--host", http.MethodGet, "/api/locks", nil, func(r *http.Request) {
			host("evil.example")(r)
			header(forwarded, toolsHost)(r)
		})
	}
	w.refused("a known origin under another site's name", http.StatusMisdirectedRequest, "--host", http.MethodPost, "/api/unlock", seen, func(r *http.Request) {
		host("evil.example")(r)
		header("Origin", "https://"+toolsHost)(r)
	})
	w.refused("a form of a known origin", http.StatusForbidden, "JSON", http.MethodPost, "/api/unlock", seen, func(r *http.Request) {
		header("Origin", "https://"+toolsHost)(r)
		header("Content-Type", "text/plain")(r)
	})
	w.refused("a known origin that is another site to the browser", http.StatusForbidden, "another site", http.MethodPost, "/api/unlock", seen, func(r *http.Request) {
		header("Origin", "https://"+toolsHost)(r)
		header("Sec-Fetch-Site", "same-site")(r)
	})
	if w.rdb.Exists(t.Context(), "job").Val() != 1 {
		t.Fatal("it was taken away")
	}
	w.refused("Host replaced, and no --host", http.StatusForbidden, "have the proxy pass Host on, or start the dashboard with --host other.example:8443", http.MethodPost, "/api/unlock", seen,
		header("Origin", "https://other.example:8443"))
	w.refused("no Origin", http.StatusForbidden, "a proxy must pass Origin on", http.MethodPost, "/api/unlock", seen, func(r *http.Request) { r.Header.Del("Origin") })
	w.answers(http.MethodPost, "/locks/api/unlock", seen, header("Origin", "https://admin.example.com:8443"))
}

// TestHealthOfAnyHost probes by HTTP/1.0 and 1.1, under the names that probes use. Nothing else is answered under them.
func TestHealthOfAnyHost(t *testing.T) {
	t.Parallel()
	w := served(t, func(c *Config) { c.BasePath = "/locks" })
	w.shows(javaOwner)
	probe := func(path, version, headers string) int {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/%s\r\n%sConnection: close\r\n\r\n", path, version, headers)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for _, headers := range []string{"", "Host:\r\n", "Host: locks.monitoring.svc.cluster.local:8378\r\n", "Host: holdfast_dashboard\r\n", "Host: evil.example\r\n"} {
		for _, version := range []string{"1.0", "1.1"} {
			if headers == "" && version == "1.1" {
				continue // HTTP/1.1 wants a Host, and net/http refuses the request
			}
			for path, want := range map[string]int{
				"/healthz": http.StatusOK, "/locks/healthz": http.StatusOK, "/healthz?verbose=1": http.StatusOK,
				"/": http.StatusMisdirectedRequest, "/metrics": http.StatusMisdirectedRequest, "/api/locks": http.StatusMisdirectedRequest, "/healthz/": http.StatusMisdirectedRequest,
				"/healthz/../api/locks": http.StatusMisdirectedRequest, "//healthz": http.StatusMisdirectedRequest, "/locks/": http.StatusMisdirectedRequest,
			} {
				if got := probe(path, version, headers); got != want {
					t.Errorf("%s by HTTP/%s with %q: %d, want %d", path, version, headers, got, want)
				}
			}
		}
	}
	w.refused("another site's page asks", http.StatusForbidden, "another site", http.MethodGet, healthPath, nil, header("Sec-Fetch-Site", "cross-site"))
}
