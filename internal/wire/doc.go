// Package wire names everything that holdfast and Redisson both see in Redis:
// keys, channels, hash fields and payloads. Nothing else in the module spells
// one of these names, and golden tests hold each of them.
//
// Two rules join a prefix or a suffix to a lock's name so that all keys of one
// lock share a cluster slot. Both put braces around the name unless it has an
// opening brace already; see [Prefixed]. [CheckName] refuses the names for
// which that does not work.
package wire
