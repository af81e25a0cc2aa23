package connect

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
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
	errSocket  = errors.New("the Redis URL of a socket must be unix:///path/to/socket, with user:password@ before the path if need be")
	errDB      = errors.New("the Redis URL has a path that is not a database number")
	errMaster  = errors.New("the Redis URL must name the master: redis+sentinel://host:port/master; in a password a / is %2F")
	errQuery   = errors.New("the Redis URL has a parameter other than db=NUMBER, cluster=true and skip_verify=true")
	errTwoDBs  = errors.New("the Redis URL has two database numbers, in its path and as db=NUMBER")
	errCluster = errors.New("the Redis URL is of a cluster and of sentinels or a socket at once, which cannot be")
)

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
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return address{}, errNoURL
	}
	if strings.Contains(rest, "#") { // to other readers of URLs what follows is none of it
		return address{}, errHash
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
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
	return authority[at+1:], nil
}

// readAuthority reads [user[:password]@]host[:port][,host[:port]…].
func (a *address) readAuthority(authority, port string) error {
	authority, err := a.readUser(authority)
	if err != nil {
		return err
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
	for key, value := range values {
		if len(value) > 1 {
			return errQuery
		}
		switch key {
		case "cluster":
			a.cluster, err = strconv.ParseBool(value[0])
		case "skip_verify":
			a.skipVerify, err = strconv.ParseBool(value[0])
		case "db":
			a.db, err = database(value[0])
		default:
			return errQuery
		}
		if err != nil {
			return errQuery
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
