// Package connect turns a Redis URL, as operators write it, into a client.
//
// Nothing in it ever prints a URL or a part of one other than the hosts of a
// URL that it has understood: a URL may hold a password, and one that is
// malformed may hold it anywhere.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
)

const (
	// ioTimeout bounds one dial, one write and one read.
	ioTimeout = 3 * time.Second
	// sentinelTimeout bounds one read of a client that asks sentinels, with the same settings. One that is silent is
	// asked twice before the others are, in one dial: a dial that ends before a read never comes to the others.
	sentinelTimeout = time.Second
)

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
	// ServerName, if not empty, is the name that every certificate must have, in place of the host of the connection.
	ServerName string
	// Tenant, if not empty, is that of [Target.ClientOptions].
	Tenant string
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

// Target is a Redis to connect to. What stands in files is read for each connection: it may have been replaced. What cannot be read twice, such as
// a pipe, is read once.
type Target struct {
	address

	options   Options
	unreached unreached
	files     files
}

// Dial opens a connection.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Resolve checks options, and the files that they name. It does not touch
// Redis. No error repeats a credential.
func (o Options) Resolve() (*Target, error) {
	a, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	t := &Target{address: a, options: o}
	if _, _, err := t.credentials(context.Background()); err != nil {
		return nil, err
	}
	if _, _, err := t.sentinelCredentials(context.Background()); err != nil {
		return nil, err
	}
	if err := t.check(o); err != nil {
		return t, err
	}
	_, err = t.tlsConfig(context.Background())
	return t, err
}

// credentials are those at the server, as they are now.
func (t *Target) credentials(ctx context.Context) (user, password string, err error) {
	password, err = t.secretOf(ctx, t.options.Password, t.password)
	return t.user, password, err
}

// sentinelCredentials are those at the sentinels.
func (t *Target) sentinelCredentials(ctx context.Context) (user, password string, err error) {
	password, err = t.secretOf(ctx, t.options.SentinelPassword, "")
	return t.options.SentinelUser, password, err
}

// check refuses options that make no sense with the URL.
func (t *Target) check(o Options) error {
	switch {
	case t.master == "" && (o.SentinelUser != "" || o.SentinelPassword.File != ""):
		return errors.New("the Redis URL names no sentinels, so a user or a password of theirs makes no sense; they are redis+sentinel://")
	case t.skipVerify && !o.InsecureSkipVerify:
		return errors.New("skip_verify in the Redis URL gives up the protection of TLS; " +
			"it is refused without --insecure-skip-verify")
	case !t.tls && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || o.ServerName != "" || t.skipVerify):
		return errors.New("the Redis URL does not use TLS, so the TLS options make no sense; TLS is rediss://")
	}
	return nil
}

// secretOf returns the password, or that of the URL if there is no other.
func (t *Target) secretOf(ctx context.Context, p Password, ofURL string) (string, error) {
	switch {
	case p.File != "":
		return t.files.firstLine(ctx, p.File, "password")
	case p.Text != "":
		return secret(p.Text, "the password in the environment")
	default:
		return ofURL, nil
	}
}

// secret returns a secret without the white space around it, which is seldom part of it. It refuses a secret that is in quotes or
// has an invisible character in it. where names the secret in the error.
func secret(text, where string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case quoted(text):
		return "", errors.New(where + " is in quotes, which docker --env-file and the like keep; leave them out")
	case strings.ContainsFunc(text, invisible):
		return "", errors.New(where + " has an invisible character in it, such as a byte order mark; leave it out")
	}
	return text, nil
}

// tlsConfig is nil without TLS.
func (t *Target) tlsConfig(ctx context.Context) (*tls.Config, error) {
	if !t.tls {
		return nil, nil //nolint:nilnil // it is none
	}
	o := t.options
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName, InsecureSkipVerify: t.skipVerify} //nolint:gosec // only on request
	if o.CAFile != "" {                                                                                             // else the system's authorities
		text, err := t.files.read(ctx, o.CAFile, "CA")
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the CA file %s has no PEM certificate", o.CAFile)
		}
	}
	if o.CertFile == "" && o.KeyFile == "" {
		return config, nil
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errors.New("a client certificate takes both, --tls-cert and --tls-key")
	}
	cert, err := t.files.read(ctx, o.CertFile, "certificate")
	if err != nil {
		return nil, err
	}
	key, err := t.files.read(ctx, o.KeyFile, "key")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate cannot be used: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return config, nil
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
	if !slices.Contains(t.hosts, addr) {
		return t.unreached.dial(ctx, network, addr, t.dial)
	}
	return t.dial(ctx, network, addr, ioTimeout)
}

func (t *Target) dial(ctx context.Context, network, addr string, limit time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: limit}
	config, err := t.tlsConfig(ctx)
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return listenFirst(conn), nil
	}
	// A server without TLS is silent. The handshake ends before ctx does, so that the caller is told.
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, addr)
	var dialing *net.OpError
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialing) {
		return nil, errors.New(silentTLS)
	}
	return conn, err
}

// Client returns a client. It does no I/O yet. dial is [Target.Dial], or a
// wrapper around it.
func (t *Target) Client(dial Dial) redis.UniversalClient {
	options := t.common(dial, t.hosts...)
	options.MasterName, options.IsClusterMode, options.OnConnect = t.master, t.cluster, t.greet
	if t.master != "" {
		options.MaxRetries = -1
		options.DialTimeout, options.ReadTimeout, options.WriteTimeout = 2*sentinelTimeout, sentinelTimeout, sentinelTimeout
	}
	return redis.NewUniversalClient(options)
}

// Node returns a client of one server, of those that the target consists of.
func (t *Target) Node(addr string, dial Dial) *redis.Client {
	options := t.common(dial, addr).Simple()
	options.MaxRetries = -1
	return redis.NewClient(options)
}

// Sentinel returns a client of one sentinel.
func (t *Target) Sentinel(addr string, dial Dial) *redis.SentinelClient {
	options := t.common(dial, addr).Simple()
	options.MaxRetries, options.DB, options.CredentialsProviderContext = -1, 0, t.sentinelCredentials
	return redis.NewSentinelClient(options)
}

// common are the options that all clients have.
func (t *Target) common(dial Dial, addrs ...string) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: addrs, DB: t.db, CredentialsProviderContext: t.credentials,
		Dialer: dial, DialerRetries: 1,
		DialTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// greet finds out to whom a connection leads, before anything is asked: a server that is not what the URL says has other locks, or
// old ones. It gives a sentinel its password, which the client would not read anew, and selects a cluster's database, of which the
// client knows nothing.
func (t *Target) greet(ctx context.Context, conn *redis.Conn) error {
	const protocol = 3 // the client's own
	about, err := conn.Hello(ctx, protocol, "", "", "").Result()
	mode, role := about["mode"], about["role"]
	refused := t.Refuses(mode)
	sentinel := mode == "sentinel" || err != nil && strings.HasPrefix(err.Error(), "NOAUTH")
	switch {
	case t.master != "" && sentinel && t.options.SentinelPassword != Password{}:
		return t.authenticate(ctx, conn)
	case t.master != "" && sentinel:
		return nil
	case refused != nil:
		return refused
	case t.cluster && t.db != 0:
		return conn.Select(ctx, t.db).Err()
	case t.cluster:
		return nil
	case role == "replica":
		return misplaced("READONLY HELLO says role replica") // that may pass: a failover
	}
	return nil // or it does not know HELLO
}

// Refuses returns the error for a server that has other locks than the target: a sentinel, or one node of a cluster whose URL does not say
// that it is one. The mode is what the server replies to HELLO; a server that does not know HELLO is believed.
func (t *Target) Refuses(mode any) error {
	if mode == "sentinel" || mode == "cluster" && !t.cluster {
		return misplaced(fmt.Sprintf("HELLO says mode %v", mode))
	}
	return nil
}

// authenticate gives a sentinel its password.
func (t *Target) authenticate(ctx context.Context, conn *redis.Conn) error {
	user, password, err := t.sentinelCredentials(ctx)
	switch {
	case err != nil:
		return err
	case user == "":
		return conn.Auth(ctx, password).Err()
	}
	return conn.AuthACL(ctx, user, password).Err()
}

// misplaced is the answer of a server that the URL should not lead to.
type misplaced string

func (m misplaced) Error() string { return string(m) }

// RedisError marks what a server has said.
func (misplaced) RedisError() {}

// Quiet keeps the Redis client from writing log lines to standard error. What
// there is to say comes in the errors of calls.
var Quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

// Printf drops the line.
func (silence) Printf(context.Context, string, ...any) {}

// Hosts are the addresses that the URL names: of a server, of some nodes of a cluster or of
// sentinels; or the path of a socket.
func (t *Target) Hosts() []string { return t.hosts }

// Master is the name of the sentinels' master, or empty.
func (t *Target) Master() string { return t.master }

// IsCluster reports whether the URL is of a cluster.
func (t *Target) IsCluster() bool { return t.cluster }

// IsSocket reports whether the URL is of a socket.
func (t *Target) IsSocket() bool { return t.socket }

// Verifies reports whether there is TLS, and whether the certificates of servers are checked.
func (t *Target) Verifies() (usesTLS, verified bool) { return t.tls, t.tls && !t.skipVerify }

// HasPassword reports whether there is a password for the server.
func (t *Target) HasPassword() bool { return t.password != "" || t.options.Password != Password{} }

// CloseWithin closes a client whose program is about to end, and returns after
// limit at the latest. What could not be given back by then ends with its lease.
func CloseWithin(limit time.Duration, client *holdfast.Client) {
	closed := make(chan struct{})
	go func() { // ends within the client's timeout, or with the program
		defer close(closed)
		_ = client.Close()
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
}

// Tenant returns the tenant of the options; empty: there is none.
func (t *Target) Tenant() string { return t.options.Tenant }

// ClientOptions returns the options of a client whose locks wait here.
func (t *Target) ClientOptions() []holdfast.ClientOption {
	if t.options.Tenant == "" {
		return nil
	}
	return []holdfast.ClientOption{holdfast.WithTenant(t.options.Tenant)}
}
