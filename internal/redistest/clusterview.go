package redistest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A clusterView is what one node says about the cluster, by node address.
type clusterView map[string]clusterNode

type clusterNode struct {
	primary string   // node id of a replica's master, empty for a master
	slots   [][2]int // first and last slot of each range
}

// parseView reads the reply of CLUSTER NODES. A line is
//
//	id ip:port@busport flags master ping pong epoch link slots...
func parseView(text string) (clusterView, error) {
	view := clusterView{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES: %q", line)
		}
		addr, _, _ := strings.Cut(words[1], "@")
		node := clusterNode{primary: strings.Trim(words[3], "-")}
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				continue // a slot that is being moved
			}
			first, last, ranged := strings.Cut(word, "-")
			if !ranged {
				last = first
			}
			from, err := strconv.Atoi(first)
			if err != nil {
				return nil, err
			}
			to, err := strconv.Atoi(last)
			if err != nil {
				return nil, err
			}
			node.slots = append(node.slots, [2]int{from, to})
		}
		view[addr] = node
	}
	return view, nil
}

// owner returns the address of the slot's owner, or nothing.
func (v clusterView) owner(slot int) string {
	for addr, node := range v {
		for _, r := range node.slots {
			if r[0] <= slot && slot <= r[1] {
				return addr
			}
		}
	}
	return ""
}

func sameView(a, b clusterView) bool {
	return maps.EqualFunc(a, b, func(x, y clusterNode) bool {
		return x.primary == y.primary && slices.Equal(x.slots, y.slots)
	})
}
