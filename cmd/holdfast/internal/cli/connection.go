package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// The environment variables that no flag stands for: passwords are not for the command line.
const (
	passwordVariable         = "HOLDFAST_REDIS_PASSWORD"          //nolint:gosec // a name
	sentinelPasswordVariable = "HOLDFAST_REDIS_SENTINEL_PASSWORD" //nolint:gosec // a name
)

// redisFlags say which Redis to use. They are good for every command.
type redisFlags struct {
	Redis                string  `group:"redis" env:"HOLDFAST_REDIS,REDIS_URL" placeholder:"URL" help:"The Redis to use: ${forms}. Without it the URL is that of HOLDFAST_REDIS, or else of REDIS_URL. A password in it is hidden from other users only if it comes from the environment."`
	PasswordFile         string  `group:"redis" env:"HOLDFAST_REDIS_PASSWORD_FILE" placeholder:"FILE" help:"File with the Redis password in its first line. Without it the password is that of the environment variable HOLDFAST_REDIS_PASSWORD, else the URL's."`
	SentinelUser         string  `group:"redis" env:"HOLDFAST_REDIS_SENTINEL_USER" placeholder:"NAME" help:"User name at the sentinels; the URL's is for the server."`
	SentinelPasswordFile string  `group:"redis" env:"HOLDFAST_REDIS_SENTINEL_PASSWORD_FILE" placeholder:"FILE" help:"File with the password for the sentinels. Without it that is HOLDFAST_REDIS_SENTINEL_PASSWORD, else there is none."`
	TLSCA                string  `group:"redis" name:"tls-ca" env:"HOLDFAST_REDIS_TLS_CA" placeholder:"FILE" help:"PEM file with the authorities to trust instead of the system's."`
	TLSCert              string  `group:"redis" name:"tls-cert" env:"HOLDFAST_REDIS_TLS_CERT" placeholder:"FILE" help:"PEM file with a client certificate."`
	TLSKey               string  `group:"redis" name:"tls-key" env:"HOLDFAST_REDIS_TLS_KEY" placeholder:"FILE" help:"PEM file with the key of that certificate."`
	TLSServerName        string  `group:"redis" name:"tls-server-name" env:"HOLDFAST_REDIS_TLS_SERVER_NAME" placeholder:"NAME" help:"Name that the certificates of all servers and sentinels have. Without it each has to have the host by which it is reached: that of the URL, or the address that sentinels or a cluster announce."`
	Tenant               *string `group:"redis" env:"HOLDFAST_TENANT" placeholder:"NAME" help:"Tenant to belong to: the programs that share the locks, on a Redis that others use, too. A Redis user may be limited to its tenant; holdfast acl prints its rights."`
	InsecureSkipVerify   bool    `group:"redis" help:"Allow skip_verify=true in the URL, which switches the checks of the server's certificate off."`
}

// tenant is the flag's, or empty. An empty one is refused, since it would stand for all tenants.
func (f redisFlags) tenant() (string, error) {
	switch {
	case f.Tenant == nil:
		return "", nil
	case *f.Tenant == "" || len(*f.Tenant) > holdfast.MaxTenant:
		return "", exit.Because(exit.Usage, "--tenant, or HOLDFAST_TENANT, is no name of 1 to %d bytes", holdfast.MaxTenant)
	}
	return *f.Tenant, nil
}

func (f redisFlags) options(tenant string) connect.Options {
	return connect.Options{
		Tenant:             tenant,
		URL:                f.Redis,
		Password:           connect.Password{Text: os.Getenv(passwordVariable), File: f.PasswordFile},
		SentinelUser:       f.SentinelUser,
		SentinelPassword:   connect.Password{Text: os.Getenv(sentinelPasswordVariable), File: f.SentinelPasswordFile},
		CAFile:             f.TLSCA,
		CertFile:           f.TLSCert,
		KeyFile:            f.TLSKey,
		ServerName:         f.TLSServerName,
		InsecureSkipVerify: f.InsecureSkipVerify,
	}
}

// environment is what another holdfast needs to use the same Redis, the target of these flags, but for InsecureSkipVerify. A password from a
// file that it could not read again is in a variable. Variables without a value are left out: an empty HOLDFAST_TENANT is an error.
func (f redisFlags) environment(target *connect.Target) []string {
	password, sentinelPassword := os.Getenv(passwordVariable), os.Getenv(sentinelPasswordVariable)
	if kept, once := target.ReadOnce(f.PasswordFile); once {
		f.PasswordFile, password = "", kept
	}
	if kept, once := target.ReadOnce(f.SentinelPasswordFile); once {
		f.SentinelPasswordFile, sentinelPassword = "", kept
	}
	return given([]string{
		"HOLDFAST_REDIS=" + f.Redis,
		"HOLDFAST_REDIS_PASSWORD_FILE=" + f.PasswordFile, passwordVariable + "=" + password,
		"HOLDFAST_REDIS_SENTINEL_USER=" + f.SentinelUser,
		"HOLDFAST_REDIS_SENTINEL_PASSWORD_FILE=" + f.SentinelPasswordFile, sentinelPasswordVariable + "=" + sentinelPassword,
		"HOLDFAST_REDIS_TLS_CA=" + f.TLSCA, "HOLDFAST_REDIS_TLS_CERT=" + f.TLSCert, "HOLDFAST_REDIS_TLS_KEY=" + f.TLSKey,
		"HOLDFAST_REDIS_TLS_SERVER_NAME=" + f.TLSServerName, "HOLDFAST_TENANT=" + target.Tenant(),
	})
}

// given are those of the variables that have a value.
func given(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		_, value, _ := strings.Cut(entry, "=")
		return value == ""
	})
}

// withoutConnection is an environment without the variables that say which Redis to use.
func withoutConnection(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "HOLDFAST_REDIS") || name == "HOLDFAST_TENANT"
	})
}

// target resolves the flags. The URL must be given.
func (f redisFlags) target() (*connect.Target, error) {
	if f.Redis = strings.TrimSpace(f.Redis); f.Redis == "" && os.Getenv("HOLDFAST_LOCK") != "" {
		return nil, exit.Because(exit.Usage, "there is no Redis to use: give --redis URL, or set HOLDFAST_REDIS or REDIS_URL; "+
			"the holdfast run around this one keeps its HOLDFAST_REDIS to itself, and --pass-redis passes it on")
	}
	if f.Redis == "" {
		return nil, exit.Because(exit.Usage, "there is no Redis to use: give --redis URL, or set HOLDFAST_REDIS or REDIS_URL")
	}
	tenant, err := f.tenant()
	if err != nil {
		return nil, err
	}
	t, err := f.options(tenant).Resolve()
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: err}
	}
	return t, nil
}
