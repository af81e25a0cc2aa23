package holdfast

import (
	"hash/maphash"
	"iter"
)

// ownerStates are those of a client, by lock and owner. Use newOwnerStates. There may be a
// hundred thousand, so the map has the hash of a key, 8 bytes, in the place of the key, 48.
type ownerStates struct {
	hash   func(ownerStateKey) uint64
	byHash map[uint64]*ownerState
	others map[ownerStateKey]*ownerState // whose hash another had when they came
}

// ownerStateKey is an owner at a lock: at one side of it, if it has two.
type ownerStateKey struct {
	name, class string
	owner       Owner
}

func newOwnerStates() ownerStates {
	seed := maphash.MakeSeed()
	return ownerStates{
		hash:   func(key ownerStateKey) uint64 { return maphash.Comparable(seed, key) },
		byHash: map[uint64]*ownerState{},
		others: map[ownerStateKey]*ownerState{},
	}
}

// get returns the one with a key, or nil.
func (all *ownerStates) get(key ownerStateKey) *ownerState {
	if s := all.byHash[all.hash(key)]; s != nil && s.key() == key {
		return s
	}
	return all.others[key]
}

// add adds one whose key none has.
func (all *ownerStates) add(s *ownerState) {
	if h := all.hash(s.key()); all.byHash[h] == nil {
		all.byHash[h] = s
	} else {
		all.others[s.key()] = s
	}
}

func (all *ownerStates) remove(s *ownerState) {
	if h := all.hash(s.key()); all.byHash[h] == s {
		delete(all.byHash, h)
	} else {
		delete(all.others, s.key())
	}
}

// each are all of them.
func (all *ownerStates) each() iter.Seq[*ownerState] {
	return func(yield func(*ownerState) bool) {
		for _, s := range all.byHash {
			if !yield(s) {
				return
			}
		}
		for _, s := range all.others {
			if !yield(s) {
				return
			}
		}
	}
}
