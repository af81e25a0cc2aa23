package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The least that a lock with a waiting line can do: set a field and a time to
// live, delete the key and announce it. No library that takes a lock with one
// script and gives it back with another can be faster on the same client, unless it
// sends the calls of several goroutines together.
const (
	bareTake = `redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`
	bareGive = `redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
	bareName  = "bare"
	bareNotes = "No lock, but the limit: EVALSHA of HSET and PEXPIRE, then EVALSHA of DEL and PUBLISH, " +
		"with nothing around them."
	bareOwner = "00000000-0000-4000-8000-000000000000:1" // as long as a real one
)

func bareOnGoRedis() contender {
	return contender{
		name: bareName, client: goRedis, notes: bareNotes, bare: true,
		open: func(_ context.Context, s setup) (session, error) {
			return &bareGoRedis{newGoRedis(s), redis.NewScript(bareTake), redis.NewScript(bareGive), millis(s)}, nil
		},
	}
}

func millis(s setup) string { return strconv.FormatInt(s.Lease.Milliseconds(), 10) }

type bareGoRedis struct {
	rdb        redis.UniversalClient
	take, give *redis.Script
	lease      string
}

func (s *bareGoRedis) pair(name string) pair {
	key, both := []string{name}, []string{name, name + ":channel"}
	return func(ctx context.Context, critical func()) error {
		// Run falls back to EVAL once, when the server does not know the script.
		if err := s.take.Run(ctx, s.rdb, key, bareOwner, s.lease).Err(); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := s.give.Run(ctx, s.rdb, both).Err(); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

func (s *bareGoRedis) close() error { return s.rdb.Close() }

func bareOnRueidis() contender {
	return contender{
		name: bareName, client: rueidisLib, notes: bareNotes, bare: true,
		open: func(_ context.Context, s setup) (session, error) {
			client, err := rueidis.NewClient(rueidisOptions(s))
			if err != nil {
				return nil, err
			}
			return &bareRueidis{client, rueidis.NewLuaScript(bareTake), rueidis.NewLuaScript(bareGive), millis(s)}, nil
		},
	}
}

type bareRueidis struct {
	client     rueidis.Client
	take, give *rueidis.Lua
	lease      string
}

func (s *bareRueidis) pair(name string) pair {
	key, both := []string{name}, []string{name, name + ":channel"}
	args := []string{bareOwner, s.lease}
	return func(ctx context.Context, critical func()) error {
		if err := s.take.Exec(ctx, s.client, key, args).Error(); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := s.give.Exec(ctx, s.client, both, nil).Error(); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

func (s *bareRueidis) close() error {
	s.client.Close()
	return nil
}
