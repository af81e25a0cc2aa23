// Package scripts loads the library's scripts into Redis, for users who may not use EVAL.
//
// A server keeps loaded scripts in memory: it does not replicate them or write them to disk. So [Visit] goes to every node that may
// become a primary, replicas included. It asks all nodes at once, and waits for all of its goroutines; the client's timeouts bound
// each request.
package scripts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Node is a server, and which scripts it has.
type Node struct {
	Addr string `json:"node"`
	// Scripts is how many there are, and Missing are those that the server did not have, by kind and operation.
	Scripts int      `json:"scripts"`
	Missing []string `json:"missing,omitempty"`
	// Loaded reports whether the server has all of them now.
	Loaded bool `json:"loaded"`
	// Error says why the server could not be asked, and nothing more is known.
	Error string `json:"error,omitempty"`
}

// Visit asks every node of the target which scripts it has, and loads all of them if load is true: also those that are there,
// since Redis 7.4 evicts scripts that it has by EVAL alone. Nodes are sorted by their addresses. The error says why the nodes
// are not known; those that are known are visited.
func Visit(ctx context.Context, target *connect.Target, load bool) ([]Node, error) {
	addrs, err := find(ctx, target)
	nodes := make([]Node, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() { nodes[i] = visit(ctx, target, addr, load) })
	}
	all.Wait()
	return nodes, err
}

// find returns the addresses of the nodes.
func find(ctx context.Context, target *connect.Target) ([]string, error) {
	switch {
	case target.Master() != "":
		return findBySentinels(ctx, target)
	case target.IsCluster():
		rdb := target.Client(target.Dial)
		defer rdb.Close() //nolint:errcheck // nothing depends on it any more
		cluster, ok := rdb.(*redis.ClusterClient)
		if !ok {
			return nil, errors.New("the client is no cluster's") // as the URL decides, this does not happen
		}
		found, err := connect.ClusterNodes(ctx, cluster)
		return slices.Sorted(maps.Keys(found)), err
	}
	return target.Hosts()[:1], nil
}

// findBySentinels returns the nodes that any sentinel names. It fails if none does.
func findBySentinels(ctx context.Context, target *connect.Target) (addrs []string, failed error) {
	for _, addr := range target.Hosts() {
		found, err := askSentinel(ctx, target, addr)
		addrs = append(addrs, found...)
		failed = cmp.Or(failed, err)
	}
	if len(addrs) > 0 {
		failed = nil
	}
	slices.Sort(addrs)
	return slices.Compact(addrs), failed
}

func askSentinel(ctx context.Context, target *connect.Target, addr string) (addrs []string, err error) {
	client := target.Sentinel(addr, target.Dial)
	defer client.Close() //nolint:errcheck // nothing depends on it any more
	master, err := client.Master(ctx, target.Master()).Result()
	if err != nil {
		return nil, connect.ExplainSentinel(err)
	}
	replicas, err := client.Replicas(ctx, target.Master()).Result()
	if err != nil {
		return nil, connect.ExplainSentinel(err)
	}
	for _, node := range append(replicas, master) {
		addrs = append(addrs, net.JoinHostPort(node["ip"], node["port"]))
	}
	return addrs, nil
}

// visit asks one node, and loads the scripts.
func visit(ctx context.Context, target *connect.Target, addr string, load bool) Node {
	client := target.Node(addr, target.Dial)
	defer client.Close() //nolint:errcheck // nothing depends on it any more
	scripts := protocol.Every()
	n := Node{Addr: addr, Scripts: len(scripts)}
	err := n.isOf(ctx, target, client)
	if err == nil {
		err = n.ask(ctx, client, scripts)
	}
	if err == nil && load {
		err = n.load(ctx, client, scripts)
	}
	if err != nil {
		n.Error = explain(err).Error()
	}
	return n
}

// isOf refuses one node of a cluster whose URL does not say that it is one: the others would be left out.
func (n *Node) isOf(ctx context.Context, target *connect.Target, client *redis.Client) error {
	about, err := client.Do(ctx, "HELLO").Result()
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) {
		return err
	}
	fields, _ := about.(map[any]any)
	return target.Refuses(fields["mode"])
}

// ask notes which scripts the server does not have.
func (n *Node) ask(ctx context.Context, client *redis.Client, scripts map[string]*driver.Script) error {
	names := slices.Sorted(maps.Keys(scripts))
	hashes := make([]string, len(names))
	for i, name := range names {
		hashes[i] = scripts[name].SHA()
	}
	has, err := client.ScriptExists(ctx, hashes...).Result()
	if err != nil {
		return err
	}
	if len(has) != len(names) {
		return fmt.Errorf("%d answers about %d scripts", len(has), len(names))
	}
	for i, name := range names {
		if !has[i] {
			n.Missing = append(n.Missing, name)
		}
	}
	n.Loaded = len(n.Missing) == 0
	return nil
}

func (n *Node) load(ctx context.Context, client *redis.Client, scripts map[string]*driver.Script) error {
	n.Loaded = false
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, s := range scripts {
			pipe.ScriptLoad(ctx, s.Source())
		}
		return nil
	})
	n.Loaded = err == nil
	return err
}

// explain puts what to do before an error.
func explain(err error) error {
	if strings.HasPrefix(err.Error(), "NOPERM") {
		return fmt.Errorf("this takes a user with +script|exists, and +script|load to load them (%w)", err)
	}
	return connect.Explain(err)
}
