package survey

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// isSharded reports whether releases are announced by sharded messages, which is so on a cluster
// whose nodes know them. It asks once.
func isSharded(ctx context.Context, rdb redis.UniversalClient) (bool, error) {
	if _, ok := rdb.(*redis.ClusterClient); !ok {
		return false, nil
	}
	asked := rdb.PubSubShardNumSub(ctx)
	err := explain(asked)
	var answered redis.Error
	var lacking *RightError
	if errors.As(err, &answered) && !errors.As(err, &lacking) {
		return false, nil // it does not know the question
	}
	return err == nil, err
}

// eachPrimary calls ask for each primary, side by side, and returns the first error. The others'
// contexts end with it.
func eachPrimary(ctx context.Context, rdb redis.UniversalClient, ask func(context.Context, redis.Cmdable) error) error {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return ask(ctx, rdb)
	}
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := cluster.ForEachMaster(asking, func(ctx context.Context, node *redis.Client) error {
		err := ask(ctx, node)
		if err != nil {
			cancel(err)
		}
		return err
	})
	if ctx.Err() == nil && asking.Err() != nil {
		return context.Cause(asking) // the others failed because of it
	}
	return err
}

// listeners asks who listens on the locks' channels.
func (r *reader) listeners(ctx context.Context, all []*raw) error {
	wanted := map[string][]*int64{}
	add := func(channel string, to *int64) { wanted[channel] = append(wanted[channel], to) }
	for _, one := range all {
		one.addChannels(add)
	}
	if len(wanted) == 0 {
		return nil
	}
	counts, err := r.count(ctx, wanted)
	if err != nil {
		return err
	}
	for channel, n := range counts {
		for _, to := range wanted[channel] {
			*to = n
		}
	}
	return nil
}

// addChannels adds the channels that something of its type may have, and where their numbers go.
func (one *raw) addChannels(add func(string, *int64)) {
	hash, nothing := one.keyType == typeHash && one.lock, one.keyType == typeNone
	if hash && one.mode != "" || nothing {
		add(protocol.RWChannel(one.name), &one.onRW)
	}
	if hash && one.mode == "" || nothing {
		add(protocol.LockChannel(one.name), &one.onLock)
	}
	if hash && one.mode == "" {
		add(protocol.WaiterChannel(one.name, one.found[0].Owner), &one.onOwner)
	}
	if one.keyType == typeString || nothing {
		add(protocol.SemaphoreChannel(one.name), &one.onSemaphore)
		add(protocol.PermitsChannel(one.name), &one.onPermits)
		add(protocol.LatchChannel(one.name), &one.onLatch)
	}
}

// count asks how many listen on each of these channels.
func (r *reader) count(ctx context.Context, channels map[string][]*int64) (map[string]int64, error) {
	cluster, ok := r.rdb.(*redis.ClusterClient)
	if ok && r.sharded {
		return countSharded(ctx, cluster, channels)
	}
	all := make([]string, 0, len(channels))
	for channel := range channels {
		all = append(all, channel)
	}
	var mu sync.Mutex
	sum := make(map[string]int64, len(channels))
	err := eachPrimary(ctx, r.rdb, func(ctx context.Context, node redis.Cmdable) error {
		asked := node.PubSubNumSub(ctx, all...)
		mu.Lock()
		defer mu.Unlock()
		for channel, n := range asked.Val() {
			sum[channel] += n
		}
		return explain(asked)
	})
	return sum, err
}

// countSharded asks for each channel the node whose slot it is in.
func countSharded(ctx context.Context, cluster *redis.ClusterClient, channels map[string][]*int64) (map[string]int64, error) {
	atNode := map[*redis.Client][]string{}
	for channel := range channels {
		node, err := cluster.MasterForKey(ctx, channel)
		if err != nil {
			return nil, err
		}
		atNode[node] = append(atNode[node], channel)
	}
	counts := make(map[string]int64, len(channels))
	for node, some := range atNode {
		asked := node.PubSubShardNumSub(ctx, some...)
		if err := explain(asked); err != nil {
			return nil, err
		}
		maps.Copy(counts, asked.Val())
	}
	return counts, nil
}

// channels are those of a node on which somebody listens and that match a pattern.
func (r *reader) channels(ctx context.Context, node redis.Cmdable, pattern string) ([]string, error) {
	ask := node.PubSubChannels
	if r.sharded {
		ask = node.PubSubShardChannels
	}
	asked := ask(ctx, pattern)
	return asked.Val(), explain(asked)
}
