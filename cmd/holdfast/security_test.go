//go:build unix

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = newKey(t)
	template := certificate("authority")
	template.IsCA, template.KeyUsage, template.BasicConstraintsValid = true, x509.KeyUsageCertSign, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem("ca.crt", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate is one for 127.0.0.1 that is valid now.
func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func (a *authority) ca() string { return a.dir + "/ca.crt" }

func (a *authority) pem(file, kind string, der []byte) {
	a.t.Helper()
	write(a.t, a.dir+"/"+file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// signs writes a certificate and its key, and returns the files.
func (a *authority) signs(name string, change func(*x509.Certificate)) (cert, key string) {
	a.t.Helper()
	template, private := certificate(name), newKey(a.t)
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	a.pem(name+".crt", "CERTIFICATE", der)
	a.pem(name+".key", "PRIVATE KEY", text)
	return a.dir + "/" + name + ".crt", a.dir + "/" + name + ".key"
}

// tlsServer is a real server with a certificate of ours.
func tlsServer(t *testing.T, settings ...string) (url string) {
	t.Helper()
	server := redistest.Start(t, redistest.WithTLS())
	server.Cli(t, append([]string{"CONFIG", "SET"}, settings...)...) // the last that its own client is believed
	return "rediss://" + server.Addr()
}

// runs checks that a command ends well, whatever it says.
func runs(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCertificates meets servers whose certificates are wrong, each in its way: the tool refuses them, and says what
// to do.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	for what, c := range map[string]struct {
		change func(*x509.Certificate)
		flags  []string
		says   string // empty: it works
	}{
		"right":           {func(*x509.Certificate) {}, []string{"--tls-ca", ours.ca()}, ""},
		"other authority": {func(*x509.Certificate) {}, []string{"--tls-ca", others.ca()}, "its certificate is not trusted; --tls-ca names"},
		"system's":        {func(*x509.Certificate) {}, nil, "its certificate is not trusted; --tls-ca names"},
		"other name": {
			func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"redis.example.com"} },
			[]string{"--tls-ca", ours.ca()},
			"by --tls-server-name; it has redis.example.com",
		},
		"expired": {
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
			[]string{"--tls-ca", ours.ca()},
			"its certificate has expired, or is not valid yet",
		},
		"not yet": {
			func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) },
			[]string{"--tls-ca", ours.ca()},
			"its certificate has expired, or is not valid yet",
		},
		"of a client": {
			func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} },
			[]string{"--tls-ca", ours.ca()},
			"its certificate is not trusted",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cert, key := ours.signs(strings.ReplaceAll(what, " ", "-"), c.change)
			url := tlsServer(t, "tls-cert-file", cert, "tls-key-file", key)
			for _, args := range [][]string{
				{"run", "--wait", "8s", "job", "--", "true"},
				{"ls"},
				{"show", "job"},
				{"wait", "--wait", "8s", "job"},
				{"unlock", "--force", "--yes", "job"},
				{"doctor"},
				{"bench", "--duration", "100ms"},
			} {
				cmd := holdfast(t, url, append(args[:1:1], append(c.flags, args[1:]...)...)...)
				out, err := cmd.CombinedOutput()
				got, text := code(t, err), strings.Join(strings.Fields(string(out)), " ")
				refused := got == 69 || args[0] == "doctor" && got == 78
				if c.says == "" && refused || c.says != "" && (!refused || !strings.Contains(text, c.says)) {
					t.Errorf("%s: exit code %d: %s", args[0], got, text)
				}
			}
			if c.says == "" {
				return
			}
			out, err := holdfast(t, url+"?skip_verify=true", append([]string{"ls"}, c.flags...)...).CombinedOutput()
			if got := code(t, err); got != 64 || !strings.Contains(string(out), "--insecure-skip-verify") {
				t.Errorf("skip_verify: exit code %d: %s", got, out)
			}
			runs(t, holdfast(t, url+"?skip_verify=true", append([]string{"ls", "--insecure-skip-verify"}, c.flags...)...))
		})
	}
}

// TestTLSServerName meets certificates that have a name and no address, where sentinels and a cluster answer with addresses: the tool
// says which flag names it, and works with that.
func TestTLSServerName(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	const name = "redis.example.com"
	cert, key := ours.signs("named", func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{name} })
	single := tlsServer(t, "tls-cert-file", cert, "tls-key-file", key)

	node := redistest.Start(t, redistest.WithTLS(), redistest.WithConfig("cluster-enabled yes", "tls-cluster yes", "cluster-announce-ip 127.0.0.1"))
	node.Cli(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	for !strings.Contains(node.Cli(t, "CLUSTER", "INFO"), "cluster_state:ok") {
		runtime.Gosched()
	}
	node.Cli(t, "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key)

	watcher := redistest.StartSentinel(t, 0, 1).Sentinels[0]
	watcher.Cli(t, append([]string{"SENTINEL", "MONITOR", "named"}, append(strings.Split(strings.TrimPrefix(single, "rediss://"), ":"), "1")...)...)

	for what, url := range map[string]string{
		"single": single, "cluster": "rediss://" + node.Addr() + "?cluster=true", "sentinel": "rediss+sentinel://" + tlsFront(t, cert, key, watcher.Addr()) + "/named",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			trusting := []string{"run", "--wait", "8s", "--tls-ca", ours.ca()}
			works(t, holdfast(t, url, append(trusting, "--tls-server-name", name, "job", "--", "true")...))
			refuses(t, holdfast(t, url, append(trusting, "--tls-server-name", "other.example.com", "job", "--", "true")...), "it has "+name)
			refuses(t, holdfast(t, url, append(trusting, "job", "--", "true")...), "by --tls-server-name; it has "+name)
		})
	}
	refused := holdfast(t, "redis://127.0.0.1:1", "ls", "--tls-server-name", name)
	if out, err := refused.CombinedOutput(); code(t, err) != 64 || !strings.Contains(string(out), "the TLS options make no sense") {
		t.Errorf("without TLS: %s", out)
	}
}

// tlsFront accepts TLS with a certificate, and passes on what comes to a server without TLS.
func tlsFront(t *testing.T, certFile, keyFile, to string) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() { // until either side is closed
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// TestClientCertificates has a server want a certificate: the tool shows the one that it was given, and says so if that does not do.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	same := func(*x509.Certificate) {}
	cert, key := ours.signs("server", same)
	url := tlsServer(t, "tls-ca-cert-file", ours.ca(), "tls-cert-file", cert, "tls-key-file", key, "tls-auth-clients", "yes")
	right, rightKey := ours.signs("client", same)
	old, oldKey := ours.signs("old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	foreign, foreignKey := others.signs("foreign", same)
	with := func(cert, key string) []string {
		return []string{"ls", "--tls-ca", ours.ca(), "--tls-cert", cert, "--tls-key", key}
	}
	runs(t, holdfast(t, url, with(right, rightKey)...))
	for what, c := range map[string]struct {
		args []string
		says string
	}{
		"none":      {[]string{"ls", "--tls-ca", ours.ca()}, "it wants a client certificate, so give --tls-cert and --tls-key"},
		"expired":   {with(old, oldKey), "it does not accept the client certificate"},
		"foreign":   {with(foreign, foreignKey), "it does not accept the client certificate"},
		"wrong key": {with(right, oldKey), "the client certificate cannot be used"},
		"half":      {[]string{"ls", "--tls-ca", ours.ca(), "--tls-cert", right}, "a client certificate takes both"},
	} {
		out, err := holdfast(t, url, c.args...).CombinedOutput()
		// With TLS 1.3 the server's word comes behind the handshake, and may be lost with the connection.
		reset := bytes.Contains(out, []byte("connection reset by peer")) || bytes.Contains(out, []byte("broken pipe"))
		if got := code(t, err); got == 0 || !reset && !strings.Contains(string(out), c.says) {
			t.Errorf("%s: exit code %d: %s", what, got, out)
		}
	}
}

// TestOldTLS meets a server that speaks TLS 1.1 at best.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	cert, key := ours.signs("server", func(*x509.Certificate) {})
	url := tlsServer(t, "tls-cert-file", cert, "tls-key-file", key, "tls-ciphers", "ALL:@SECLEVEL=0", "tls-protocols", "TLSv1 TLSv1.1")
	out, err := holdfast(t, url, "ls", "--tls-ca", ours.ca()).CombinedOutput()
	if got := code(t, err); got != 69 || !strings.Contains(string(out), "it speaks no TLS from 1.2 on") {
		t.Errorf("exit code %d: %s", got, out)
	}
	out, err = holdfast(t, url+"?skip_verify=true", "ls", "--insecure-skip-verify").CombinedOutput()
	if got := code(t, err); got != 69 || !strings.Contains(string(out), "it speaks no TLS from 1.2 on") {
		t.Errorf("skip_verify: exit code %d: %s", got, out)
	}
	runs(t, holdfast(t, tlsServer(t, "tls-cert-file", cert, "tls-key-file", key, "tls-protocols", "TLSv1.2"), "ls", "--tls-ca", ours.ca()))
}

// TestCommandHasNoSecrets runs a command that looks for passwords: in its environment, in all command lines, and in what the runner says.
func TestCommandHasNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tW0rd-0f-the-test"
	server := redistest.Start(t, redistest.WithPassword(secret))
	file := t.TempDir() + "/password"
	write(t, file, secret+"\n")
	look := "env; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -v grep"
	for what, c := range map[string]struct {
		url, variable string
		flags         []string
	}{
		"in the URL":      {url: "redis://:" + secret + "@" + server.Addr()},
		"in a variable":   {url: "redis://" + server.Addr(), variable: secret},
		"in a file":       {url: "redis://" + server.Addr(), flags: []string{"--password-file", file}},
		"everything told": {url: "redis://:" + secret + "@" + server.Addr(), flags: []string{"-v"}},
	} {
		args := append(append([]string{"run"}, c.flags...), "job", "-c", look)
		cmd := holdfast(t, c.url, args...)
		cmd.Env = append(cmd.Env, "HOLDFAST_REDIS_PASSWORD="+c.variable, "HOLDFAST_REDIS_SENTINEL_PASSWORD="+secret, "HOLDFAST_DASHBOARD_TOKEN="+secret,
			"HOLDFAST_REDIS_OF_TOMORROW="+secret, "REDIS_URL=redis://theirs")
		if what == "everything told" {
			cmd.Env = append(cmd.Env, "HOLDFAST_REDIS_SENTINEL_PASSWORD=")
		}
		out, err := cmd.CombinedOutput()
		if got := code(t, err); got != 0 {
			t.Errorf("%s: exit code %d: %s", what, got, out)
		}
		if text := string(out); strings.Contains(text, secret) {
			t.Errorf("%s: the command sees it: %s", what, linesWith(text, secret))
		} else if !strings.Contains(text, "HOLDFAST_LOCK=job") || !strings.Contains(text, "REDIS_URL=redis://theirs") {
			t.Errorf("%s: what is the command's, it does not see", what)
		}
	}
}

// linesWith are those of a text.
func linesWith(text, part string) (found string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found += line
		}
	}
	return found
}

// TestNoCommandShowsACredential has every command work, and fail, on a server with a user and a password.
func TestNoCommandShowsACredential(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tW0rd"
	server := redistest.Start(t)
	server.Cli(t, "HSET", "job", javaOwner, "1")
	server.Cli(t, "ACL", "SETUSER", "ann", "on", ">"+secret, "~*", "&*", "+@all")
	server.Cli(t, "ACL", "SETUSER", "low", "on", ">"+secret, "~none", "-@all", "+ping")
	withoutAuth := redistest.Start(t, redistest.WithConfig(`rename-command AUTH ""`, `rename-command HELLO ""`)) // it says to which arguments it does not know the command
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for what, url := range map[string]string{
		"right":       "redis://ann:" + secret + "@" + server.Addr(),
		"wrong":       "redis://u" + secret + ":wrong" + secret + "@" + server.Addr(),
		"no rights":   "redis://low:" + secret + "@" + server.Addr(),
		"silent":      "redis://ann:" + secret + "@" + silent.Addr().String(),
		"no AUTH":     "redis://ann:" + secret + "@" + withoutAuth.Addr(),
		"no TLS":      "rediss://ann:" + secret + "@" + server.Addr(),
		"no sentinel": "redis+sentinel://ann:" + secret + "@" + server.Addr() + "/m",
		"no cluster":  "redis://ann:" + secret + "@" + server.Addr() + "?cluster=true",
		"malformed":   "redis://ann:" + secret + "/@" + server.Addr(),
	} {
		for _, args := range [][]string{
			{"run", "-v", "--wait", "1s", "other", "--", "true"},
			{"run", "--json-status", "2", "other", "--", "redis://u:" + secret + "@h"},
			{"run", "--json-status", "2", "--wait", "1s", "redis://u:" + secret + "@h", "--", "true"},
			{"ls"},
			{"ls", "--json"},
			{"show", "job"},
			{"show", "--json", "job"},
			{"wait", "--wait", "100ms", "job"},
			{"unlock", "--force", "--yes", "none"},
			{"doctor"},
			{"doctor", "--json"},
			{"bench", "--duration", "100ms", "--json"},
			{"demo", "--plain", "latch"},
			{"watch"},
			{"version"},
			{"help", "run"},
		} {
			t.Run(what+"/"+strings.Join(args, " "), func(t *testing.T) {
				if len(args) < 6 || !strings.Contains(args[5], secret) { // else it is a lock's name, which the others are to show
					t.Parallel()
				}
				out, err := holdfast(t, url, args...).CombinedOutput()
				got, text := code(t, err), string(out)
				if strings.Contains(text, secret) || got < 0 {
					t.Errorf("exit code %d: %s", got, linesWith(text, secret))
				}
				if what == "no AUTH" && strings.Contains(text, "check that it runs there") {
					t.Errorf("it has answered: %s", text)
				}
			})
		}
	}
}

// TestHostileContents has the tool look at what somebody has written who wants it to fall, or to hide something, and take it away.
func TestHostileContents(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	long, escapes := strings.Repeat("x", 1<<20), "\x1b]0;own\x07\x1b[2J<script>alert(1)</script>\u202e"
	field := strings.Replace(javaOwner, "-4", "-8", 1) // one of holdfast's, perhaps
	names := map[string][]string{}                     // by what can be done: forced, refused
	put := func(class, name string, args ...string) {
		names[class] = append(names[class], name)
		server.Cli(t, append([]string{args[0], name}, args[1:]...)...)
	}
	for i, count := range []string{"1e3", "nan", "inf", "0x10", "-5", "0", "007", "9223372036854775808", "abc", " 1", escapes, strings.Repeat("9", 100_000)} {
		put("forced", fmt.Sprint("count", i), "HSET", javaOwner, count)
		switch i % 3 { // each is a few processes
		case 0:
			put("forced", fmt.Sprint("ours", i), "HSET", field, count)
		case 1:
			put("forced", fmt.Sprint("writer", i), "HSET", "mode", "write", javaOwner+":write", count)
		case 2:
			put("refused", fmt.Sprint("number", i), "SET", count)
		}
	}
	put("refused", "fields", "HSET", "user", "bob", "mail", "x")
	put("refused", "list", "RPUSH", "x")
	put("refused", "word", "HSET", escapes, "1")
	put("refused", "modes", "HSET", "mode", escapes, javaOwner, "1")
	put("forced", "name "+escapes, "HSET", javaOwner, "1")
	put("forced", "suffix", "HSET", javaOwner+":"+escapes, "1")
	put("refused", "long owner", "HSET", javaOwner+":"+long[:100_000], "1")
	server.Cli(t, "RPUSH", "redisson_lock_queue:{fair}", escapes, long[:100_000], "")
	put("forced", "fair", "HSET", javaOwner, "1")
	server.Cli(t, "HSET", "holdfast_client:"+field[:18], "program", escapes, "host", long[:100_000], "version", escapes, "pid", "1e3", "since", "nan")
	redisURL := "redis://" + server.Addr()
	try := func(args ...string) (int, string) {
		t.Helper()
		began := time.Now()
		out, err := holdfast(t, redisURL, args...).CombinedOutput()
		got, text := code(t, err), string(out)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%.100q took %v", args, took)
		}
		if i := strings.IndexFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%.100q: it writes control characters: %.300q", args, text)
		}
		if len(text) > 256<<10 || strings.Contains(text, "panic:") || got > 78 {
			t.Errorf("%.100q: exit code %d, %d bytes: %.300q", args, got, len(text), text)
		}
		return got, text
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--all"}, {"doctor"}} {
		try(args...)
	}
	page, end := startDashboard(t, redisURL)
	for _, all := range names {
		for _, name := range all {
			page("api/lock?id=" + url.QueryEscape(url.PathEscape(name)))
		}
	}
	end()
	for class, all := range names {
		for _, name := range all {
			try("show", "--", name)
			got, text := try("unlock", "--force", "--yes", "--", name)
			if class == "forced" && got != 0 || class == "refused" && got != 65 {
				t.Errorf("%s: unlock of %.40q: exit code %d: %.200s", class, name, got, text)
			}
			if class == "forced" {
				if got, text := try("run", "--try", "--", name, "--", "true"); got != 0 && name != "fair" {
					t.Errorf("run of %.40q: exit code %d: %.200s", name, got, text)
				}
			}
		}
	}
}

// startDashboard starts one, and returns what looks at a page of it, which is to be an answer in JSON of a bearable length, and what ends it.
func startDashboard(t *testing.T, url string) (look func(path string), end func()) {
	t.Helper()
	d := serveDashboard(t, holdfast(t, url, "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms"))
	eventually(t, "it has looked", func() bool {
		_, text := getOf(t, d.at+"api/locks")
		return strings.Contains(text, javaOwner)
	})
	look = func(path string) {
		t.Helper()
		status, text := getOf(t, d.at+path)
		if !json.Valid([]byte(text)) || len(text) > 256<<10 || status >= 500 && status != http.StatusBadGateway || strings.ContainsAny(text, "\x1b\u202e\x07") {
			t.Errorf("%.100s: %d, %d bytes: %.300q", path, status, len(text), text)
		}
	}
	return look, func() {
		if got := d.ends(t, syscall.SIGTERM); got != 143 || strings.Count(d.said.String(), "\n") != 1 {
			t.Errorf("the dashboard: exit code %d: %.300q", got, d.said)
		}
	}
}
