package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/rights"
)

const (
	// timeSamples is how often a server is asked for its time, and slowEntries how many entries
	// of its slow log are read.
	timeSamples = 5
	slowEntries = 128
)

// settings are what is asked of CONFIG. A setting has two names if it was renamed.
var settings = []string{
	"appendonly", "appendfsync", "save", "min-replicas-to-write", "client-output-buffer-limit", "timeout", "tcp-keepalive",
	"lua-time-limit", "maxclients", "cluster-node-timeout", "slowlog-log-slower-than", "stop-writes-on-bgsave-error",
}

// node is one server, and what it says of itself.
type node struct {
	addr    string
	client  *redis.Client
	replica bool // by what the cluster or the sentinels say
	target  *connect.Target
	err     error // why it cannot be used

	info      map[string]string
	config    map[string]string
	noInfo    string // why there is none
	noConfig  string
	slow      []redis.SlowLog
	noSlow    string
	offset    time.Duration // its clock's, from this machine's
	uncertain time.Duration // by how much that may be wrong
	noTime    string
	now       time.Time

	tls   atomic.Pointer[tls.ConnectionState] // with which it was reached last; nil: none
	lacks string                              // why what a check has asked for is not there; empty: it is

	clusterInfo   map[string]string
	noClusterInfo string

	lua     *lua          // what the user may do with Lua; nil: not tried yet
	allowed []rights.Kind // that the user has the rights for
	works   []rights.Kind // that were locked and unlocked
}

// sentinel is one sentinel, and what it says of the master.
type sentinel struct {
	addr     string
	client   *redis.SentinelClient
	err      error
	master   map[string]string
	replicas []map[string]string
	quorum   error // why there is none
}

// find finds the nodes.
func (e *exam) find(ctx context.Context) {
	switch {
	case e.Target.Master() != "":
		e.findBySentinels(ctx)
	case e.Target.IsCluster():
		e.findInCluster(ctx)
	default:
		e.add(e.Target.Hosts()[0], false)
	}
}

func (e *exam) add(addr string, replica bool) {
	for _, n := range e.nodes {
		if n.addr == addr {
			return
		}
	}
	n := &node{addr: addr, replica: replica, target: e.Target}
	n.client = e.Target.Node(addr, n.dial)
	e.nodes = append(e.nodes, n)
}

// dial opens a connection, and notes with which TLS.
func (n *node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := n.target.Dial(ctx, network, addr)
	if secure, ok := conn.(*tls.Conn); ok && err == nil {
		state := secure.ConnectionState()
		n.tls.Store(&state)
	}
	return conn, err
}

// findInCluster asks the cluster. If it does not say, its nodes are those in the URL.
func (e *exam) findInCluster(ctx context.Context) {
	cluster, ok := e.redis.(*redis.ClusterClient)
	if !ok {
		e.enumerated = errors.New("the client is no cluster's") // as the URL decides, this does not happen
		return
	}
	var found map[string]bool
	found, e.enumerated = connect.ClusterNodes(ctx, cluster)
	for _, addr := range slices.Sorted(maps.Keys(found)) {
		e.add(addr, found[addr])
	}
	if len(found) == 0 {
		for _, addr := range e.Target.Hosts() {
			e.add(addr, false)
		}
	}
}

// findBySentinels asks all sentinels. The nodes are those that any of them names.
func (e *exam) findBySentinels(ctx context.Context) {
	for _, addr := range e.Target.Hosts() {
		e.watchers = append(e.watchers, &sentinel{addr: addr, client: e.Target.Sentinel(addr, e.Target.Dial)})
	}
	var group sync.WaitGroup
	for _, s := range e.watchers {
		group.Go(func() { s.ask(ctx, e.Target.Master()) })
	}
	group.Wait()
	for _, s := range e.watchers {
		if s.err == nil {
			e.add(s.primary(), false)
		}
	}
	for _, s := range e.watchers {
		for _, replica := range s.replicas {
			e.add(net.JoinHostPort(replica["ip"], replica["port"]), true)
		}
	}
}

// ask asks a sentinel for the master and its replicas.
func (s *sentinel) ask(ctx context.Context, name string) {
	if s.master, s.err = s.client.Master(ctx, name).Result(); s.err != nil {
		return
	}
	if s.replicas, s.err = s.client.Replicas(ctx, name).Result(); s.err != nil {
		return
	}
	s.quorum = s.client.CkQuorum(ctx, name).Err()
}

// primary is the address that it names.
func (s *sentinel) primary() string { return net.JoinHostPort(s.master["ip"], s.master["port"]) }

// gather asks all nodes what checks want to know.
func (e *exam) gather(ctx context.Context) {
	var group sync.WaitGroup
	for _, n := range e.nodes {
		group.Go(func() { n.gather(ctx, e.Now) })
	}
	group.Wait()
}

func (n *node) gather(ctx context.Context, now func() time.Time) {
	n.now = now()
	if err := n.client.Ping(ctx).Err(); !answers(err) {
		n.err = err
		return
	}
	text, err := n.client.Info(ctx, "all").Result()
	n.info, n.noInfo = fields(text), refusal("INFO", err)
	if n.target.IsCluster() {
		text, err = n.client.ClusterInfo(ctx).Result()
		n.clusterInfo, n.noClusterInfo = fields(text), refusal("CLUSTER INFO", err)
	}
	n.readConfig(ctx)
	n.slow, err = n.client.SlowLogGet(ctx, slowEntries).Result()
	n.noSlow = refusal("SLOWLOG", err)
	n.readTime(ctx, now)
}

// unfit are the replies of servers that answer questions, and nothing else. What is wrong with them
// other checks say.
var unfit = []string{"MISCONF ", "LOADING ", "MASTERDOWN "}

// answers reports whether a server answers questions, by the reply to PING.
func answers(err error) bool {
	return err == nil || lacking(err) != nothing ||
		slices.ContainsFunc(unfit, func(word string) bool { return strings.HasPrefix(err.Error(), word) })
}

// readConfig asks for one setting after the other: before Redis 7.0, CONFIG takes one. It does
// not ask for all, which would bring passwords.
func (n *node) readConfig(ctx context.Context) {
	pipe := n.client.Pipeline()
	replies := make([]*redis.MapStringStringCmd, 0, len(settings))
	for _, name := range settings {
		replies = append(replies, pipe.ConfigGet(ctx, name))
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	n.config = map[string]string{}
	for i, reply := range replies {
		values, err := reply.Result()
		if why := refusal("CONFIG", err); why != "" {
			n.noConfig = why
		}
		if value, ok := values[settings[i]]; ok {
			n.config[settings[i]] = value
		}
	}
}

// readTime compares the clocks. The best of some answers is the one that came soonest.
func (n *node) readTime(ctx context.Context, now func() time.Time) {
	for i := range timeSamples {
		sent := now()
		theirs, err := n.client.Time(ctx).Result()
		took := now().Sub(sent)
		if n.noTime = refusal("TIME", err); n.noTime != "" {
			return
		}
		if uncertain := took/2 + time.Millisecond; i == 0 || uncertain < n.uncertain {
			n.offset, n.uncertain = theirs.Sub(sent.Add(took/2)), uncertain
		}
	}
}

// says is a field of INFO. If there is none, what the check finds is not known; so it is with the next three.
func (n *node) says(field string) string {
	return n.read(n.info, field, cmp.Or(n.noInfo, "INFO has no "+field))
}

func (n *node) saysNumber(field string) int64 {
	return n.number(n.says(field), "INFO says no number for "+field)
}

// setting is the value of a setting.
func (n *node) setting(name string) string { return n.read(n.config, name, n.noSetting(name)) }

func (n *node) settingNumber(name string) int64 {
	return n.number(n.setting(name), "CONFIG says no number for "+name)
}

// noSetting is why a setting has no value.
func (n *node) noSetting(name string) string { return cmp.Or(n.noConfig, "CONFIG does not know "+name) }

func (n *node) read(from map[string]string, name, why string) string {
	value, ok := from[name]
	if !ok {
		n.lacks = cmp.Or(n.lacks, why)
	}
	return value
}

func (n *node) number(text, why string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n.lacks = cmp.Or(n.lacks, why)
	}
	return value
}

// number is a number of a reply, or 0. It is small enough to be counted with.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return min(max(n, -math.MaxInt32), math.MaxInt32)
}

// local reports whether the node is on this machine.
func (n *node) local() bool {
	if n.target.IsSocket() {
		return true
	}
	host, _, err := net.SplitHostPort(n.addr)
	return err == nil && connect.Loopback(host)
}

// refusal is why a command has no answer, or empty.
func refusal(command string, err error) string {
	var answered redis.Error
	switch {
	case err == nil:
		return ""
	case lacking(err) != nothing:
		return command + " is refused to this user"
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no time for " + command
	case errors.As(err, &answered):
		return command + " is refused"
	default:
		return fmt.Sprintf("the connection failed at %s (%v)", command, err)
	}
}

// fields reads lines of "name:value".
func fields(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// pairs reads "name=value,name=value".
func pairs(text string) map[string]string {
	return fields(strings.NewReplacer("=", ":", ",", "\n").Replace(text))
}
