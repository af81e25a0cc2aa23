package rights

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Version is a version of Redis or Valkey from which on the rights differ.
type Version int

// The versions.
const (
	Recent  Version = iota // 7.0 or later
	Redis60                // 6.0
	Redis62                // 6.2
	Redis70                // 7.0 up to 7.4
	Redis80                // 8.0 or later
)

// Server is what the rights depend on beside the kind.
type Server struct {
	Version Version
	Cluster bool
}

// before7 reports whether the server has neither sharded messages nor rights to read only.
func (s Server) before7() bool { return s.Version == Redis60 || s.Version == Redis62 }

// sharded are the commands of a cluster with sharded messages in place of others.
var sharded = strings.NewReplacer(
	"UNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE", "PUBLISH", "SPUBLISH", "|NUMSUB", "|SHARDNUMSUB", "|CHANNELS", "|SHARDCHANNELS",
)

// On returns the rights on that server.
func (r Rights) On(s Server) Rights {
	if s.Cluster {
		r.Commands = union(r.Commands, []string{"PUBSUB|SHARDNUMSUB"}) // with which a client finds out how messages are sent
	}
	if s.Cluster && !s.before7() {
		r.Commands = union(nil, replaceAll(r.Commands, sharded))
		r.Channels = replaceAll(r.Channels, strings.NewReplacer(protocol.GrantChannel(client, name, false), protocol.GrantChannel(client, name, true)))
	}
	if s.Version == Redis60 {
		r.Channels = nil // every user may use all
	}
	return r
}

func replaceAll(items []string, replacer *strings.Replacer) (all []string) {
	for _, item := range items {
		all = append(all, replacer.Replace(item))
	}
	return all
}

// The clients that holdfast has adapters for.
const (
	GoRedis  = "go-redis"
	Rueidis  = "rueidis"
	ValkeyGo = "valkey-go"
)

// Clients are all of them.
func Clients() []string { return []string{GoRedis, Rueidis, ValkeyGo} }

// OfClient returns the rights that a client needs of its own on every server; rueidis and valkey-go unless they have DisableCache.
func OfClient(client string) Rights {
	if client == GoRedis {
		return of("PING", "", "")
	}
	return of("CLIENT|TRACKING", "", "")
}

// AskedOf returns the rights to what a client sends besides, and does without if it is refused. Redis notes each refusal. CLIENT
// SETINFO is not among them: versions that do not know it refuse a rule about it.
func AskedOf(client string, s Server) Rights {
	switch {
	case client != GoRedis:
		slots := Topology(client, Server{s.Version, true}) // by which it learns whether there is a cluster
		return of("CLUSTER|SLOTS ECHO PING", "", "").And(slots)
	case s.Cluster:
		return of("COMMAND", "", "")
	}
	return Rights{}
}

// Topology returns the rights by which a client finds the nodes of a cluster; none on a single server.
func Topology(client string, s Server) Rights {
	switch {
	case !s.Cluster:
		return Rights{}
	case client == GoRedis, s.Version != Recent && s.Version < Redis80:
		return of("CLUSTER|SLOTS", "", "")
	case s.Version == Redis80:
		return of("CLUSTER|SHARDS", "", "")
	default: // as the version may be
		return of("CLUSTER|SHARDS CLUSTER|SLOTS", "", "")
	}
}
