package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Explain puts what to do before an error of a Redis client, of whom the caller
// has said which Redis it is about. No error of a client repeats a credential.
func Explain(err error) error {
	var failed *driver.Error
	if errors.As(err, &failed) {
		err = failed.Err // without the library's advice, which is for programmers
	}
	if advice := advise(err); advice != "" {
		return fmt.Errorf("%s (%w)", advice, err)
	}
	return err
}

// lacksRight is what to say of a right that is missing.
const lacksRight = "its user lacks a right that the lock needs; docs/acl.md lists them"

// replies are what servers say, and what to do then.
var replies = []struct{ text, advice string }{
	{"NOAUTH", "it wants a password, so set HOLDFAST_REDIS_PASSWORD or give --password-file"},
	{"Protocol error: unauthenticated", "it wants a password, so set HOLDFAST_REDIS_PASSWORD or give --password-file"},
	{"WRONGPASS", "the user name or the password is wrong, so check HOLDFAST_REDIS_PASSWORD, --password-file and the URL"},
	{"NOPERM", lacksRight},
	{"ACL failure in script", lacksRight},
	{"The user executing the script can't", lacksRight},
	{"MOVED", "it is one node of a cluster, so put ?cluster=true behind the URL"},
	{"cluster support disabled", "it is no cluster, so name one host, without cluster=true"},
	{"READONLY", "it is a replica, so name the primary, or use redis+sentinel://"},
}

// advise says what to do, if anything can be said.
func advise(err error) string {
	for _, reply := range replies {
		if strings.Contains(err.Error(), reply.text) {
			return reply.advice
		}
	}
	var answered redis.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &answered):
		return ""
	case errors.As(err, &untrusted):
		return "its certificate is not trusted; --tls-ca names the authority to trust"
	default:
		return "check that it runs there, and the URL in --redis or HOLDFAST_REDIS (rediss:// if it uses TLS, else redis://)"
	}
}
