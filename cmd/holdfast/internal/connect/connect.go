package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ioTimeout bounds one dial, one write and one read.
const ioTimeout = 3 * time.Second

// Options say which Redis to use and how.
type Options struct {
	// URL is one of [Forms].
	URL string
	// Password is the server's, and SentinelPassword that of the sentinels, who have no URL of
	// their own.
	Password, SentinelPassword Password
	// SentinelUser is the user name at the sentinels.
	SentinelUser string
	// CAFile, if not empty, is a PEM file with the authorities to trust.
	CAFile string
	// CertFile and KeyFile, if not empty, are PEM files with the client's certificate and its key.
	CertFile, KeyFile string
	// InsecureSkipVerify allows the URL to switch the checks of the server's
	// certificate off.
	InsecureSkipVerify bool
}

// Password says where a password is.
type Password struct {
	// Text, if not empty, is used instead of the URL's. It comes from the environment.
	Text string
	// File, if not empty, is a file with the password in its first line. It comes before
	// all other passwords.
	File string
}

// Target is a Redis to connect to.
type Target struct {
	address

	sentinelUser, sentinelPassword string
	tlsConfig                      *tls.Config // nil without TLS
}

// Dial opens a connection.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Resolve checks options and reads the files that they name. It does not touch
// Redis. No error repeats a credential.
func (o Options) Resolve() (*Target, error) {
	a, err := parse(o.URL)
	if err != nil {
		return nil, firstOf(err)
	}
	t := &Target{address: a, sentinelUser: o.SentinelUser}
	if t.password, err = o.Password.or(a.password); err != nil {
		return nil, err
	}
	if t.sentinelPassword, err = o.SentinelPassword.or(""); err != nil {
		return nil, err
	}
	if err := t.check(o); err != nil || !t.tls {
		return t, err
	}
	return t, t.configureTLS(o)
}

// check refuses options that make no sense with the URL.
func (t *Target) check(o Options) error {
	switch {
	case t.master == "" && (o.SentinelUser != "" || o.SentinelPassword.File != ""):
		return errors.New("the Redis URL names no sentinels, so a user or a password of theirs makes no sense; they are redis+sentinel://")
	case t.skipVerify && !o.InsecureSkipVerify:
		return errors.New("skip_verify in the Redis URL gives up the protection of TLS; " +
			"it is refused without --insecure-skip-verify")
	case !t.tls && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || t.skipVerify):
		return errors.New("the Redis URL does not use TLS, so the TLS options make no sense; TLS is rediss://")
	}
	return nil
}

// firstOf is the first of joined errors: one sentence is enough.
func firstOf(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

// or returns the password, or that of the URL if there is no other.
func (p Password) or(ofURL string) (string, error) {
	switch {
	case p.File != "":
		return FirstLine(p.File, "password")
	case p.Text != "":
		return p.Text, nil
	default:
		return ofURL, nil
	}
}

// FirstLine reads a secret, of which what says what it is, from the first line of a file.
func FirstLine(file, what string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // whoever starts the tool names it
	if err != nil {
		return "", fmt.Errorf("the %s file cannot be read: %w", what, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("the %s file %s has no %s in its first line", what, file, what)
	}
	return line, nil
}

func (t *Target) configureTLS(o Options) (err error) {
	t.tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.skipVerify} //nolint:gosec // only on request
	if t.tlsConfig.RootCAs, err = o.authorities(); err != nil || o.CertFile == "" && o.KeyFile == "" {
		return err
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return errors.New("a client certificate takes both, --tls-cert and --tls-key")
	}
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return fmt.Errorf("the client certificate cannot be used: %w", err)
	}
	t.tlsConfig.Certificates = []tls.Certificate{certificate}
	return nil
}

// authorities returns nil, the system's, if no file is named.
func (o Options) authorities() (*x509.CertPool, error) {
	if o.CAFile == "" {
		return nil, nil //nolint:nilnil // nil is the system's pool
	}
	text, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("the CA file cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the CA file %s has no PEM certificate", o.CAFile)
	}
	return pool, nil
}

// String names the hosts, without any credential.
func (t *Target) String() string {
	hosts := strings.Join(t.hosts, ", ")
	switch {
	case t.master != "":
		return fmt.Sprintf("master %s of the sentinels %s", t.master, hosts)
	case t.cluster:
		return "cluster " + hosts
	default:
		return hosts
	}
}

// Dial opens a connection as [Target.Client] does unless told otherwise.
func (t *Target) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: ioTimeout}
	if t.tlsConfig == nil {
		return dialer.DialContext(ctx, network, addr)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: t.tlsConfig}).DialContext(ctx, network, addr)
}

// Client returns a client. It does no I/O yet. dial is [Target.Dial], or a
// wrapper around it.
func (t *Target) Client(dial Dial) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: t.hosts, MasterName: t.master, IsClusterMode: t.cluster, DB: t.db,
		Username: t.user, Password: t.password,
		SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
		Dialer: dial, TLSConfig: t.tlsConfig, DialerRetries: 1,
		DialTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if t.cluster && t.db != 0 { // the client selects none there, for most clusters have one only
		options.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return conn.Select(ctx, t.db).Err() }
	}
	return redis.NewUniversalClient(options)
}

// Quiet keeps the Redis client from writing log lines to standard error. What
// there is to say comes in the errors of calls.
func Quiet() { redis.SetLogger(silence{}) }

type silence struct{}

// Printf drops the line.
func (silence) Printf(context.Context, string, ...any) {}
