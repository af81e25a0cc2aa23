package connect

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redact"
)

// Explain puts what to do before an error of a Redis client, of whom the caller
// has said which Redis it is about. It repeats no credential.
func Explain(err error) error {
	var failed *driver.Error
	if errors.As(err, &failed) {
		err = failed.Err // without the library's advice, which is for programmers
		if failed.Code == "NOSCRIPT" {
			return fmt.Errorf("%s (%w)", notLoaded, said(err))
		}
	}
	if advice := advise(err); advice != "" {
		return fmt.Errorf("%s (%w)", advice, said(err))
	}
	return said(err)
}

// mostSaid is how many bytes of an error are repeated: a server can say megabytes.
const mostSaid = 1 << 10

// said is an error without what must not be shown, and cut.
func said(err error) error {
	err = redact.Reply(err)
	if text := err.Error(); len(text) > mostSaid {
		return cutError{strings.ToValidUTF8(text[:mostSaid], "") + "…", err}
	}
	return err
}

// cutError is an error whose text is cut.
type cutError struct {
	text string
	err  error
}

func (e cutError) Error() string { return e.text }

func (e cutError) Unwrap() error { return e.err }

// Advice for errors, by what is wrong.
const (
	notLoaded     = "it does not have the scripts of this version, and its user may not use EVAL; as an administrator, run holdfast scripts load"
	lacksRight    = "its user lacks a right that the lock needs; holdfast doctor, as that user, says which"
	aClusters     = "it is one node of a cluster, so put ?cluster=true behind the URL"
	wantsPassword = "it wants a password, so set HOLDFAST_REDIS_PASSWORD or give --password-file"
)

// silentTLS is the error of a handshake that has no answer.
const silentTLS = "no answer to the TLS handshake"

// reply is a part of what is said, and what to do then.
type reply struct{ text, advice string }

// replies are what servers say, or do not say, and what to do then.
var replies = []reply{
	{"NOAUTH", wantsPassword},
	{"Protocol error: unauthenticated", wantsPassword},
	{"WRONGPASS", "the user name or the password is wrong, so check HOLDFAST_REDIS_PASSWORD, --password-file and the URL"},
	{"NOPERM", lacksRight},
	{"ACL failure in script", lacksRight},
	{"The user executing the script can't", lacksRight},
	{"HELLO says mode cluster", aClusters},
	{"HELLO says mode sentinel", "it is a sentinel, so use redis+sentinel://HOST:PORT/MASTER"},
	{"MOVED", aClusters},
	{"cluster support disabled", "it is no cluster, so name one host, without cluster=true"},
	{"READONLY", "it is a replica, so name the primary, or use redis+sentinel://"},
	{"OOM ", "it has no memory left for writes; its maxmemory says how much it may use"},
	{"MISCONF", "it refuses writes because it cannot save them; its log says why"},
	{"NOREPLICAS", "it refuses writes because too few replicas are connected"},
	{"LOADING", "it has just started and still loads its data"},
	{"MASTERDOWN", "it is a replica, and its primary is away"},
	{"CLUSTERDOWN", "the cluster has no node for this name at the moment"},
	{"max number of clients", "it has as many connections as its maxclients allows, so close some, or raise it"},
	{"DB index is out of range", "it has fewer databases than the number in the URL"},
	{silentTLS, "it does not speak TLS there, or it hangs; without TLS the URL begins with redis://"},
	{"SELECT is not allowed in cluster mode", "this cluster has no database numbers, so leave the number out of the URL"},
}

const noSentinel = "it is no sentinel; the URL of a server begins with redis:// or rediss://"

// atSentinels are what sentinels say, or those who are none.
var atSentinels = []reply{
	{"redis: nil", "the sentinels know no master of that name"},
	{"No such master", "the sentinels know no master of that name"},
	{"HELLO says mode cluster", noSentinel},
	{"unknown command 'sentinel'", noSentinel},
	{"unknown command `sentinel`", noSentinel}, // before Redis 7.0
	{"NOAUTH", "the sentinels want a password, so set HOLDFAST_REDIS_SENTINEL_PASSWORD or give --sentinel-password-file"},
	{"WRONGPASS", "the user name or the password for the sentinels is wrong, so check HOLDFAST_REDIS_SENTINEL_PASSWORD, " +
		"--sentinel-password-file and --sentinel-user"},
}

// ExplainSentinel is Explain for an error of one sentinel.
func ExplainSentinel(err error) error {
	if advice := adviceFor(err, atSentinels); advice != "" {
		return fmt.Errorf("%s (%w)", advice, said(err))
	}
	return Explain(err)
}

// adviceFor is what a table has for an error, if anything.
func adviceFor(err error, table []reply) string {
	for _, r := range table {
		if strings.Contains(err.Error(), r.text) {
			return r.advice
		}
	}
	return ""
}

// advise says what to do, if anything can be said.
func advise(err error) string {
	advice := ""
	if strings.Contains(err.Error(), "all sentinels specified") {
		advice = adviceFor(err, atSentinels)
	}
	if advice = cmp.Or(advice, adviceFor(err, replies)); advice != "" {
		return advice
	}
	var answered redis.Error
	var cut redact.Error
	if errors.As(err, &answered) || errors.As(err, &cut) {
		return ""
	}
	return unreachable(err)
}

// unreachable says what to do about a server with which there is no connection.
func unreachable(err error) string {
	if advice := aboutTLS(err); advice != "" {
		return advice
	}
	var unknown *net.DNSError
	var announced *announcedError
	switch {
	case errors.As(err, &announced):
		return "the hosts in the URL answer, and announce " + announced.addr + ", which cannot be reached from here: see that it runs, " +
			"and that the servers announce addresses that this machine reaches (cluster-announce-ip, replica-announce-ip)"
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return "no such host is known, so check the Redis URL"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket, so check that it runs, and the path in the URL"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not use that socket"
	case closedAtOnce(err):
		return "it closes the connection at once: check whether it uses TLS (rediss:// in the URL), and whether it has as many connections as its maxclients allows"
	default:
		return "check that it runs there, and the Redis URL (rediss:// if it uses TLS, else redis://)"
	}
}

// namesOf are the names of a certificate, for the end of a sentence, if they are plain names.
func namesOf(e x509.HostnameError) string {
	var names []string
	for _, name := range e.Certificate.DNSNames {
		if hostname(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names[:min(len(names), shownNames)], ", ")
}

// shownNames is the largest number of a certificate's names in an error.
const shownNames = 3

// closedAtOnce reports whether the server has closed the connection.
func closedAtOnce(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// aboutTLS says what TLS has against the server, or the server against the client; empty if it is something else.
func aboutTLS(err error) string {
	var untrusted *tls.CertificateVerificationError
	var otherName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var noTLS tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.As(err, &otherName):
		return "its certificate is not for the host by which it was reached, so give a name that it has by --tls-server-name" + namesOf(otherName)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet, so have it renewed, or set this machine's clock right"
	case errors.As(err, &untrusted):
		return "its certificate is not trusted; --tls-ca names the authority to trust"
	case errors.As(err, &noTLS):
		return "it does not speak TLS there, so the URL begins with redis://"
	case strings.Contains(text, "certificate required"):
		return "it wants a client certificate, so give --tls-cert and --tls-key"
	case strings.Contains(text, "remote error: tls") && strings.Contains(text, "certificate"):
		return "it does not accept the client certificate, so check --tls-cert: its authority, and when it ends"
	case strings.Contains(text, "protocol version"):
		return "it speaks no TLS from 1.2 on, and less is no protection, so have it upgraded"
	}
	return ""
}
