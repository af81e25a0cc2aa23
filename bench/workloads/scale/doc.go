// Package scale measures what docs/scale.md is made of: what a pair costs each node of clusters of one to three primaries,
// which it starts; what messages between nodes cost; renewals on one server, on a cluster, and there with names in hash
// tags; and subscribers. A bare listener has one goroutine, which ends with its connection.
package scale
