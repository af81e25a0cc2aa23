package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	clusterSlots = 16384
	minMasters   = 3 // fewer cannot agree that one is down, and redis-cli refuses them
	nodeTimeout  = 2 * time.Second
	meetEvery    = 2 * nodeTimeout // the attempt before has ended
)

// Cluster is a Redis Cluster. A node counts as down when it has not answered
// for two seconds.
type Cluster struct {
	Nodes []*Server // masters and replicas; which is which changes
}

// StartCluster starts a cluster of at least three masters with so many
// replicas each. It returns when all nodes agree which of them owns which
// slots, all slots are served, and all replicas are linked to their masters.
func StartCluster(t testing.TB, masters, replicasPer int) *Cluster {
	t.Helper()
	if masters < minMasters {
		t.Fatalf("redistest: a cluster needs %d masters or more, not %d", minMasters, masters)
	}
	c := startNodes(t, masters*(1+replicasPer))
	if err := c.create(replicasPer); err != nil {
		t.Fatalf("redistest: creating the cluster: %v", err)
	}
	c.AwaitRecovery(t, masters)
	return c
}

// startNodes starts nodes that do not know each other yet.
func startNodes(t testing.TB, count int) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range count {
		c.Nodes = append(c.Nodes, Start(t, WithConfig("cluster-enabled yes",
			"cluster-config-file nodes.conf", fmt.Sprintf("cluster-node-timeout %d", nodeTimeout.Milliseconds()))))
	}
	return c
}

// AwaitRecovery waits until there are so many masters again and all is as when it was started. All nodes must run.
func (c *Cluster) AwaitRecovery(t testing.TB, masters int) {
	t.Helper()
	pollWithin(t, recoveryLimit, "the cluster has recovered", func() error { return c.recovered(masters) })
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// NodeFor returns the master that owns the slot of the key, as the nodes which
// run agree. That master may itself have been killed.
func (c *Cluster) NodeFor(t testing.TB, key string) *Server {
	t.Helper()
	var owner *Server
	poll(t, "the nodes agree who owns "+key, func() (err error) {
		owner, err = c.owner(key)
		return err
	})
	return owner
}

// WaitNewNodeFor returns the master that owns the slot of the key as soon as
// the nodes which run agree that it is not old any more, and take requests.
func (c *Cluster) WaitNewNodeFor(t testing.TB, key string, old *Server) *Server {
	t.Helper()
	var owner *Server
	poll(t, "a node other than "+old.Addr()+" owns "+key, func() (err error) {
		if owner, err = c.owner(key); err != nil {
			return err
		}
		if owner == old {
			return errors.New("it still does")
		}
		return c.healthy()
	})
	return owner
}

// create has redis-cli do it, which lets each node meet the first one once. A node that does not answer the other
// within the node timeout is given up and not tried again, so they meet again until redis-cli is content.
func (c *Cluster) create(replicasPer int) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollLimit)
	defer cancel()
	args := append([]string{"--cluster", "create"}, c.Addrs()...)
	args = append(args, "--cluster-replicas", strconv.Itoa(replicasPer), "--cluster-yes")
	created := make(chan error, 1)
	go func() {
		out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		created <- err
	}()
	for {
		select {
		case err := <-created:
			return err
		case <-time.After(meetEvery):
			c.meet()
		}
	}
}

// meet lets the first node meet the others. It does no harm between nodes that know each other; one that does not
// answer now has the next time.
func (c *Cluster) meet() {
	for _, node := range c.Nodes[1:] {
		host, port, err := net.SplitHostPort(node.Addr())
		if err == nil {
			_, err = c.Nodes[0].cli(pingLimit, "CLUSTER", "MEET", host, port)
		}
		if err != nil {
			node.t.Logf("redistest: %v", err)
		}
	}
}

// recovered checks what StartCluster promises.
func (c *Cluster) recovered(masters int) error {
	if err := c.healthy(); err != nil {
		return err
	}
	views, err := c.views()
	if err != nil {
		return err
	}
	replicas := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Server) bool {
		return views[0][n.Addr()].primary == ""
	})
	if want := len(c.Nodes) - masters; len(replicas) != want {
		return fmt.Errorf("%d of %d replicas", len(replicas), want)
	}
	for _, view := range views[1:] {
		if !sameView(view, views[0]) {
			return fmt.Errorf("one node sees %v, another %v", views[0], view)
		}
	}
	return linked(replicas)
}

// healthy checks that every node which runs knows all nodes and serves
// requests for all slots.
func (c *Cluster) healthy() error {
	want := map[string]string{
		"cluster_state":          "ok",
		"cluster_slots_assigned": strconv.Itoa(clusterSlots),
		"cluster_slots_ok":       strconv.Itoa(clusterSlots),
		"cluster_known_nodes":    strconv.Itoa(len(c.Nodes)),
	}
	for _, node := range c.running() {
		info, err := node.cli(pingLimit, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		got := fields(info)
		for name, value := range want {
			if got[name] != value {
				return fmt.Errorf("%s: %s is %q, not %q", node.Addr(), name, got[name], value)
			}
		}
	}
	return nil
}

// owner returns the master that all running nodes take for the key's owner.
func (c *Cluster) owner(key string) (*Server, error) {
	views, err := c.views()
	if err != nil {
		return nil, err
	}
	reply, err := c.running()[0].cli(pingLimit, "CLUSTER", "KEYSLOT", key)
	if err != nil {
		return nil, err
	}
	slot, err := strconv.Atoi(reply)
	if err != nil {
		return nil, err
	}
	owner := views[0].owner(slot)
	for _, view := range views[1:] {
		if other := view.owner(slot); other != owner {
			return nil, fmt.Errorf("one node says %q, another %q", owner, other)
		}
	}
	if node := c.node(owner); node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("slot %d has no owner", slot)
}

func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Server) bool { return !n.Running() })
}

func (c *Cluster) node(addr string) *Server {
	for _, node := range c.Nodes {
		if node.Addr() == addr {
			return node
		}
	}
	return nil
}

// views returns what each running node says about the cluster, at least one.
func (c *Cluster) views() ([]clusterView, error) {
	var views []clusterView
	for _, node := range c.running() {
		text, err := node.cli(pingLimit, "CLUSTER", "NODES")
		if err != nil {
			return nil, err
		}
		view, err := parseView(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", node.Addr(), err)
		}
		views = append(views, view)
	}
	if len(views) == 0 {
		return nil, errors.New("no node runs")
	}
	return views, nil
}

// Roles returns the nodes that own slots, and their replicas.
func (c *Cluster) Roles(t testing.TB) (primaries, replicas []*Server) {
	t.Helper()
	for _, node := range c.Nodes {
		if strings.HasPrefix(node.Cli(t, "ROLE"), "master") {
			primaries = append(primaries, node)
		} else {
			replicas = append(replicas, node)
		}
	}
	return primaries, replicas
}

// WaitReplaced waits until the nodes which run agree that the old one owns no slot any more, and take requests.
func (c *Cluster) WaitReplaced(t testing.TB, old *Server) {
	t.Helper()
	poll(t, old.Addr()+" is replaced", func() error {
		views, err := c.views()
		if err != nil {
			return err
		}
		for _, view := range views {
			if len(view[old.Addr()].slots) > 0 {
				return errors.New("it still owns slots")
			}
		}
		return c.healthy()
	})
}
