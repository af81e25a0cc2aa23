package rueidisdriver

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// slotTable says who owns which slot of a cluster, sorted by slot.
type slotTable []slotRange

type slotRange struct {
	first, last int64
	addr        string
}

// slotsLimit is how long a node has to say who owns which slot.
const slotsLimit = 500 * time.Millisecond

var errNoSlots = errors.New("rueidisdriver: no node says who owns which slot")

// owner returns the address of the primary that owns a slot.
func (t slotTable) owner(slot int64) (addr string, ok bool) {
	i, _ := slices.BinarySearchFunc(t, slot, func(r slotRange, slot int64) int { return cmp.Compare(r.last, slot) })
	if i == len(t) || slot < t[i].first {
		return "", false
	}
	return t[i].addr, true
}

// slotOf returns the slot of a channel.
func (d *Driver) slotOf(channel string) int64 {
	command := d.client.B().Ssubscribe().Channel(channel).Build()
	return int64(command.Slot())
}

// cluster is what is known of a cluster's nodes while some slots are in doubt.
type cluster struct {
	mu    sync.Mutex       // guards nodes
	nodes map[string]*node // by address

	slotsMu sync.Mutex // held while a node is asked
	slots   slotTable  // nil: to be asked for; guarded by slotsMu
	asked   time.Time  // when that was last done; guarded by slotsMu
}

// node returns the node at an address.
func (d *Driver) node(addr string) *node {
	d.cluster.mu.Lock()
	defer d.cluster.mu.Unlock()
	n := d.cluster.nodes[addr]
	if n == nil {
		n = &node{driver: d, addr: addr, finding: make(chan struct{}, 1)}
		if d.cluster.nodes == nil {
			d.cluster.nodes = map[string]*node{}
		}
		d.cluster.nodes[addr] = n
	}
	return n
}

// knownNode returns the node at an address, or nil if the client does not know it.
func (d *Driver) knownNode(addr string) *node {
	if _, known := d.client.Nodes()[addr]; !known {
		return nil
	}
	return d.node(addr)
}

// nodeInDoubt returns the node in charge of a call on a cluster if the call's slot is in doubt; nil: it is not, or the
// node is not known. It may have to ask.
func (d *Driver) nodeInDoubt(call driver.Call) *node {
	slot := d.slotOfCall(call)
	if !d.inDoubt.has(slot, d.proveSlot) {
		return nil
	}
	c := &d.cluster
	c.slotsMu.Lock()
	defer c.slotsMu.Unlock()
	if c.slots == nil && time.Since(c.asked) >= findLimit { // others who wait do not ask again at once
		ctx, cancel := context.WithTimeout(context.Background(), findLimit)
		defer cancel()
		c.slots, _ = d.slotTable(ctx)
		c.asked = time.Now()
	}
	addr, ok := c.slots.owner(slot)
	if !ok {
		return nil
	}
	return d.node(addr)
}

// proveSlot starts the proof of a slot, and does not wait for it.
func (d *Driver) proveSlot(slot int64, key string) {
	go func() { // ends by findLimit
		if endsDoubt(d.proveOwn(key, slotProofs)) {
			d.inDoubt.remove(slot)
		}
	}()
}

// forgetSlots has the nodes asked again who owns which slot.
func (c *cluster) forgetSlots() {
	c.slotsMu.Lock()
	defer c.slotsMu.Unlock()
	c.slots = nil
}

// slotTable asks one node after the other who owns which slot, on a connection of its own: to give up waiting for the
// client's others would fail those who wait for them, too.
func (d *Driver) slotTable(ctx context.Context) (slotTable, error) {
	nodes := d.client.Nodes()
	for addr := range nodes {
		if ctx.Err() != nil {
			break
		}
		conn, release := d.node(addr).find(true)
		if conn == nil {
			continue
		}
		table, refused := slotsOf(ctx, conn, addr)
		if refused {
			table = shardsOf(ctx, conn, addr, nodes)
		}
		release()
		if len(table) > 0 {
			slices.SortFunc(table, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
			return table, nil
		}
	}
	return nil, errNoSlots
}

// slotsOf asks a node with CLUSTER SLOTS, and reports whether the node refuses that.
func slotsOf(ctx context.Context, conn rueidis.CoreClient, asked string) (table slotTable, refused bool) {
	entries, err := askCluster(ctx, conn, "SLOTS")
	if _, refused = rueidis.IsRedisErr(err); refused {
		return nil, true
	}
	for _, entry := range entries {
		fields, _ := entry.ToArray() // first slot, last slot, primary, replicas
		if len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		primary, _ := fields[2].ToArray() // host, port, and more
		if len(primary) < 2 {
			continue
		}
		host, _ := primary[0].ToString()
		port, _ := primary[1].AsInt64()
		table = append(table, slotRange{first, last, address(asked, host, port)})
	}
	return table, false
}

// shardsOf asks a node with CLUSTER SHARDS. A primary has a port with TLS and one without; the
// client knows one of them.
func shardsOf(ctx context.Context, conn rueidis.CoreClient, asked string, known map[string]rueidis.Client) (table slotTable) {
	entries, _ := askCluster(ctx, conn, "SHARDS")
	for _, entry := range entries {
		shard, _ := entry.AsMap()
		nodes, slots := shard["nodes"], shard["slots"]
		members, _ := nodes.ToArray()
		bounds, _ := slots.AsIntSlice() // first and last of each range
		for _, member := range members {
			primary, _ := member.AsMap()
			if role := text(primary["role"]); role != "master" {
				continue
			}
			addr := address(asked, text(primary["endpoint"]), number(primary["port"]))
			if _, ok := known[addr]; !ok {
				addr = address(asked, text(primary["endpoint"]), number(primary["tls-port"]))
			}
			for i := 0; i+1 < len(bounds); i += 2 {
				table = append(table, slotRange{bounds[i], bounds[i+1], addr})
			}
		}
	}
	return table
}

func askCluster(ctx context.Context, conn rueidis.CoreClient, what string) ([]rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, slotsLimit)
	defer cancel()
	return conn.Do(ctx, conn.B().Arbitrary("CLUSTER", what).Build().Pin()).ToArray()
}

// address returns what the client calls a node. A node that does not know its own host is
// where it was asked.
func address(asked, host string, port int64) string {
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

func text(m rueidis.RedisMessage) string {
	s, _ := m.ToString()
	return s
}

func number(m rueidis.RedisMessage) int64 {
	n, _ := m.AsInt64()
	return n
}
