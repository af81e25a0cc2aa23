package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// A place is where locks are: one server, or a cluster of some primaries.
type place struct {
	name    string
	cluster bool
	addrs   []string
	nodes   []*redis.Client // to each of them, to read what it has spent
	close   func() error
}

// openPlace connects to the nodes of a place. end is called when it is closed.
func openPlace(name string, cluster bool, addrs []string, end func() error) *place {
	p := &place{name: name, cluster: cluster, addrs: addrs}
	for _, addr := range addrs {
		p.nodes = append(p.nodes, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1}))
	}
	p.close = func() (err error) {
		for _, node := range p.nodes {
			err = errors.Join(err, node.Close())
		}
		return errors.Join(err, end())
	}
	return p
}

// contenders are holdfast on each client. Messages are sharded where the place is a cluster,
// as by default, unless they are to be plain.
func (p *place) contenders(plain bool) []contender {
	sharded := p.cluster && !plain
	return []contender{
		{name: holdfastName, client: goRedis, ours: true, open: func(_ context.Context, s setup) (session, error) {
			var rdb redis.UniversalClient = newGoRedis(setup{addr: p.addrs[0], pool: s.pool})
			if p.cluster {
				rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: p.addrs, PoolSize: s.pool})
			}
			return newHoldfast(s, goredisdriver.New(rdb, goredisdriver.WithShardedPubSub(sharded)), rdb.Close)
		}},
		{name: holdfastName, client: rueidisLib, ours: true, open: func(_ context.Context, s setup) (session, error) {
			o := rueidisOptions(s)
			o.InitAddress = p.addrs
			client, err := rueidis.NewClient(o)
			if err != nil {
				return nil, err
			}
			return newHoldfast(s, rueidisdriver.New(client, rueidisdriver.WithShardedPubSub(sharded)), func() error { client.Close(); return nil })
		}},
	}
}

// A spending is what each node of a place, and this process, has spent up to a moment, or
// between two.
type spending struct {
	at    time.Time
	own   time.Duration
	nodes []nodeSpending
}

type nodeSpending struct {
	cpu     time.Duration
	scripts int64
	bus     int64 // messages of publishers, sent to other nodes
}

// spent reads what has been spent so far.
func (p *place) spent(ctx context.Context) (s spending, err error) {
	for _, node := range p.nodes {
		n, err := spentBy(ctx, node, p.cluster)
		if err != nil {
			return s, fmt.Errorf("%s: %w", p.name, err)
		}
		s.nodes = append(s.nodes, n)
	}
	s.at = time.Now()
	s.own, err = processCPU()
	return s, err
}

func spentBy(ctx context.Context, node *redis.Client, cluster bool) (n nodeSpending, err error) {
	m := meter{node}
	if n.cpu, err = m.cpu(ctx); err != nil {
		return n, err
	}
	if _, n.scripts, err = m.commands(ctx); err != nil || !cluster {
		return n, err
	}
	info, err := clusterInfo(ctx, node)
	if err != nil {
		return n, err
	}
	n.bus, err = busMessages(info)
	return n, err
}

// since is what has been spent since an earlier moment. Both are of one place.
func (s spending) since(before spending) spending {
	d := spending{at: s.at, own: s.own - before.own}
	for i, n := range s.nodes {
		b := before.nodes[i]
		d.nodes = append(d.nodes, nodeSpending{n.cpu - b.cpu, n.scripts - b.scripts, n.bus - b.bus})
	}
	return d
}

// total is what all nodes have spent, and most what the one has that has spent the most time.
func (s spending) total() (sum nodeSpending) {
	for _, n := range s.nodes {
		sum.cpu += n.cpu
		sum.scripts += n.scripts
		sum.bus += n.bus
	}
	return sum
}

func (s spending) most() (busiest time.Duration) {
	for _, n := range s.nodes {
		busiest = max(busiest, n.cpu)
	}
	return busiest
}

// shares are which part of the scripts each node has executed.
func (s spending) shares() (all []float64) {
	total := max(s.total().scripts, 1)
	for _, n := range s.nodes {
		all = append(all, float64(n.scripts)/float64(total))
	}
	return all
}

// memory is how many bytes the nodes use, all together.
func (p *place) memory(ctx context.Context) (bytes int64, err error) {
	for _, node := range p.nodes {
		used, err := usedMemory(ctx, node)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.name, err)
		}
		bytes += used
	}
	return bytes, nil
}
