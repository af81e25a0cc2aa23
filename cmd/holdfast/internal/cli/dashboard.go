package cli

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/dashboard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

const (
	tokenVariable = "HOLDFAST_DASHBOARD_TOKEN" //nolint:gosec // a name
	shortestToken = 16
)

type dashboardCommand struct {
	selection

	Interval    time.Duration `default:"2s" placeholder:"TIME" help:"Pause between two looks, from 100ms on; it is four times as long as a look takes if that is longer. The default is ${default}."`
	Listen      string        `default:"127.0.0.1:8378" placeholder:"ADDR" help:"Where to serve the page; port 0 is any free one. Other machines reach it only at an address that is not of loopback, and that wants a token. The default is ${default}."`
	TokenFile   string        `placeholder:"FILE" help:"File with a token of 16 characters or more in its first line: who wants to see the page has to give it. Without it the token is that of the environment variable HOLDFAST_DASHBOARD_TOKEN, else there is none."`
	Host        []string      `placeholder:"NAME" help:"Answer to this name, too; to addresses and localhost it always does. For a page behind a proxy, or at a name of its own."`
	AllowUnlock bool          `help:"Let who sees the page take locks away."`
}

const dashboardHelp = `On this machine only, at http://127.0.0.1:8378/:
  holdfast dashboard

For others, with a token, and behind something that speaks TLS:
  holdfast dashboard --listen 10.0.0.7:8378 --token-file /etc/holdfast/token --host locks.example.com

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
	hosts := make([]string, len(c.Host))
	for i, host := range c.Host {
		hosts[i] = strings.ToLower(strings.TrimSuffix(host, "."))
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, target *connect.Target) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return exit.Because(exit.Failed, "the page cannot be served, so --listen another address: %v", err)
		}
		s.sayf("the dashboard of Redis (%s) is at http://%s/", target, listener.Addr())
		err = dashboard.Run(ctx, listener, dashboard.Config{
			Redis: rdb, Server: target.String(), Interval: c.Interval, Most: mostSorted, Token: token, Hosts: hosts, AllowUnlock: c.AllowUnlock,
			Options: c.options(), Explain: reason, Log: s.sayf,
		})
		if ctx.Err() == nil {
			return exit.Because(exit.Failed, "the page cannot be served any more: %v", err)
		}
		return err
	})
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
	switch {
	case token != "" && len(token) < shortestToken:
		return "", exit.Because(exit.Usage, "the token is too short; it has %d characters at least", shortestToken)
	case token == "" && !connect.Loopback(host):
		return "", exit.Because(exit.Usage, "--listen %s can be reached from other machines, so it wants a token: --token-file, or %s", c.Listen, tokenVariable)
	}
	return token, nil
}
