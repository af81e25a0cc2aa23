package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// A Move is a slot of a cluster on its way from one master to another, key by key.
type Move struct {
	cluster  *Cluster
	slot     string
	from, to *Server
}

// BeginMove has the master of the key's slot give it to another one. The slot is
// between the two until Finish.
func (c *Cluster) BeginMove(t testing.TB, key string) *Move {
	t.Helper()
	primaries, _ := c.Roles(t)
	m := &Move{cluster: c, slot: c.Nodes[0].Cli(t, "CLUSTER", "KEYSLOT", key), from: c.NodeFor(t, key)}
	for i, node := range primaries {
		if node == m.from {
			m.to = primaries[(i+1)%len(primaries)]
		}
	}
	m.to.Cli(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.Cli(t, "CLUSTER", "MYID"))
	m.from.Cli(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.to.Cli(t, "CLUSTER", "MYID"))
	return m
}

// Keys returns some keys of the slot that have not been moved yet.
func (m *Move) Keys(t testing.TB) []string {
	t.Helper()
	return strings.Fields(m.from.Cli(t, "CLUSTER", "GETKEYSINSLOT", m.slot, "100"))
}

// Key moves a key. One that is gone is no error.
func (m *Move) Key(t testing.TB, key string) {
	t.Helper()
	m.from.Cli(t, "MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), key, "0", "5000")
}

// Finish moves the keys that are left, and the slot.
func (m *Move) Finish(t testing.TB) {
	t.Helper()
	for keys := m.Keys(t); len(keys) > 0; keys = m.Keys(t) {
		for _, key := range keys {
			m.Key(t, key)
		}
	}
	owner := m.to.Cli(t, "CLUSTER", "MYID")
	for _, node := range append([]*Server{m.to, m.from}, m.cluster.Nodes...) {
		if !strings.HasPrefix(node.Cli(t, "ROLE"), "master") {
			continue
		}
		node.Cli(t, "CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	}
}
