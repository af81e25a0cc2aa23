package demo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// reentrancy locks twice as one owner, and reads after each step what stands in
// Redis.
func (s *show) reentrancy(ctx context.Context) error {
	s.Stage.Say("A function that holds a lock calls another one that takes the same lock. Under the context of the first hold " +
		"this does not block: it is the same owner. Redis counts; the lock is free when the count is 0. " +
		"This is what HGETALL answers, in the form of Redisson, so that Java sees the same lock:")
	client, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	mu := client.NewMutex(s.key("nested"))
	outer, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	if err := s.expectCount(ctx, mu.Name(), "Lock", outer.Owner(), 1); err != nil {
		return err
	}
	inner, err := mu.Lock(outer.Context())
	if err != nil {
		return err
	}
	if err := s.expectCount(ctx, mu.Name(), "Lock again", outer.Owner(), 2); err != nil {
		return err
	}
	if err := inner.Unlock(); err != nil {
		return err
	}
	if err := s.expectCount(ctx, mu.Name(), "Unlock", outer.Owner(), 1); err != nil {
		return err
	}
	if err := outer.Unlock(); err != nil {
		return err
	}
	if err := s.expectCount(ctx, mu.Name(), "Unlock again", outer.Owner(), 0); err != nil {
		return err
	}
	s.measuredf("Reentrancy: one hash field, count 1, 2, 1, then no key.")
	return nil
}

// expectCount reads the hash and checks it.
func (s *show) expectCount(ctx context.Context, key, after string, owner holdfast.Owner, want int) error {
	hash, err := s.rdb.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	text := "(no key)"
	for field, value := range hash {
		text = fmt.Sprintf("%s -> %s", field, value)
	}
	s.Stage.Point(after + ": " + text)
	expected := want == 0 && len(hash) == 0 ||
		want > 0 && len(hash) == 1 && hash[owner.String()] == strconv.Itoa(want)
	if !expected {
		return fmt.Errorf("after %q the hash should be %s with the count %d, but is %v", after, owner, want, hash)
	}
	return nil
}
