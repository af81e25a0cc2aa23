package doctor

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// TestMain keeps the client's log lines away.
func TestMain(m *testing.M) {
	connect.Quiet()
	m.Run()
}

// seen are the findings of one look.
type seen struct {
	t        *testing.T
	findings []Finding
	report   Report
}

// look runs the checks against a URL, and holds each to its worst severity.
func look(t *testing.T, options connect.Options, change ...func(*Config)) *seen {
	t.Helper()
	target, err := options.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Target: target, Prefix: "holdfast_doctor", Timeout: time.Minute, Now: time.Now}
	for _, f := range change {
		f(&cfg)
	}
	s := &seen{t: t}
	s.report, err = Run(t.Context(), cfg, func(findings []Finding) {
		s.findings = append(s.findings, findings...)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.findings {
		i := slices.IndexFunc(Checks, func(c Check) bool { return c.ID == f.Check })
		if i < 0 || f.Severity != Unknown && f.Severity.worse(Checks[i].Worst) {
			t.Errorf("%+v is worse than its check can be", f)
		}
		if f.Found == "" || (f.Do == "") != (f.Severity == Pass) {
			t.Errorf("%+v does not say what to do, or what for", f)
		}
		if f.Severity == Pass && strings.Contains(f.Found, "no lock can be taken") {
			t.Errorf("%+v passes, and says that locks fail", f)
		}
	}
	return s
}

func at(s *redistest.Server) connect.Options { return connect.Options{URL: "redis://" + s.Addr()} }

// finds wants a finding of a check, with a severity, that has some words in what it says.
func (s *seen) finds(check string, severity Severity, says string) {
	s.t.Helper()
	for _, f := range s.findings {
		if f.Check == check && f.Severity == severity && strings.Contains(f.Found+" "+strings.Join(f.Where, " "), says) {
			return
		}
	}
	s.t.Errorf("%s does not find %q, %s; it has %+v", check, says, severity, s.of(check))
}

func (s *seen) of(check string) (all []Finding) {
	for _, f := range s.findings {
		if f.Check == check {
			all = append(all, f)
		}
	}
	return all
}

// nothingWorse wants no finding worse than a severity, but of some checks, and of those whose
// bounds a loaded machine may exceed.
func (s *seen) nothingWorse(than Severity, but ...string) {
	s.t.Helper()
	but = append(but, "latency", "lock-latency", "clock", "blocking")
	for _, f := range s.findings {
		if f.Severity.worse(than) && !slices.Contains(but, f.Check) {
			s.t.Errorf("%+v", f)
		}
	}
}

// leavesNothing wants no key and no channel on a server.
func leavesNothing(t *testing.T, s *redistest.Server) {
	t.Helper()
	if left := s.Cli(t, "KEYS", "*") + s.Cli(t, "PUBSUB", "CHANNELS"); left != "" && left != "kept" {
		t.Errorf("left behind: %s", left)
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithAppendOnly(), redistest.WithPassword("s3cret"))
	s := look(t, connect.Options{URL: "redis://:s3cret@" + server.Addr()})
	s.nothingWorse(Pass)
	for _, check := range []string{
		"reachable", "password", "version", "role", "eviction", "memory", "persistence", "replicas", "min-replicas", "output-buffers", "idle-timeout",
		"tcp-keepalive", "clients", "script-limit", "script-isolation", "scripts", "rights", "locks",
	} {
		s.finds(check, Pass, "")
	}
	for _, check := range []string{"clock", "latency", "lock-latency", "blocking"} {
		if len(s.of(check)) == 0 {
			t.Errorf("%s finds nothing", check)
		}
	}
	left := server.Cli(t, "KEYS", "*") + server.Cli(t, "PUBSUB", "CHANNELS")
	if left != "" {
		t.Errorf("left behind: %s", left)
	}
	for _, f := range s.findings {
		if strings.Contains(f.Found+f.Do, "s3cret") {
			t.Errorf("it shows a password: %+v", f)
		}
	}
}

// TestScriptIsolation has what servers say of a function that only scripts of some have.
func TestScriptIsolation(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]Severity{
		"": Warning, // Redis 6.0, Valkey 8.0.1
		"ERR user_script:1: Script attempted to access nonexistent global variable 'setfenv' script: 379d4274b4, on @user_script:1.": Pass,
		"NOPERM User limited has no permissions to run the 'eval' command":                                                           Unknown,
	} {
		var err error
		if says != "" {
			err = errors.New(says)
		}
		if found := isolation(err); len(found) != 1 || found[0].Severity != want || want == Unknown && found[0].Found != "EVAL is refused to this user" {
			t.Errorf("%q: %+v", says, found)
		}
	}
}

// TestBadlySet has a server all of whose settings are bad. What else they may be, [TestFacts] has.
func TestBadlySet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig(
		"maxmemory 100mb", "maxmemory-policy allkeys-lru", "appendonly yes", "appendfsync no", "timeout 5", "tcp-keepalive 0",
		"client-output-buffer-limit pubsub 64kb 32kb 10", "lua-time-limit 60000", "slowlog-log-slower-than -1",
	))
	s := look(t, at(server))
	s.finds("eviction", Failure, "allkeys-lru evicts locks")
	s.finds("persistence", Warning, "appendfsync no")
	s.finds("output-buffers", Warning, "when 64.0 KB wait")
	s.finds("idle-timeout", Warning, "idle for 5 s")
	s.finds("tcp-keepalive", Warning, "dead clients are never found")
	s.finds("blocking", Unknown, "slow log does not note")
	s.finds("script-limit", Warning, "after 1m0s only")
}

// TestBadServer has servers that are in a bad way, each in another one.
func TestBadServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config   []string
		before   func(t *testing.T, s *redistest.Server)
		check    string
		severity Severity
		says     string
	}{
		"no memory":         {[]string{"maxmemory 500kb"}, nil, "memory", Failure, "writes are refused"},
		"no memory, locks":  {[]string{"maxmemory 500kb"}, nil, "locks", Failure, "it has no memory left for writes"},
		"little memory":     {nil, littleMemory, "memory", Warning, "when it is full"},
		"nothing on disk":   {nil, nil, "persistence", Warning, "a restart forgets every lock"},
		"snapshot failed":   {[]string{"save 3600 1"}, snapshotFails, "persistence", Failure, "the last snapshot failed"},
		"needs replicas":    {[]string{"min-replicas-to-write 1"}, nil, "min-replicas", Failure, "writes need 1 replicas, and 0 are there"},
		"many clients":      {[]string{"maxclients 30"}, manyConnections, "clients", Warning, " of 30: when they are used up"},
		"slow script":       {nil, slowScript, "blocking", Warning, "the longest, EVAL, "},
		"slow on the whole": {nil, slowScript, "blocking", Warning, "these commands are slow: EVAL (1 calls of "},
		"part of a cluster": {[]string{"cluster-enabled yes"}, nil, "cluster-mode", Failure, "one node of a cluster"},
		"all fail alike":    {[]string{"cluster-enabled yes"}, nil, "locks", Failure, "all kinds: lock and unlock failed: it is one node of a cluster"},
		"no scripts":        {[]string{`rename-command EVAL ""`}, nil, "scripts", Failure, "this user may not use EVAL, and the "},
		"no LPOS":           {[]string{`rename-command LPOS ""`}, nil, "rights", Warning, "these kinds do not work for this user: fair, fair-fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithConfig(c.config...))
			if c.before != nil {
				c.before(t, server)
			}
			s := look(t, at(server))
			s.finds(c.check, c.severity, c.says)
			if c.severity.worse(s.report.Worst) {
				t.Errorf("at worst it is %s", s.report.Worst)
			}
			leavesNothing(t, server)
		})
	}
}

// littleMemory sets a limit that is nearly reached.
func littleMemory(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Cli(t, "SETRANGE", "kept", strconv.Itoa(64<<20), "x")
	used := number(fields(s.Cli(t, "INFO", "memory"))["used_memory"])
	s.Cli(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(used*100/95))
}

func snapshotFails(t *testing.T, s *redistest.Server) {
	t.Helper()
	_, dir, _ := strings.Cut(s.Cli(t, "CONFIG", "GET", "dir"), "\n")
	if err := os.Mkdir(dir+"/dump.rdb", 0o700); err != nil { // where the file should be
		t.Fatal(err)
	}
	s.Cli(t, "BGSAVE")
	until(t, "the snapshot has failed", func() bool { return strings.Contains(s.Cli(t, "INFO", "persistence"), "rdb_last_bgsave_status:err") })
}

// manyConnections opens some, and keeps them until the test ends.
func manyConnections(t *testing.T, s *redistest.Server) {
	t.Helper()
	for range 24 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	until(t, "they are counted", func() bool { return strings.Count(s.Cli(t, "CLIENT", "LIST"), "addr=") > 24 })
}

func slowScript(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Cli(t, "EVAL", `local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
		local till = now() + 150000
		while now() < till do end`, "0")
}

// until waits for an event.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

// TestRefused has servers that refuse what checks want to know: that is no failure.
func TestRefused(t *testing.T) {
	t.Parallel()
	t.Run("by the server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithConfig(`rename-command CONFIG ""`, `rename-command SLOWLOG ""`, `rename-command ACL ""`))
		s := look(t, at(server))
		s.finds("output-buffers", Unknown, "CONFIG is refused")
		s.finds("persistence", Unknown, "CONFIG is refused")
		s.finds("blocking", Unknown, "SLOWLOG is refused")
		s.nothingWorse(Unknown)
	})
	t.Run("to the user", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		loadScripts(t, server)
		allow(t, server, "bob", withoutEval(withLine(rights.Kinds()[0], "orders:*", rights.Server{})))
		s := look(t, connect.Options{URL: "redis://bob:pw@" + server.Addr()}, func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} })
		for _, check := range []string{"version", "role", "eviction", "memory", "persistence", "replicas", "clients"} {
			s.finds(check, Unknown, "INFO is refused to this user")
		}
		for _, check := range []string{"min-replicas", "output-buffers", "idle-timeout", "tcp-keepalive", "script-limit"} {
			s.finds(check, Unknown, "CONFIG is refused to this user")
		}
		s.nothingWorse(Unknown)
		s.finds("rights", Pass, "mutex")
		s.finds("locks", Pass, "mutex")
		leavesNothing(t, server)
	})
}

// TestUnreachable has what cannot be used at all.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword("right"))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, c := range map[string]struct{ url, says string }{
		"no password":    {"redis://" + server.Addr(), "it wants a password"},
		"wrong password": {"redis://:wr0ng@" + server.Addr(), "the password is wrong"},
		"no database":    {"redis://:right@" + server.Addr() + "/99", "fewer databases"},
		"nobody":         {"redis://:wr0ng@127.0.0.1:1", "check that it runs there"},
		"no TLS":         {"rediss://:wr0ng@" + server.Addr(), "cannot be used"},
		"silent":         {"redis://:wr0ng@" + silent.Addr().String(), "cannot be used"},
		"no socket":      {"unix:///nowhere.sock", "there is no such socket"},
		"no cluster":     {"redis://:wr0ng@127.0.0.1:1?cluster=true", "check that it runs there"},
		"no sentinel":    {"redis+sentinel://:wr0ng@127.0.0.1:1/m", "no sentinel names a server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := look(t, connect.Options{URL: c.url}, func(c *Config) { c.Timeout = 2 * time.Second })
			s.finds("reachable", Failure, c.says)
			if !s.report.Unreachable || s.report.Worst != Failure {
				t.Errorf("%+v", s.report)
			}
			for _, f := range s.findings {
				if f.Check != "reachable" && f.Check != "sentinels" || strings.Contains(f.Found, "wr0ng") {
					t.Errorf("%+v", f)
				}
			}
			if took := time.Since(began); took > 2*time.Second+closeLimit+5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestTimeout has a server that stops answering in between: the end comes in time.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	target, err := connect.Options{URL: "redis://" + proxy.Addr()}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var after []Finding
	cut := false
	if _, err := Run(t.Context(), Config{Target: target, Prefix: "p", Timeout: 2 * time.Second, Now: time.Now}, func(findings []Finding) {
		if !cut {
			proxy.BlackHole(redistest.Both, true)
		} else {
			after = append(after, findings...)
		}
		cut = true
	}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*time.Second+2*closeLimit+5*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, check := range []string{"latency", "locks"} {
		if slices.ContainsFunc(after, func(f Finding) bool { return f.Check == check && f.Severity == Pass }) {
			t.Errorf("%s passed without an answer", check)
		}
	}
	proxy.BlackHole(redistest.Both, false)
}

// TestInterrupted ends with the context.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	target, err := at(server).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	checks := 0
	if _, err := Run(ctx, Config{Target: target, Prefix: "p", Timeout: time.Minute, Now: time.Now}, func([]Finding) {
		checks++
		cancel()
	}); err != nil || checks != 1 {
		t.Errorf("%d checks, %v", checks, err)
	}
}

// TestNothingUnderOtherNames has only keys of the prefix: whoever kills it leaves nothing for long.
func TestNothingUnderOtherNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	target, err := at(server).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	tried := false
	if _, err := Run(t.Context(), Config{Target: target, Prefix: "p", Timeout: time.Minute, Now: time.Now}, func(findings []Finding) {
		tried = tried || findings[0].Check == "locks"
		if left := server.Cli(t, "KEYS", "holdfast_client:*"); left != "" {
			t.Errorf("at the check %s there is %s", findings[0].Check, left)
		}
	}); err != nil || !tried {
		t.Error(tried, err)
	}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	s := look(t, at(r.Replicas[0]))
	s.finds("role", Failure, "it is a replica of 127.0.0.1:")
	s.finds("locks", Failure, "it is a replica")
	s = look(t, at(r.Primary))
	s.finds("replicas", Pass, "1 online")
	r.Primary.Cli(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	look(t, at(r.Primary)).finds("min-replicas", Warning, "no more are there")
	r.Replicas[0].Stop()
	until(t, "the replica is behind", func() bool { return !strings.Contains(r.Primary.Cli(t, "INFO", "replication"), "lag=0") })
	until(t, "the doctor sees that it is behind", func() bool {
		found := false
		for _, f := range look(t, at(r.Primary)).of("replicas") {
			found = found || f.Severity == Warning && strings.Contains(f.Found, "was last heard of")
		}
		return found
	})
	r.Replicas[0].Cont()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS())
	_, ca, _ := strings.Cut(server.Cli(t, "CONFIG", "GET", "tls-ca-cert-file"), "\n")
	options := connect.Options{URL: "rediss://" + server.Addr(), CAFile: ca}
	s := look(t, options)
	s.finds("reachable", Pass, "TLS 1.")
	s.finds("certificate", Warning, "the certificate ends on") // in an hour
	s.finds("locks", Pass, "all kinds")
	s = look(t, options, func(c *Config) { c.Now = func() time.Time { return time.Now().AddDate(0, 0, -30) } })
	s.finds("certificate", Pass, "valid until")
	options = connect.Options{URL: options.URL + "?skip_verify=true", InsecureSkipVerify: true}
	look(t, options).finds("certificate", Warning, "not checked")
	look(t, connect.Options{URL: "rediss://" + server.Addr()}).finds("reachable", Failure, "its certificate is not trusted")
	look(t, connect.Options{URL: "redis://" + server.Addr()}).finds("reachable", Failure, "cannot be used")
}

func TestSocket(t *testing.T) {
	t.Parallel()
	socket := t.TempDir() + "/r"
	redistest.Start(t, redistest.WithConfig("unixsocket "+socket))
	s := look(t, connect.Options{URL: "unix://" + socket})
	s.finds("reachable", Pass, "a socket")
	s.finds("locks", Pass, "all kinds")
}

// TestClock has this machine's clock wrong.
func TestClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		s := look(t, at(server), func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-off) } })
		s.finds("clock", Warning, map[bool]string{true: " ahead of this machine's", false: " behind this machine's"}[off > 0])
	}
}

// TestClocksApart has servers whose clocks differ.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	for between, want := range map[time.Duration]Severity{20 * time.Second: Failure, 5 * time.Second: Warning, 500 * time.Millisecond: Pass} {
		e := &exam{nodes: []*node{{addr: "a"}, {addr: "b", offset: between / 2}, {addr: "c", offset: -between / 2}}}
		found := clock(t.Context(), e)
		if last := found[len(found)-1]; last.Severity != want || want != Pass && !strings.Contains(last.Found, "the clocks of c and b are "+between.String()+" apart") {
			t.Errorf("%v: %+v", between, found)
		}
	}
}

// TestSlowNetwork delays all that comes and goes.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(redistest.Both, 70*time.Millisecond)
	s := look(t, connect.Options{URL: "redis://" + proxy.Addr()})
	s.finds("latency", Warning, "every lock and unlock takes as long")
	s.finds("lock-latency", Warning, "a pair takes")
	if f := judgeLatency([]time.Duration{time.Millisecond, 3 * time.Second}, nil); f[0].Severity != Failure {
		t.Errorf("%+v", f)
	}
	leavesNothing(t, server)
}
