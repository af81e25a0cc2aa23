package rueidisdriver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// singleProofs and slotProofs are how many probes a proof takes. rueidis sends each on one of its connections to the server,
	// by chance; by default there are up to four to the only server, and one to each node of a cluster.
	singleProofs, slotProofs = 64, 16
	// probesAtOnce is how many of them are under way at once. Without pipelining each then uses a separate connection.
	probesAtOnce = 16
)

// errReplica means that a server has answered and is not a primary.
var errReplica = errors.New("rueidisdriver: the server is no primary, or not yet")

// proveOwn asks the client's own connections: on a cluster, those for the slot of a key. It returns nil if they have answered,
// and lead to a primary. It takes findLimit at most.
func (d *Driver) proveOwn(key string, probes int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), findLimit)
	defer cancel()
	if err := isPrimary(ctx, d.client, key); err != nil { // the usual case while there is doubt
		return err
	}
	var left atomic.Int32
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	left.Store(probes - 1)
	for range probesAtOnce {
		all.Go(func() {
			for failed.Load() == nil && left.Add(-1) >= 0 {
				if err := isPrimary(ctx, d.client, key); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// probe is a script that does nothing. A server runs it only if it may write, and a replica refuses it, from Redis 7.0 on. A user who
// may take locks may run it.
const probe = "#!lua\nreturn 1"

// isPrimary asks a server whether it is a primary. It returns errReplica if not, and else why it has not answered. A server before
// Redis 7.0 does not know the probe, so it is asked with WAIT, which a replica refuses, and which does not wait without replicas to wait
// for. A cluster's client asks the server of the key.
func isPrimary(ctx context.Context, client rueidis.CommandClient, key string) error {
	b := client.B()
	for _, question := range []rueidis.Completed{
		b.Arbitrary("EVAL", probe, "0").Build().SetSlot(key).Pin(),
		b.Arbitrary("WAIT", "0", "1").Build().SetSlot(key).Pin(), // built by Wait, it would use another connection
	} {
		err := client.Do(ctx, question).Error()
		refusal, refused := rueidis.IsRedisErr(err)
		switch {
		case !refused:
			return err
		case isNoPrimary(refusal.Error()):
			return errReplica
		}
	}
	return nil // it has answered
}

// isNoPrimary reports whether a refusal comes from a server that is no primary, or not yet.
func isNoPrimary(refusal string) bool {
	for _, word := range []string{"READONLY", "LOADING", "MASTERDOWN"} {
		if strings.HasPrefix(refusal, word) {
			return true
		}
	}
	return strings.Contains(refusal, "WAIT cannot be used with replica")
}

// slotsInDoubt are slots of a cluster that are reached by spare connections, because the client's own for them are in doubt. A slot is
// in doubt until a proof succeeds. The zero value has none. It is safe for concurrent use.
type slotsInDoubt struct {
	some  atomic.Bool // there are some
	mu    sync.Mutex
	slots map[int64]*slotInDoubt // guarded by mu, with what it refers to
	swept time.Time              // when has last called prove for a slot other than its argument; guarded by mu
}

type slotInDoubt struct {
	key   string    // one of the slot's
	asked time.Time // when a proof last began
}

// add adds the slot of a key.
func (s *slotsInDoubt) add(slot int64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = map[int64]*slotInDoubt{}
	}
	if s.slots[slot] == nil {
		s.slots[slot] = &slotInDoubt{key: key}
	}
	s.some.Store(true)
}

// remove removes a slot that is proven.
func (s *slotsInDoubt) remove(slot int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slots, slot)
	s.some.Store(len(s.slots) > 0)
}

// has reports whether a slot is in doubt. It calls prove for a slot that is due for a proof: this one if it is in doubt, otherwise
// any other slot in doubt, because there may be no further call for that. A slot is due once in findLimit, the longest time of a proof.
func (s *slotsInDoubt) has(slot int64, prove func(slot int64, key string)) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if found := s.slots[slot]; found != nil {
		if now.Sub(found.asked) >= findLimit {
			found.asked = now
			prove(slot, found.key)
		}
		return true
	}
	if now.Sub(s.swept) < findLimit {
		return false
	}
	s.swept = now
	for other, found := range s.slots { // the order is random
		if now.Sub(found.asked) >= findLimit {
			found.asked = now
			prove(other, found.key)
			break
		}
	}
	return false
}
