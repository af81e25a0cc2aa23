package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// An Option changes how [Start] configures a server.
type Option func(*config)

type config struct {
	directives []string // each a line of redis.conf
	variables  []string // each NAME=VALUE, beside ours
	tls        bool
	password   string
	appendOnly bool
	sentinel   bool
	port       func() (int, error) // picks a port to try
}

func newConfig(opts []Option) config {
	cfg := config{port: freePort}
	for _, opt := range opts {
		opt(&cfg)
	}
	return cfg
}

// WithConfig adds lines to the server's configuration file, each one directive
// as in redis.conf, such as "maxmemory 10mb". They win over the defaults.
func WithConfig(directives ...string) Option {
	return func(c *config) { c.directives = append(c.directives, directives...) }
}

// WithEnvironment adds variables to the environment of the server's process, each NAME=VALUE.
func WithEnvironment(variables ...string) Option {
	return func(c *config) { c.variables = append(c.variables, variables...) }
}

// WithTLS makes the server accept TLS only, with a certificate for 127.0.0.1
// and localhost from a certificate authority made for this server. Clients
// need no certificate. [Server.TLSConfig] trusts that authority.
func WithTLS() Option {
	return func(c *config) { c.tls = true }
}

// WithPassword makes the server ask for a password.
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithAppendOnly makes the server write every change to disk before it
// answers, so that [Server.Restart] finds all that was acknowledged.
func WithAppendOnly() Option {
	return func(c *config) { c.appendOnly = true }
}

// file returns the text of the configuration file for a server in dir.
func (c *config) file(dir string, port int) string {
	lines := []string{
		"bind 127.0.0.1",
		"protected-mode no",
		"dir " + strconv.Quote(dir),
		"loglevel notice",
		"logfile " + strconv.Quote(logFile(dir)),
	}
	if c.tls {
		lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", port), "tls-auth-clients no",
			"tls-cert-file "+strconv.Quote(certFile(dir)),
			"tls-key-file "+strconv.Quote(keyFile(dir)),
			"tls-ca-cert-file "+strconv.Quote(caFile(dir)))
	} else {
		lines = append(lines, fmt.Sprintf("port %d", port))
	}
	if !c.sentinel {
		// A replica's first synchronisation would otherwise wait for others.
		lines = append(lines, `save ""`, "repl-diskless-sync-delay 0")
	}
	if c.password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(c.password))
	}
	if c.appendOnly {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	lines = append(lines, c.directives...)
	return strings.Join(lines, "\n") + "\n"
}
