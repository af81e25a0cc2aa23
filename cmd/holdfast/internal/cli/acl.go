package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// allKinds stands for every kind in --kind.
const allKinds = "all"

// aclVersions are the values of --server.
var aclVersions = map[string]rights.Version{
	"7+": rights.Recent, "6.0": rights.Redis60, "6.2": rights.Redis62, "7": rights.Redis70, "8": rights.Redis80,
}

type aclCommand struct {
	Name    []string `arg:"" optional:"" help:"Names of locks. * stands for any text: quote it for the shell."`
	Kind    []string `placeholder:"KIND" enum:"all,${doctored}" help:"Kinds that the user may lock, with commas between: all, ${doctored}."`
	Look    bool     `help:"Let the user look at locks of all kinds with ls, show, wait, watch and dashboard, without changing them. Without names: at all locks. To unlock by force it needs --kind, too."`
	Exact   bool     `help:"Take a * in a name for a part of the name, as where names come from customers."`
	User    string   `default:"holdfast" placeholder:"USER" help:"Name of the Redis user. The default is ${default}."`
	Client  []string `placeholder:"CLIENT" enum:"go-redis,rueidis,valkey-go" help:"Redis client of the programs: go-redis, rueidis or valkey-go. By default the line does for each of them."`
	Cluster bool     `help:"Print the line for the nodes of a Redis Cluster."`
	Server  string   `default:"7+" enum:"6.0,6.2,7,8,7+" placeholder:"VERSION" help:"Version of Redis or Valkey: 6.0, 6.2, 7, 8 (or later), or 7+, which does for 7.0 and later. The default is ${default}."`
	NoEval  bool     `name:"no-eval" help:"Leave EVAL out. An administrator then loads the scripts, and loads them again whenever the server has lost them."`
}

const aclHelp = `A user for the lock orders, and for all locks whose names begin with orders:, for redis-cli:
  holdfast acl --kind mutex,fair --user billing orders 'orders:*' | redis-cli

The line takes all other rights of the user away, and keeps its password: a new user has none, and
cannot sign in. Redis does not replicate users: run the line on every server, replicas and nodes of a
cluster included, and then ACL SAVE or CONFIG REWRITE.

With EVAL a user can run any script, also one that never ends, which stops the server for everybody.
So leave it out (--no-eval) for a user that shares the server with others; holdfast scripts load
loads the scripts. No Redis is needed to print the line.`

// Run is called by kong.
func (c *aclCommand) Run(s streams, flags redisFlags) error {
	tenant, err := flags.tenant()
	if err != nil {
		return err
	}
	user, err := c.user(tenant)
	if err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	if _, err := fmt.Fprintln(s.stdout, user.Command(c.User)); err != nil {
		return err
	}
	s.sayf("a new user has no password; set one at the prompt of redis-cli (a shell would take the > for its own): ACL SETUSER %s >PASSWORD", rights.Quoted(c.User))
	if len(user.Kinds) > 0 && user.Tenant != "" && !user.NoEval {
		s.sayf("with EVAL this user can stop the server for all tenants; --no-eval leaves it out")
	}
	if user.Tenant != "" && user.Server.Version == rights.Redis60 {
		s.sayf("Redis 6.0 has no rights to channels, so users of other tenants can listen and publish on those of this one")
	}
	return nil
}

// user returns the user that the flags and names describe.
func (c *aclCommand) user(tenant string) (rights.User, error) {
	u := rights.User{
		Tenant: tenant, Look: c.Look, Clients: c.Client, NoEval: c.NoEval, Server: rights.Server{Version: aclVersions[c.Server], Cluster: c.Cluster},
	}
	if len(u.Clients) == 0 {
		u.Clients = rights.Clients()
	}
	for _, k := range rights.Kinds() {
		if slices.Contains(c.Kind, allKinds) || slices.Contains(c.Kind, k.ID()) {
			u.Kinds = append(u.Kinds, k)
		}
	}
	pattern := rights.Matching
	if c.Exact {
		pattern = rights.Exactly
	}
	for _, name := range c.Name {
		u.Names = append(u.Names, pattern(name))
	}
	return u, c.check()
}

// check refuses flags and names that make no sense, or more than they seem to.
func (c *aclCommand) check() error {
	switch {
	case len(c.Kind) == 0 && !c.Look:
		return errors.New("--kind is missing: what the user may lock, such as --kind mutex; --look lets it look at locks")
	case len(c.Kind) > 0 && len(c.Name) == 0:
		return errors.New("the names of the locks are missing: " + texts[aclName].usage)
	case c.User == "" || strings.ContainsAny(c.User, " \t\n\v\f\r\x00"):
		return errors.New("--user is no name of a Redis user: it is empty, or has white space")
	case c.User == "default":
		return errors.New("--user default would take the rights of every connection that does not name a user; name another one")
	}
	for _, name := range c.Name {
		if err := protocol.CheckName(name); err != nil {
			return fmt.Errorf("%.100q cannot be the name of a lock: %w", name, err)
		}
	}
	return nil
}
