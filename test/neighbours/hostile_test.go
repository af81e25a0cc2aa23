package neighbours

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/test/kit"
)

// A server may be hostile, or another program may answer in its place. These tests assert what the Redis clients do then: the library cannot change
// that, and docs/security.md has what to do.

const secret = "s3cr3tW0rd"

// A fake is a server that replies what a test wants, and notes what it reads.
type fake struct {
	listener net.Listener
	served   sync.WaitGroup

	mu    sync.Mutex
	read  bytes.Buffer
	conns []net.Conn
}

// listen starts a fake, with TLS unless config is nil. replies is told the fake's address.
func listen(t *testing.T, config *tls.Config, replies func(own string) func(args []string) string) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.OK(t, err)
	reply := replies(listener.Addr().String())
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	f := &fake{listener: listener}
	f.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.served.Go(func() { f.serve(conn, reply) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		for _, conn := range f.conns {
			_ = conn.Close()
		}
		f.mu.Unlock()
		f.served.Wait()
	})
	return f
}

// serve replies to each request of a connection.
func (f *fake) serve(conn net.Conn, reply func(args []string) string) {
	in := bufio.NewReader(io.TeeReader(conn, f))
	line := func() int { // *N or $N
		text, err := in.ReadString('\n')
		if err != nil || len(text) < 2 {
			return -1
		}
		n, err := strconv.Atoi(strings.TrimSpace(text[1:]))
		if err != nil {
			return -1
		}
		return n
	}
	for {
		var args []string
		for range max(line(), 0) {
			arg := make([]byte, max(line(), 0)+len("\r\n"))
			_, _ = io.ReadFull(in, arg)
			args = append(args, string(arg[:len(arg)-len("\r\n")]))
		}
		if len(args) == 0 {
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(conn, reply(args))
	}
}

// Write notes what was read.
func (f *fake) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read.Write(p)
}

// knows reports whether it has read a text.
func (f *fake) knows(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.read.String(), text)
}

// met reports whether anybody has connected.
func (f *fake) met() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns) > 0
}

func (f *fake) addr() string { return f.listener.Addr().String() }

// greeting is the reply to what a client sends first, as by a server that knows RESP2 alone.
func greeting(args []string) string {
	switch command := strings.ToUpper(args[0]); {
	case command == "HELLO" && args[1] == "2":
		return bulks("server", "redis", "version", "6.0.0", "proto", "2")
	case command == "PING":
		return "+PONG\r\n"
	case command == "HELLO", command == "COMMAND":
		return "-ERR unknown command\r\n"
	}
	return "+OK\r\n"
}

// bulks is an array of texts.
func bulks(texts ...string) string {
	all := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		all += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return all
}

// announcers name an address, as sentinels and nodes of a cluster do.
var announcers = map[string]func(own, announced string) func(args []string) string{
	"sentinel": func(_, announced string) func(args []string) string {
		host, port, _ := net.SplitHostPort(announced)
		return func(args []string) string {
			switch command := strings.ToUpper(strings.Join(args[:min(2, len(args))], " ")); {
			case command == "SENTINEL GET-MASTER-ADDR-BY-NAME":
				return bulks(host, port)
			case strings.HasPrefix(command, "SENTINEL"):
				return "*0\r\n"
			case strings.Contains(command, "SUBSCRIBE"):
				return "" // nobody waits for it
			}
			return greeting(args)
		}
	},
	"CLUSTER SLOTS": func(_, announced string) func(args []string) string { return clusterOf(announced, "+OK\r\n") },
	"MOVED": func(own, announced string) func(args []string) string {
		return clusterOf(own, "-MOVED 16287 "+announced+"\r\n") // the slot of x
	},
	"ASK": func(own, announced string) func(args []string) string {
		return clusterOf(own, "-ASK 16287 "+announced+"\r\n")
	},
}

// clusterOf replies as a node of a cluster, of which one node owns all slots.
func clusterOf(owner, toGet string) func(args []string) string {
	return func(args []string) string {
		host, port, _ := net.SplitHostPort(owner)
		switch strings.ToUpper(args[0]) {
		case "CLUSTER":
			return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$1\r\nx\r\n", len(host), host, port)
		case "GET":
			return toGet
		}
		return greeting(args)
	}
}

// gets asks for a key so often through each Redis client, as a program that has a password for its server.
var gets = map[string]func(addr string, sentinel bool, config *tls.Config, times int){
	"go-redis": func(addr string, sentinel bool, config *tls.Config, times int) {
		options := &redis.UniversalOptions{
			Addrs: []string{addr}, Password: secret, TLSConfig: config, IsClusterMode: !sentinel, MaxRetries: 1,
			DialTimeout: time.Second, ReadTimeout: patience,
		}
		if sentinel {
			options.MasterName = "m"
		}
		rdb := redis.NewUniversalClient(options)
		defer rdb.Close()
		for range times {
			_ = rdb.Do(background, "GET", "x").Err() // as for a script, whatever comes is read
		}
	},
	"rueidis": func(addr string, sentinel bool, config *tls.Config, times int) {
		option := rueidis.ClientOption{
			InitAddress: []string{addr}, Password: secret, TLSConfig: config, DisableCache: true, AlwaysRESP2: true,
			DisableRetry: true, AlwaysPipelining: true, // as with several goroutines
		}
		if sentinel {
			option.Sentinel = rueidis.SentinelOption{MasterSet: "m", TLSConfig: config}
		} else {
			option.InitAddress = append(option.InitAddress, addr) // a cluster
		}
		ctx, cancel := context.WithTimeout(background, patience)
		defer cancel()
		client, err := rueidis.NewClient(option)
		if err != nil {
			return
		}
		defer client.Close()
		for range times {
			_ = client.Do(ctx, client.B().Get().Key("x").Build()).Error()
		}
	},
}

// TestAnnouncedAddresses: a client sends its password to whatever address a sentinel, CLUSTER SLOTS, MOVED or ASK names: in clear without TLS, and with
// TLS to anybody who has a certificate for that address from an authority that the client trusts. With ServerName, only the server's name will do.
func TestAnnouncedAddresses(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	trusting := &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}
	named := &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12, ServerName: "redis.internal"}
	server := ca.issue(t, &x509.Certificate{DNSNames: []string{"redis.internal"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	for what, c := range map[string]struct {
		client               *tls.Config
		announcing, impostor *tls.Config
		told                 bool // the password
	}{
		"without TLS":                    {nil, nil, nil, true},
		"TLS, another authority":         {trusting, server, newAuthority(t).issue(t, &x509.Certificate{DNSNames: []string{"redis.internal", "localhost"}}), false},
		"TLS, a certificate of its own":  {trusting, server, ca.issue(t, &x509.Certificate{DNSNames: []string{"localhost"}}), true},
		"TLS, and a ServerName":          {named, server, ca.issue(t, &x509.Certificate{DNSNames: []string{"localhost"}}), false},
		"TLS, but the impostor has none": {trusting, server, nil, false},
	} {
		for announcer, announce := range announcers {
			for client, get := range gets {
				t.Run(what+"/"+announcer+"/"+client, func(t *testing.T) {
					t.Parallel()
					impostor := listen(t, c.impostor, func(string) func([]string) string {
						return func([]string) string { return "-ERR x\r\n" }
					})
					_, port, _ := net.SplitHostPort(impostor.addr())
					hostile := listen(t, c.announcing, func(own string) func([]string) string {
						return announce(own, net.JoinHostPort("localhost", port)) // not the name of the other one
					})
					get(hostile.addr(), announcer == "sentinel", c.client, 1)
					if !impostor.met() {
						t.Fatal("it does not go there")
					}
					if told := impostor.knows(secret); told != c.told {
						t.Errorf("the impostor knows the password: %v, want %v", told, c.told)
					}
				})
			}
		}
	}
}

// An authority issues certificates.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.OK(t, err)
	a := &authority{key: key}
	a.certificate = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key)
	return a
}

// sign issues what template says, for an hour.
func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.certificate
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	kit.OK(t, err)
	certificate, err := x509.ParseCertificate(der)
	kit.OK(t, err)
	return certificate
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue returns the configuration of a server with a certificate for the names in template.
func (a *authority) issue(t *testing.T, template *x509.Certificate) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.OK(t, err)
	certificate := a.sign(t, template, key)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}},
	}
}

// hostileReplies end a program that reads them: the values say which error Go ends it with, by client.
var hostileReplies = map[string]map[string]string{
	strings.Repeat("*1\r\n", 3_000_000): {"go-redis": "stack overflow", "rueidis": "stack overflow"},
	"*9223372036854775807\r\n":          {"go-redis": "makeslice", "rueidis": "makeslice"},
	"%1\r\n*0\r\n+OK\r\n":               {"go-redis": "hash of unhashable type"},
	strings.Repeat("+OK\r\n", 100):      {"rueidis": "protocol bug"}, // nothing has asked for the others; go-redis closes the connection
}

// programAt is the variable that makes the test binary a program that asks a server for a key: its value is the name of a Redis client and an address.
const programAt = "NEIGHBOURS_PROGRAM"

// program is what the test binary does then.
func program(client, addr string) {
	debug.SetMaxStack(64 << 20) // so that the reply, and the stack, need not be as large
	gets[client](addr, false, nil, 10)
}

// TestHostileReplies: a server that replies what no server does ends the program that asks: both clients allocate what a reply announces, and read nested
// ones recursively. The library and the adapters see a reply only after the client has read it.
func TestHostileReplies(t *testing.T) {
	t.Parallel()
	for hostile, ends := range hostileReplies {
		for client := range gets {
			t.Run(fmt.Sprintf("%.12q/%s", hostile, client), func(t *testing.T) {
				t.Parallel()
				server := listen(t, nil, func(own string) func([]string) string { return clusterOf(own, hostile) })
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), programAt+"="+client+" "+server.addr())
				out, err := cmd.CombinedOutput()
				if want := ends[client]; (err == nil) != (want == "") || !strings.Contains(string(out), want) {
					t.Errorf("it ends with %v, want %q: %.300s", err, want, out)
				}
			})
		}
	}
}
