package connect

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Forms are the URLs that are understood, for help and errors.
const Forms = "redis://host:port/db, rediss://host:port/db (TLS), redis://host1:port,host2:port (a cluster), " +
	"or redis+sentinel://host1:port,host2:port/master/db"

// Errors about a URL. They say what is wrong without repeating any of it.
var (
	errScheme  = errors.New("the Redis URL must be " + Forms)
	errUser    = errors.New("the Redis URL has a user or password that is not percent-encoded")
	errHost    = errors.New("the Redis URL has a host that is not host, host:port or [ipv6]:port")
	errDB      = errors.New("the Redis URL has a path that is not a database number")
	errMaster  = errors.New("the Redis URL must name the master: redis+sentinel://host:port/master")
	errQuery   = errors.New("the Redis URL has a parameter other than cluster=true and skip_verify=true")
	errCluster = errors.New("the Redis URL is of a cluster, which has no database numbers and no sentinels")
)

// address is what a URL says.
type address struct {
	hosts          []string
	master         string // of the sentinel form
	cluster        bool
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
		return address{}, errScheme
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	var a address
	port := "6379"
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	if sentinel {
		port = "26379"
	}
	switch scheme {
	case "redis":
	case "rediss":
		a.tls = true
	default:
		return a, errScheme
	}
	err := errors.Join(a.readAuthority(authority, port), a.readQuery(query), a.readPath(path, sentinel))
	return a, err
}

// readAuthority reads [user[:password]@]host[:port][,host[:port]…].
func (a *address) readAuthority(authority, port string) error {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var errs [2]error
		a.user, errs[0] = url.PathUnescape(user)
		a.password, errs[1] = url.PathUnescape(password)
		if errs[0] != nil || errs[1] != nil {
			return errUser
		}
		authority = authority[at+1:]
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
	ipv6 := strings.Contains(host, ":") && net.ParseIP(host) != nil && strings.HasPrefix(text, "[")
	if err != nil || n == 0 || !ipv6 && !hostname(host) {
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
		on, err := strconv.ParseBool(value[0])
		if err != nil || len(value) > 1 {
			return errQuery
		}
		switch key {
		case "cluster":
			a.cluster = on
		case "skip_verify":
			a.skipVerify = on
		default:
			return errQuery
		}
	}
	return nil
}

// readPath reads db, or master/db in the sentinel form, and checks that all
// parts fit together.
func (a *address) readPath(path string, sentinel bool) error {
	db := path
	if sentinel {
		a.master, db, _ = strings.Cut(path, "/")
		if a.master == "" {
			return errMaster
		}
	}
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 16)
		if err != nil {
			return errDB
		}
		a.db = int(n)
	}
	a.cluster = a.cluster || !sentinel && len(a.hosts) > 1
	if a.cluster && (sentinel || a.db != 0) {
		return errCluster
	}
	return nil
}
