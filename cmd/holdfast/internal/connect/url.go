package connect

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Forms are the URLs that are understood, for help and errors.
const Forms = "redis://host:port/db, rediss://host:port/db (TLS), unix:///path/to/socket?db=0, redis://host1:port,host2:port (a cluster), " +
	"or redis+sentinel://host1:port,host2:port/master/db; valkey:// and valkeys:// are the same as redis:// and rediss://"

// Errors about a URL. They say what is wrong without repeating any of it.
var (
	errNoURL   = errors.New("the Redis URL has no scheme and ://; it must be " + Forms)
	errScheme  = errors.New("the Redis URL has an unknown scheme before its ://; it must be " + Forms)
	errUser    = errors.New("the Redis URL has a user or password that is not percent-encoded")
	errHash    = errors.New("the Redis URL has a #, which is %23 in a password")
	errHost    = errors.New("the Redis URL has a host that is not host, host:port or [ipv6]:port")
	errPort    = errors.New("the Redis URL has a port that is no number from 1 to 65535; in a password a / is %2F, a ? is %3F")
	errQuotes  = errors.New("the Redis URL is in quotes, which docker --env-file and the like keep; leave them out")
	errQuoted  = errors.New("the Redis URL has a password in quotes; leave them out")
	errSpace   = errors.New("the Redis URL has white space or an invisible character in it; in a password a space is %20")
	errControl = errors.New("the Redis URL has a line break or another control character in its user or password, such as %0A; leave it out")
	errUnset   = errors.New("the Redis URL has a variable that was not replaced, such as $(NAME) or ${NAME}; in a password a $ is %24")
	errSetting = errors.New("the Redis URL has a setting such as password=… among its hosts; a password comes before the host, as in redis://:password@host")
	errSocket  = errors.New("the Redis URL of a socket must be unix:///path/to/socket, with user:password@ before the path if need be")
	errDB      = errors.New("the Redis URL has a path that is not a database number")
	errMaster  = errors.New("the Redis URL must name the master: redis+sentinel://host:port/master; in a password a / is %2F")
	errQuery   = errors.New("the Redis URL has a parameter other than " + parameters + "; in a password a ? is %3F")
	errTwice   = errors.New("the Redis URL has a parameter twice")
	errDBValue = errors.New("the Redis URL has a db that is not a database number")
	errBool    = errors.New("the Redis URL has a cluster or skip_verify that is neither true nor false")
	errTwoDBs  = errors.New("the Redis URL has two database numbers, in its path and as db=NUMBER")
	errCluster = errors.New("the Redis URL is of a cluster and of sentinels or a socket at once, which cannot be")
)

// parameters lists the query parameters of a URL, for errors.
const parameters = "db=NUMBER, cluster=true and skip_verify=true"

// foreign lists parameters of other clients. An error may repeat these names, which hold no password.
var foreign = []string{
	"ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl", "tls", "family", "protocol", "timeout", "client_name", "clientName",
	"dial_timeout", "read_timeout", "write_timeout", "pool_size", "max_retries", "min_idle_conns", "decode_responses", "health_check_interval", "socket_timeout",
	"socket_connect_timeout", "max_connections", "username", "user", "password", "auth", "database", "sentinelMasterId", "master_name", "addr",
}

// foreignError is a parameter of another client.
type foreignError string

func (e foreignError) Error() string {
	return "the Redis URL has the parameter " + string(e) + ", which other clients understand; leave it out: holdfast has " + parameters
}

// Is reports whether target is errQuery.
func (foreignError) Is(target error) bool { return target == errQuery }

// address is what a URL says.
type address struct {
	hosts          []string // or the path of a socket
	master         string   // of the sentinel form
	cluster        bool
	socket         bool
	db             int
	user, password string
	tls            bool
	skipVerify     bool
}

// parse reads a URL. It does not use [url.Parse], which knows no lists of hosts
// with ports, and whose errors repeat what they were given.
func parse(text string) (address, error) {
	text = strings.TrimSpace(text)
	scheme, rest, found := strings.Cut(text, "://")
	switch scheme = strings.ToLower(scheme); {
	case strings.Trim(text, quotes) != text:
		return address{}, errQuotes
	case strings.ContainsFunc(text, invisible):
		return address{}, errSpace
	case !found:
		return address{}, errNoURL
	case variable.MatchString(rest):
		return address{}, errUnset
	case strings.Contains(rest, "#"): // to other readers of URLs what follows is none of it
		return address{}, errHash
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	path = strings.TrimSuffix(path, "/")
	var a address
	if scheme == "unix" {
		a.socket = true
		return a, cmp.Or(a.readSocket(authority, path), a.readQuery(query), a.fit(false))
	}
	port := "6379"
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	if sentinel {
		port = "26379"
	}
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		a.tls = true
	default:
		return a, errScheme
	}
	return a, cmp.Or(a.readAuthority(authority, port), a.readQuery(query), a.readPath(path, sentinel), a.fit(sentinel))
}

// quotes holds the characters that can enclose a URL or a password.
const quotes = "\"'`"

// variable matches a variable of a configuration file or a template.
var variable = regexp.MustCompile(`\$\([^()]*\)|\$\{[^{}]*\}|\{\{.*\}\}`)

// quoted reports whether a text is in quotes.
func quoted(text string) bool {
	return len(text) > 1 && strings.Contains(quotes, text[:1]) && text[0] == text[len(text)-1]
}

// invisible reports whether a character cannot be seen, other than a space.
func invisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.IsSpace(r) && r != ' '
}

// readSocket reads [user[:password]@] and the path of a socket, without the slash between them.
func (a *address) readSocket(authority, path string) error {
	host, err := a.readUser(authority)
	if err != nil {
		return err
	}
	path, err = url.PathUnescape(path)
	// What comes before a @ may be a password that was not percent-encoded.
	if err != nil || host != "" || path == "" || strings.Contains(path, "@") || strings.ContainsFunc(path, unicode.IsControl) {
		return errSocket
	}
	a.hosts = []string{"/" + path}
	return nil
}

// readUser reads [user[:password]@], and returns what follows.
func (a *address) readUser(authority string) (rest string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	var errs [2]error
	a.user, errs[0] = url.PathUnescape(user)
	a.password, errs[1] = url.PathUnescape(password)
	if errs[0] != nil || errs[1] != nil {
		return "", errUser
	}
	switch {
	case strings.ContainsFunc(a.user+a.password, invisible):
		return "", errControl
	case quoted(password):
		return "", errQuoted
	case strings.TrimSpace(user) != user, strings.TrimSpace(password) != password:
		return "", errSpace
	}
	return authority[at+1:], nil
}

// readAuthority reads [user[:password]@]host[:port][,host[:port]…].
func (a *address) readAuthority(authority, port string) error {
	authority, err := a.readUser(authority)
	if err != nil {
		return err
	}
	switch {
	case strings.Contains(authority, "="):
		return errSetting
	case strings.Contains(authority, " "):
		return errSpace
	}
	for host := range strings.SplitSeq(authority, ",") {
		host, err := hostPort(host, port)
		if err != nil {
			return err
		}
		a.hosts = append(a.hosts, host)
	}
	return nil
}

// hostPort completes one host with the default port.
func hostPort(text, port string) (string, error) {
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		host = text[1 : len(text)-1]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errPort
	}
	ipv6 := strings.Contains(host, ":") && net.ParseIP(host) != nil && strings.HasPrefix(text, "[")
	if !ipv6 && !hostname(host) {
		return "", errHost
	}
	return net.JoinHostPort(host, port), nil
}

func hostname(s string) bool {
	const usual = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	return s != "" && strings.Trim(s, usual) == ""
}

func (a *address) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errQuery
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, wrong := values[key], errBool
		switch key {
		case "cluster":
			a.cluster, err = strconv.ParseBool(value[0])
		case "skip_verify":
			a.skipVerify, err = strconv.ParseBool(value[0])
		case "db":
			wrong = errDBValue
			a.db, err = database(value[0])
		default:
			if slices.Contains(foreign, key) {
				return foreignError(key)
			}
			return errQuery
		}
		switch {
		case err != nil:
			return wrong
		case len(value) > 1:
			return errTwice
		}
	}
	return nil
}

func database(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// readPath reads db, or master/db in the sentinel form.
func (a *address) readPath(path string, sentinel bool) error {
	db := path
	if sentinel {
		a.master, db, _ = strings.Cut(path, "/")
		if !hostname(a.master) { // Sentinel allows these letters; anything else may be of a password
			return errMaster
		}
	}
	if db == "" {
		return nil
	}
	n, err := database(db)
	switch {
	case err != nil:
		return errDB
	case a.db != 0:
		return errTwoDBs
	}
	a.db = n
	return nil
}

// fit checks that all parts fit together.
func (a *address) fit(sentinel bool) error {
	if a.cluster && (sentinel || a.socket) {
		return errCluster
	}
	a.cluster = a.cluster || !sentinel && len(a.hosts) > 1
	return nil
}

// Loopback reports whether a host is one that only this machine reaches.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
