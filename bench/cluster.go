package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots are all slots of a cluster.
const slots = 16384

// A redisCluster is a cluster of our own: primaries that share the slots, without replicas.
type redisCluster struct{ nodes []*server }

// startCluster starts a cluster, and returns when all nodes know who has which slots. It is put
// together by hand, since redis-cli does not make one of fewer than three.
func startCluster(ctx context.Context, primaries int) (c *redisCluster, err error) {
	c = &redisCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for range primaries {
		_, bus, err := freePort(ctx)
		if err != nil {
			return c, err
		}
		s, err := startServer(ctx, "--cluster-enabled", "yes", "--cluster-port", bus)
		if err != nil {
			return c, err
		}
		s.bus = bus
		c.nodes = append(c.nodes, s)
	}
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	for i := range c.nodes {
		if err := c.join(ctx, i); err != nil {
			return c, fmt.Errorf("making a cluster (it needs Redis 7.0): %w", err)
		}
	}
	for i := range c.nodes {
		if err := c.agreed(ctx, i); err != nil {
			return c, err
		}
	}
	return c, nil
}

// join gives a node its share of the slots, and has it meet the first one.
func (c *redisCluster) join(ctx context.Context, i int) error {
	n := len(c.nodes)
	rdb := c.client(i)
	defer rdb.Close() //nolint:errcheck // it has nothing to lose
	host, port, err := net.SplitHostPort(c.nodes[0].addr)
	if err != nil {
		return err
	}
	// Without an epoch of its own, two would claim the same one, and have to agree who keeps it.
	if err := rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
		return err
	}
	if err := rdb.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil || i == 0 {
		return err
	}
	return rdb.Do(ctx, "cluster", "meet", host, port, c.nodes[0].bus).Err()
}

// agreed returns once a node knows all others and all slots.
func (c *redisCluster) agreed(ctx context.Context, i int) error {
	rdb := c.client(i)
	defer rdb.Close() //nolint:errcheck // it has nothing to lose
	want := map[string]string{
		"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(slots), "cluster_known_nodes": strconv.Itoa(len(c.nodes)),
		"cluster_size": strconv.Itoa(len(c.nodes)),
	}
	for {
		got, err := clusterInfo(ctx, rdb)
		done := err == nil
		for name, value := range want {
			done = done && got[name] == value
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster has not come together: %v: %w", got, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond): // between two questions
		}
	}
}

// client connects to one node alone.
func (c *redisCluster) client(i int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: c.nodes[i].addr, MaxRetries: -1})
}

// addrs are those of all nodes.
func (c *redisCluster) addrs() (all []string) {
	for _, node := range c.nodes {
		all = append(all, node.addr)
	}
	return all
}

// close ends all nodes.
func (c *redisCluster) close() (err error) {
	for _, node := range c.nodes {
		err = errors.Join(err, node.close())
	}
	return err
}
