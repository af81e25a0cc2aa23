package cli

import (
	"context"
	"net"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/dashboard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

const tokenVariable = "HOLDFAST_DASHBOARD_TOKEN" //nolint:gosec // a name

type dashboardCommand struct {
	selection

	Interval    time.Duration `default:"2s" placeholder:"TIME" help:"Pause between two looks, from 100ms on; it is four times as long as a look takes if that is longer. The default is ${default}."`
	Listen      string        `default:"127.0.0.1:8378" placeholder:"ADDR" help:"Where to serve the page; port 0 is any free one. Other machines reach it only at an address that is not of loopback, and that wants a token. The default is ${default}."`
	TokenFile   string        `placeholder:"FILE" help:"File with a token of 16 characters or more in its first line, which openssl rand -hex 16 makes: who wants to see the page has to give it. Without it the token is that of the environment variable HOLDFAST_DASHBOARD_TOKEN, else there is none."`
	Host        []string      `placeholder:"NAME" help:"Answer to this name, too; to addresses and localhost it always does. For a page behind a proxy, or at a name of its own. If the proxy replaces Host and the page has a port in its address: NAME:PORT."`
	BasePath    string        `placeholder:"PATH" help:"Path below which a proxy shows the page, such as /locks; the proxy may strip it or not. Without the flag the proxy must strip it, and add the slash at the end of the page's address."`
	AllowUnlock bool          `help:"Let who sees the page take locks away."`
}

const dashboardHelp = `On this machine only, at http://127.0.0.1:8378/:
  holdfast dashboard

For others, with a token, and behind something that speaks TLS:
  holdfast dashboard --listen 10.0.0.7:8378 --token-file /etc/holdfast/token --host locks.example.com

The same, at https://tools.example.com/locks/:
  holdfast dashboard --listen 10.0.0.7:8378 --token-file /etc/holdfast/token --host tools.example.com --base-path /locks

It reads what ls reads, and writes nothing unless --allow-unlock is given. One look at a time serves all who
look at the page. It ends with SIGINT or SIGTERM.`

// Run is called by kong.
func (c *dashboardCommand) Run(s streams, flags redisFlags) error {
	if err := checkInterval(c.Interval); err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	if warning := connect.Exposed(c.TokenFile, "token"); warning != "" {
		s.sayf("%s", warning)
	}
	hosts, err := c.hosts()
	if err != nil {
		return err
	}
	base, err := c.basePath()
	if err != nil {
		return err
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, target *connect.Target) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return exit.Because(exit.Failed, "the page cannot be served, so --listen another address: %v", err)
		}
		s.sayf("the dashboard of Redis (%s) is at http://%s%s/", target, listener.Addr(), base)
		err = dashboard.Run(ctx, listener, dashboard.Config{
			Redis: rdb, Server: target.String(), Interval: c.Interval, Most: mostSorted, Token: token, Hosts: hosts, BasePath: base, AllowUnlock: c.AllowUnlock,
			Options: c.options(), Explain: reason, Log: s.sayf,
		})
		if ctx.Err() == nil {
			return exit.Because(exit.Failed, "the page cannot be served any more: %v", err)
		}
		return err
	})
}

// hosts are the names that --host gives, in small letters.
func (c *dashboardCommand) hosts() ([]string, error) {
	hosts := make([]string, len(c.Host))
	for i, host := range c.Host {
		at, err := url.Parse("//" + host)
		if err != nil || at.Hostname() == "" || at.Host != host {
			return nil, exit.Because(exit.Usage, "--host takes a name such as locks.example.com, or a name and a port, not a URL: %q", host)
		}
		hosts[i] = strings.ToLower(strings.TrimSuffix(host, "."))
	}
	return hosts, nil
}

// basePaths are the paths that need no encoding, in addresses and in HTML.
var basePaths = regexp.MustCompile(`^(/[A-Za-z0-9_~.-]+)*/?$`)

// basePath is the path of --base-path without the slash at its end; empty: none.
func (c *dashboardCommand) basePath() (string, error) {
	base := strings.TrimSuffix(c.BasePath, "/")
	switch {
	case !basePaths.MatchString(c.BasePath), base != "" && path.Clean(base) != base:
		return "", exit.Because(exit.Usage, "--base-path takes a path such as /locks, of letters, digits, dots, hyphens and underscores, not %q", c.BasePath)
	case slices.Contains(dashboard.OwnPaths(), base):
		return "", exit.Because(exit.Usage, "--base-path %s is a path of the dashboard's own; take another one, such as /locks", base)
	}
	return base, nil
}

// token is what one has to know to see the page; empty: nothing. It is an error if the page can be reached from elsewhere
// without one.
func (c *dashboardCommand) token() (token string, err error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", exit.Because(exit.Usage, "--listen takes an address and a port, such as 127.0.0.1:8378: %v", err)
	}
	token = os.Getenv(tokenVariable)
	if c.TokenFile != "" {
		if token, err = connect.FirstLine(c.TokenFile, "token"); err != nil {
			return "", &exit.Error{Code: exit.Usage, Err: err}
		}
	}
	if token == "" && !connect.Loopback(host) {
		return "", exit.Because(exit.Usage, "--listen %s can be reached from other machines, so it wants a token: --token-file, or %s", c.Listen, tokenVariable)
	}
	if token != "" {
		if err := dashboard.CheckToken(token); err != nil {
			return "", &exit.Error{Code: exit.Usage, Err: err}
		}
	}
	return token, nil
}
