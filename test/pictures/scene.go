//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

// The server has a port that the pictures may show.
const (
	port    = 29379
	address = "localhost:29379"
)

// scene is a server with locks on it, and those who hold them and wait.
type scene struct {
	rdb     *redis.Client
	server  *exec.Cmd
	stop    context.CancelFunc
	clients []*holdfast.Client
	waiting sync.WaitGroup
}

// setUp starts the server and takes the locks.
func setUp(ctx context.Context, temp string) (s *scene, err error) {
	logging.Disable() // what goes wrong is in the errors
	s = &scene{}
	s.server = exec.CommandContext(ctx, "redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", temp)
	if err := s.server.Start(); err != nil {
		return nil, err
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.rdb = redis.NewClient(&redis.Options{Addr: address, PoolSize: 64})
	if err := s.holdAll(ctx); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// end gives the locks back, and stops the server.
func (s *scene) end() error {
	s.stop()
	s.waiting.Wait()
	var closing sync.WaitGroup // side by side: if the server is gone, each takes a while
	for _, c := range s.clients {
		closing.Go(func() { _ = c.Close() }) // all keys go with the server
	}
	closing.Wait()
	err := errors.Join(s.rdb.Close(), s.server.Process.Kill())
	_ = s.server.Wait() // it was killed
	return err
}

// client is one who says that it is somebody.
func (s *scene) client(program, host string, pid int) (*holdfast.Client, error) {
	c, err := holdfast.New(goredisdriver.New(s.rdb), holdfast.WithIdentity(holdfast.Identity{Program: program, Host: host, PID: pid}))
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}

// part is one who holds a lock, or waits for it.
type part struct {
	program, host string
	pid           int
	waits         bool
	lock          func(c *holdfast.Client) holdfast.Locker
}

func mutex(name string) func(c *holdfast.Client) holdfast.Locker {
	return func(c *holdfast.Client) holdfast.Locker { return c.NewMutex(name) }
}

func fair(c *holdfast.Client) holdfast.Locker  { return c.NewFairMutex("invoices") }
func reads(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("warehouse").RLocker() }
func writes(c *holdfast.Client) holdfast.Locker {
	return c.NewRWMutex("warehouse", holdfast.WritersFirst())
}
func fenced(c *holdfast.Client) holdfast.Locker  { return c.NewMutex("ledger", holdfast.Fenced()) }
func permits(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("conversions") }

var parts = []part{
	{"report", "web-3", 4711, false, mutex("nightly")},
	{"report", "web-1", 4102, true, mutex("nightly")},
	{"billing", "web-1", 2207, false, fair},
	{"billing", "web-2", 2318, true, fair},
	{"billing", "web-3", 2290, true, fair},
	{"stats", "web-2", 933, false, reads},
	{"stats", "web-5", 871, false, reads},
	{"import", "db-1", 90, true, writes},
	{"convert", "web-1", 812, false, permits},
	{"convert", "web-4", 1377, false, permits},
	{"book", "db-2", 3055, false, fenced},
}

// redisson is the owner of a lock that a Redisson would have written.
const redisson = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"

func (s *scene) holdAll(ctx context.Context) error {
	for began := time.Now(); s.rdb.Ping(ctx).Err() != nil; {
		if time.Since(began) > 10*time.Second {
			return fmt.Errorf("no answer at %s", address)
		}
		time.Sleep(20 * time.Millisecond)
	}
	admin, err := s.client("admin", "web-1", 1)
	if err != nil {
		return err
	}
	err = errors.Join(
		admin.NewPermitSemaphore("conversions").SetPermits(ctx, 3),
		s.rdb.HSet(ctx, "orders:42", redisson, 1).Err(), s.rdb.PExpire(ctx, "orders:42", time.Hour).Err(),
	)
	if err != nil {
		return err
	}
	for _, p := range parts {
		c, err := s.client(p.program, p.host, p.pid)
		if err != nil {
			return err
		}
		if !p.waits {
			if _, err := p.lock(c).Lock(ctx); err != nil { // until the server is stopped
				return err
			}
			continue
		}
		s.waiting.Go(func() { _, _ = p.lock(c).Lock(ctx) }) // ends with the context
		time.Sleep(100 * time.Millisecond)                  // so that the line has an order
	}
	time.Sleep(2 * time.Second) // a hold says who has it after a second
	return nil
}

// unfit makes the server one that a doctor would not leave as it is.
func unfit(ctx context.Context, s *scene) error {
	return errors.Join(s.rdb.ConfigSet(ctx, "maxmemory", "256mb").Err(), s.rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
}
