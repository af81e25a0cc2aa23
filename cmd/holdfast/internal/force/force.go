// Package force takes locks away from those who hold them, and says from whom. The library does it, so
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
	"github.com/holdfast-go/holdfast/internal/protocol"
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
	case normalizedKind(now) != normalizedKind(before), allRead(before) != allRead(now),
		allRead(before) && !slices.Equal(owners(before), owners(now)):
		return false, &ChangedError{now}
	}
	if before.Kind == survey.Fair {
		now.Kind = survey.Fair // whoever comes to stand in its line is told, too
	}
	if done, err = take(ctx, rdb, now); done || err != nil || !allRead(now) {
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

// take takes a lock from those who hold it by what was read, or from all if not all were.
func take(ctx context.Context, rdb redis.UniversalClient, l survey.Lock) (done bool, err error) {
	driver := goredisdriver.New(rdb)
	client, err := holdfast.New(driver, holdfast.WithoutIdentity())
	if err != nil {
		return false, err
	}
	defer client.Close() //nolint:errcheck // it holds nothing
	lock := lockOf(client, l)
	var from []holdfast.Owner
	if allRead(l) {
		found, err := lock.Inspect(ctx)
		if err != nil {
			return false, err
		}
		for _, h := range found.Holders {
			if slices.ContainsFunc(l.Holders, func(one survey.Holder) bool { return one.Owner == h.Owner.String() }) {
				from = append(from, h.Owner)
			}
		}
		if len(from) == 0 {
			return false, nil
		}
	}
	done, err = lock.ForceUnlock(ctx, from...)
	if done && normalizedKind(l) == survey.Mutex {
		notifyOtherKind(ctx, rdb, driver, l)
	}
	return done, err
}

// lockOf is the lock of the library: of one that is read, the side of the readers.
func lockOf(client *holdfast.Client, l survey.Lock) holdfast.Inspector {
	switch {
	case l.Kind == survey.Fair:
		return client.NewFairMutex(l.Name)
	case l.Kind == survey.RW && l.Mode == survey.Reads:
		return client.NewRWMutex(l.Name).RLocker()
	case l.Kind == survey.RW:
		return client.NewRWMutex(l.Name)
	case l.Kind == survey.Permits:
		return client.NewPermitSemaphore(l.Name)
	default:
		return client.NewMutex(l.Name)
	}
}

// notifyTimeout is how long notifyOtherKind may take.
const notifyTimeout = time.Second

// notifyOtherKind wakes the waiters that the library has not: a mutex may have plain and fair ones at once, and
// ForceUnlock wakes those of the kind that it was forced as. Its errors are dropped, since the lock is free by then:
// without this message, a waiter of holdfast's asks again after some seconds, and one of Redisson's when the lease is
// over that it was told.
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
	if more := l.HolderCount - len(named); more > 0 && len(named) == 0 {
		text = fmt.Sprintf("%d owners, of whom none is named", more) // the first of a crowd hold it no more
	} else if more > 0 {
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
