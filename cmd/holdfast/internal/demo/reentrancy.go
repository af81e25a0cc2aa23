package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// reentrancy locks twice as one owner, and reads after each step what stands in
// Redis.
func (s *show) reentrancy() {
	s.sayf("A function that holds a lock calls another one that takes the same lock. Under the context of the " +
		"first hold this does not block: it is the same owner. Redis counts; the lock is free when the count is 0. " +
		"This is what HGETALL answers, in the form of Redisson, so that Java sees the same lock:")
	mu := s.client().NewMutex(s.key("nested"))
	outer := must(mu.Lock(s.ctx))
	s.expectHash(mu.Name(), "Lock", counts(outer.Owner(), "1"))
	inner := must(mu.Lock(outer.Context()))
	s.expectHash(mu.Name(), "Lock again", counts(outer.Owner(), "2"))
	check(inner.Unlock())
	s.expectHash(mu.Name(), "Unlock", counts(outer.Owner(), "1"))
	check(outer.Unlock())
	s.expectHash(mu.Name(), "Unlock again", nil)
	s.measuredf("Reentrancy: one hash field, count 1, 2, 1, then no key.")
}

// counts is what stands in Redis for a mutex.
func counts(owner holdfast.Owner, times string) map[string]string {
	return map[string]string{owner.String(): times}
}

// expectHash reads a hash, shows it, and checks it. A nil one is no key.
func (s *show) expectHash(key, after string, want map[string]string) {
	hash := must(s.rdb.HGetAll(s.ctx, key).Result())
	fields := []string{}
	for _, field := range slices.Sorted(maps.Keys(hash)) {
		fields = append(fields, fmt.Sprintf("%s -> %s", field, hash[field]))
	}
	if len(hash) == 0 {
		fields = []string{"(no key)"}
	}
	s.pointf("%s: %s", after, strings.Join(fields, ", "))
	promise(maps.Equal(hash, want), "after %q the hash should be %v, but is %v", after, want, hash)
}
