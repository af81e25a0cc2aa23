package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// The bounds at which a check warns, or fails.
const (
	certificateSoon = 14 * 24 * time.Hour
	fullMemory      = 90 // percent
	manyClients     = 80 // percent
	replicaLag      = 5  // seconds
	smallBuffer     = 1 << 20
	shortIdle       = 60 // seconds
	slowCommand     = 100 * time.Millisecond
	slowMean        = 10 * time.Millisecond
	slowSince       = 24 * time.Hour
)

// release is a version of a server that is tested, as in README.md.
type release struct {
	product      string
	major, minor int
	tested       string
}

var releases = []release{
	{redisName, 6, 0, "6.0.16"},
	{redisName, 7, 0, "7.0.15"},
	{redisName, 8, 0, "8.0.2"},
	{valkeyName, 8, 0, "8.0.1"},
	{valkeyName, 8, 1, "8.1.1"},
}

const (
	redisName  = "Redis"
	valkeyName = "Valkey"
)

// oldest is the oldest version that has all commands.
var oldest = [3]int{6, 0, 6}

func reachable(_ context.Context, e *exam) (found []Finding) {
	if len(e.nodes) == 0 {
		return []Finding{fail("Check that the sentinels run, and the URL.", "no sentinel names a server")}
	}
	for _, n := range e.nodes {
		f := pass("%s, %s", n.addr, e.transport(n))
		if n.err != nil {
			f = fail("See that it runs, and that the URL, the password and the network are right.", "%s cannot be used: %v", n.addr, connect.Explain(n.err))
		}
		found = append(found, f.at(n))
	}
	if e.enumerated != nil && len(e.reached()) > 0 {
		found = append(found, fail("Check the URL and the state of the nodes.", "not all nodes are known%s", because(e.enumerated)))
	}
	return found
}

// because explains an error behind a sentence.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + connect.Explain(err).Error()
}

// transport says how a node is reached.
func (e *exam) transport(n *node) string {
	switch state, secure := e.network.state(n.addr); {
	case secure:
		return tls.VersionName(state.Version)
	case e.Target.IsSocket():
		return "a socket"
	default:
		return "without TLS"
	}
}

func certificate(_ context.Context, e *exam) (found []Finding) {
	uses, verified := e.Target.Verifies()
	if !uses {
		return nil
	}
	if !verified {
		return []Finding{warn("Give --tls-ca in place of skip_verify.", "the certificates are not checked, so anybody on the way can be the server")}
	}
	for _, n := range e.reached() {
		state, ok := e.network.state(n.addr)
		if !ok || len(state.PeerCertificates) == 0 {
			continue
		}
		ends := state.PeerCertificates[0].NotAfter
		f := pass("valid until %s", ends.UTC().Format(time.DateOnly))
		if ends.Sub(e.Now()) < certificateSoon {
			f = warn("Renew it: clients that connect after that are refused.", "the certificate ends on %s", ends.UTC().Format(time.RFC3339))
		}
		found = append(found, f.at(n))
	}
	return found
}

func password(ctx context.Context, e *exam) []Finding {
	nodes := e.reached()
	user, err := nodes[0].client.Do(ctx, "ACL", "WHOAMI").Text()
	as := ""
	if err == nil {
		as = fmt.Sprintf(", as user %q", user)
	}
	for _, n := range nodes {
		if !e.Target.HasPassword() && !n.local() {
			return []Finding{warn("Set requirepass, or users with ACL SETUSER, and keep the port from strangers.",
				"%s asks for no password, so whoever reaches it can take any lock from its holder", n.addr)}
		}
	}
	if !e.Target.HasPassword() {
		return []Finding{pass("none asked for, on this machine%s", as)}
	}
	return []Finding{pass("accepted%s", as)}
}

// product is what the server is, and its version.
func (n *node) product() (name, number, why string) {
	for _, p := range []struct{ field, name string }{
		{"valkey_version", valkeyName}, {"dragonfly_version", "Dragonfly"}, {"redis_version", redisName},
	} {
		if number, ok := n.info[p.field]; ok {
			return p.name, number, ""
		}
	}
	_, why = n.said("redis_version")
	return "", "", why
}

var versionNumber = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)`)

// numbers are the three numbers of a version.
func numbers(text string) (v [3]int, ok bool) {
	match := versionNumber.FindStringSubmatch(text)
	if match == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // they are digits; a huge one is untested, too
	}
	return v, true
}

func version(n *node) []Finding {
	name, number, why := n.product()
	if why != "" {
		return []Finding{unknown(why)}
	}
	v, ok := numbers(number)
	if ok && name == redisName && slices.Compare(v[:], oldest[:]) < 0 {
		return []Finding{fail("Take Redis 6.0.6 or newer.", "Redis %s lacks commands that locks need", number)}
	}
	tested, newest := "", [2]int{}
	for _, r := range releases {
		if r.product != name {
			continue
		}
		if v[0] == r.major && v[1] == r.minor {
			return []Finding{pass("%s %s; %s was tested", name, number, r.tested)}
		}
		tested, newest = tested+" "+r.tested, [2]int{r.major, r.minor}
	}
	switch {
	case tested == "":
		return []Finding{warn("Try your locks on it first; docs/servers.md has what is known of it.", "%s %s is not tested at all", name, number)}
	case slices.Compare(v[:2], newest[:]) > 0:
		return []Finding{warn("Nothing is known against it; see whether there is a newer holdfast.", "%s %s is newer than those that were tested:%s", name, number, tested)}
	}
	return []Finding{pass("%s %s; not tested itself, but%s were", name, number, tested)}
}

func role(n *node) []Finding {
	is, why := n.said("role")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case is == "master" && n.replica:
		return []Finding{warn("Look again in a moment: a failover may be under way.", "it was named as a replica, and is a primary")}
	case is == "master":
		return []Finding{pass("it is a primary")}
	case !n.replica:
		return []Finding{fail("Name the primary, or use redis+sentinel://.", "it is a replica of %s:%s, so it takes no writes",
			n.info["master_host"], n.info["master_port"])}
	case n.info["master_link_status"] != "up":
		return []Finding{warn("Check the network between them, and the log of the replica.", "this replica has no connection to its primary")}
	}
	return []Finding{pass("it is a replica")}
}

func clusterMode(n *node) []Finding {
	switch is, why := n.saidNumber("cluster_enabled"); {
	case why != "":
		return nil // the other checks say that INFO is refused
	case is == 1 && !n.target.IsCluster():
		return []Finding{fail("Put ?cluster=true behind the URL.", "it is one node of a cluster, and the URL is not of a cluster")}
	case is == 0 && n.target.IsCluster():
		return []Finding{fail("Name one host, without cluster=true.", "it is no cluster, and the URL is of one")}
	}
	return nil
}
