package connect

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

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

// Node returns a client of one server, of those that the target consists of.
func (t *Target) Node(addr string, dial Dial) *redis.Client {
	options := t.single(addr, dial)
	options.CredentialsProviderContext, options.DB = t.credentials, t.db
	return redis.NewClient(options)
}

// Sentinel returns a client of one sentinel.
func (t *Target) Sentinel(addr string, dial Dial) *redis.SentinelClient {
	options := t.single(addr, dial)
	options.CredentialsProviderContext = t.sentinelCredentials
	return redis.NewSentinelClient(options)
}

// single are the options of a client of one address, without credentials.
func (t *Target) single(addr string, dial Dial) *redis.Options {
	return &redis.Options{
		Addr: addr, DialerRetries: 1, MaxRetries: -1,
		Dialer:      dial,
		DialTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
