package connect

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ClusterNodes returns the addresses of a cluster's nodes, and whether each is a replica. If the error is not nil, some may be missing.
func ClusterNodes(ctx context.Context, cluster *redis.ClusterClient) (replica map[string]bool, err error) {
	var mu sync.Mutex
	found := map[string]bool{}
	note := func(replica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			found[c.Options().Addr] = replica
			return nil
		}
	}
	err = errors.Join(cluster.ForEachSlave(ctx, note(true)), cluster.ForEachMaster(ctx, note(false)))
	// CLUSTER SLOTS leaves out nodes that are down, or have just come. A user who may not ask for the others does without them.
	if text, refused := cluster.ClusterNodes(ctx).Result(); refused == nil {
		addNodes(found, text)
	}
	return found, err
}

// addNodes adds to nodes that are known those of CLUSTER NODES. A line of it is
//
//	id ip:port@busport,hostname flags primary ping pong epoch link slots...
func addNodes(found map[string]bool, text string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 || strings.Contains(words[2], "noaddr") || strings.Contains(words[2], "handshake") {
			continue
		}
		addr, rest, _ := strings.Cut(words[1], "@")
		_, hostname, _ := strings.Cut(rest, ",")
		hostname, _, _ = strings.Cut(hostname, ",")
		colon := strings.LastIndexByte(addr, ':') // an IPv6 address has no brackets here
		if colon < 1 {
			continue // it does not know its own address
		}
		host, port := addr[:colon], addr[colon+1:]
		addr, named := net.JoinHostPort(host, port), net.JoinHostPort(hostname, port)
		_, known := found[addr]
		if _, knownByName := found[named]; !known && !knownByName {
			found[addr] = strings.Contains(words[2], "slave")
		}
	}
}
