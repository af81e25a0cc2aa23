package contenders

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
	BareTake = `redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`
	BareGive = `redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
	BareName  = "bare"
	bareNotes = "No lock, but the limit: EVALSHA of HSET and PEXPIRE, then EVALSHA of DEL and PUBLISH, " +
		"with nothing around them."
	BareOwner = "00000000-0000-4000-8000-000000000000:1" // as long as a real one
)

func bareOnGoRedis() Contender {
	return Contender{
		Name: BareName, Client: GoRedis, Notes: bareNotes, Bare: true,
		Open: func(_ context.Context, s Setup) (Session, error) {
			return &bareGoRedis{NewGoRedis(s), redis.NewScript(BareTake), redis.NewScript(BareGive), millis(s)}, nil
		},
	}
}

func millis(s Setup) string { return strconv.FormatInt(s.Lease.Milliseconds(), 10) }

type bareGoRedis struct {
	rdb        redis.UniversalClient
	take, give *redis.Script
	lease      string
}

func (s *bareGoRedis) Pair(name string) Pair {
	key, both := []string{name}, []string{name, name + ":channel"}
	return func(ctx context.Context, critical func()) error {
		// Run falls back to EVAL once, when the server does not know the script.
		if err := s.take.Run(ctx, s.rdb, key, BareOwner, s.lease).Err(); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := s.give.Run(ctx, s.rdb, both).Err(); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

func (s *bareGoRedis) Close() error { return s.rdb.Close() }

func bareOnRueidis() Contender {
	return Contender{
		Name: BareName, Client: RueidisLib, Notes: bareNotes, Bare: true,
		Open: func(_ context.Context, s Setup) (Session, error) {
			client, err := rueidis.NewClient(RueidisOptions(s))
			if err != nil {
				return nil, err
			}
			return &bareRueidis{client, rueidis.NewLuaScript(BareTake), rueidis.NewLuaScript(BareGive), millis(s)}, nil
		},
	}
}

type bareRueidis struct {
	client     rueidis.Client
	take, give *rueidis.Lua
	lease      string
}

func (s *bareRueidis) Pair(name string) Pair {
	key, both := []string{name}, []string{name, name + ":channel"}
	args := []string{BareOwner, s.lease}
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

func (s *bareRueidis) Close() error {
	s.client.Close()
	return nil
}
