// Package force takes locks away from those who hold them, and says from whom. The library's scripts do it, so
// waiters and holders are told.
package force

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/tasks"
)

// mostNamed is how many holders are named.
const mostNamed = 3

// Possible reports whether it is a kind that can be taken away: one whose holders stand in Redis.
func Possible(l survey.Lock) bool {
	switch l.Kind {
	case survey.Mutex, survey.Fair, survey.RW, survey.Permits:
		return true
	default:
		return false
	}
}

// ChangedError says that a lock is held by others than was said.
type ChangedError struct {
	Now survey.Lock
}

func (e *ChangedError) Error() string {
	return "nothing was done, since it has changed hands meanwhile: " + Victims(e.Now)
}

// Unlock takes a lock from those who held it when it was read, and from nobody else, and reports whether
// any of them did. The errors are a [*ChangedError], and those of [survey.Read] and
// [holdfast.Mutex.ForceUnlock]. If there are more of them than were read, it takes it from all who hold it.
func Unlock(ctx context.Context, rdb redis.UniversalClient, before survey.Lock) (done bool, err error) {
	now, err := survey.Read(ctx, rdb, before.Name)
	switch {
	case errors.Is(err, survey.ErrNotFound), err == nil && now.State != survey.Held:
		return false, nil
	case err != nil:
		return false, err
	case normalizedKind(now) != normalizedKind(before), !allRead(before) && allRead(now):
		return false, &ChangedError{now}
	case !allRead(before):
		return fromAll(ctx, rdb, now)
	case !slices.Equal(owners(before), owners(now)):
		return false, &ChangedError{now}
	}
	if before.Kind == survey.Fair {
		now.Kind = survey.Fair // whoever comes to stand in its line is told, too
	}
	if done, err = fromThese(ctx, rdb, now); done || err != nil {
		return done, err
	}
	now, err = survey.Read(ctx, rdb, before.Name) // they have left by themselves just now
	if err == nil && now.State == survey.Held {
		return false, &ChangedError{now}
	}
	return false, nil
}

// normalizedKind is that of a plain mutex for a fair one, too: while nobody waits for it, it may look like a plain one, so a
// change between the two is no change of hands.
func normalizedKind(l survey.Lock) survey.Kind {
	if l.Kind == survey.Fair {
		return survey.Mutex
	}
	return l.Kind
}

// allRead reports whether all are known who hold it.
func allRead(l survey.Lock) bool { return len(l.Holders) >= l.HolderCount }

// fromThese takes a lock from those who hold it by what was read. The library's ForceUnlock looks who that
// is once more, and so would hit whoever has come since.
func fromThese(ctx context.Context, rdb redis.UniversalClient, l survey.Lock) (done bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	driver := goredisdriver.New(rdb)
	calls := call.New(call.Config{
		Driver: driver, Tasks: new(tasks.Group), Life: ctx, Closing: ctx, Timeout: holdfast.DefaultTimeout,
	})
	var untold error
	defer func() {
		if done && normalizedKind(l) == survey.Mutex {
			notifyOtherKind(ctx, rdb, driver, l)
		}
	}()
	for _, request := range requests(l) {
		res := calls.Do(ctx, request)
		if res.Err != nil {
			return done, res.Why()
		}
		// If an attempt was lost, the one that was answered may have found its work done.
		done = done || res.Has(script.Done) || len(res.Unknown) > 0
		if why := res.Reply.Untold(); res.Has(script.Done) && why != "" {
			untold = fmt.Errorf("%w: let the Redis user publish on %q (docs/acl.md): %s", holdfast.ErrUntold, request.Channel, why)
		}
	}
	return done, untold
}

// notifyTimeout is how long notifyOtherKind may take.
const notifyTimeout = time.Second

// notifyOtherKind wakes the waiters that the script has not: a mutex may have plain and fair ones at once, and the script
// wakes those of the kind that it was forced as. Its errors are dropped, since the lock is free by then: without this
// message, a waiter of holdfast's asks again after some seconds, and one of Redisson's when the lease is over that it was told.
func notifyOtherKind(ctx context.Context, rdb redis.UniversalClient, driver *goredisdriver.Driver, l survey.Lock) {
	ctx, end := context.WithTimeout(ctx, notifyTimeout)
	defer end()
	channel := protocol.LockChannel(l.Name) // the plain ones
	if l.Kind == survey.Mutex {             // the head of the fair queue
		line, err := rdb.LRange(ctx, protocol.FairQueueKey(l.Name), 0, 0).Result()
		if err != nil || len(line) == 0 {
			return
		}
		channel = protocol.WaiterChannel(l.Name, line[0])
	}
	if publish, err := driver.PublishCommand(ctx); err == nil {
		rdb.Do(ctx, publish, channel, protocol.Released)
	}
}

// requests ask for what takes it away.
func requests(l survey.Lock) (all []script.Request) {
	byMode := map[string][]string{}
	for _, h := range l.Holders {
		byMode[h.Mode] = append(byMode[h.Mode], h.Owner)
	}
	switch l.Kind {
	case survey.Fair:
		return []script.Request{protocol.Fair{Mutex: protocol.NewMutex(l.Name)}.Force(byMode[""])}
	case survey.RW:
		if readers := byMode[survey.Reads]; len(readers) > 0 {
			all = append(all, protocol.NewRead(l.Name).Force(readers))
		}
		if writers := byMode[survey.Writes]; len(writers) > 0 {
			all = append(all, protocol.NewWrite(l.Name).Force(writers))
		}
		return all
	case survey.Permits:
		return []script.Request{protocol.Permits{Name: l.Name}.Force(byMode[""])}
	default:
		return []script.Request{protocol.NewMutex(l.Name).Force(byMode[""])}
	}
}

// fromAll takes a lock, of which so many are the holders, from all of them: they have permits, or they read.
func fromAll(ctx context.Context, rdb redis.UniversalClient, l survey.Lock) (done bool, err error) {
	client, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		return false, err
	}
	defer client.Close() //nolint:errcheck // it holds nothing
	if l.Kind == survey.Permits {
		return client.NewPermitSemaphore(l.Name).ForceUnlock(ctx)
	}
	return client.NewRWMutex(l.Name).RLocker().ForceUnlock(ctx)
}

// owners are those who hold it, sorted, each with its mode.
func owners(l survey.Lock) (all []string) {
	for _, h := range l.Holders {
		all = append(all, h.Owner+" "+h.Mode)
	}
	slices.Sort(all)
	return all
}

// Holders stands for those who hold a lock: it is another text when others do, or in another way.
func Holders(l survey.Lock) string {
	sum := sha256.Sum256([]byte(string(normalizedKind(l)) + "\n" + strings.Join(owners(l), "\n")))
	return hex.EncodeToString(sum[:])
}

// Victims says in a sentence whom it hits.
func Victims(l survey.Lock) string {
	named := make([]string, 0, mostNamed)
	for _, h := range l.Holders[:min(mostNamed, len(l.Holders))] {
		named = append(named, present.Who(h.Who, h.Owner)+" ("+present.HoldOf(h, l)+")")
	}
	text := strings.Join(named, "; ")
	if more := l.HolderCount - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	what, verb := "the "+map[survey.Kind]string{survey.Mutex: "mutex", survey.Fair: "fair mutex", survey.RW: "read-write lock"}[l.Kind], "is held"
	switch {
	case l.Kind == survey.Permits && l.Taken == 1:
		what = "1 permit of the semaphore"
	case l.Kind == survey.Permits:
		what, verb = fmt.Sprintf("%d permits of the semaphore", l.Taken), "are held"
	}
	text = fmt.Sprintf("%s %q %s by %s", what, l.Name, verb, text)
	if l.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", l.Waiting)
	}
	return text
}
