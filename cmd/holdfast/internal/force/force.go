// Package force takes locks away from those who hold them, and says from whom. The library does it, so
// waiters and holders are told.
package force

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/goredisdriver"
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

// Unlock takes a lock from those who held it when it was read, and reports whether anybody did. The errors are
// a [*ChangedError], and those of [survey.Read] and [holdfast.Mutex.ForceUnlock]. Whoever gets it
// between the look and the call is hit as well.
func Unlock(ctx context.Context, rdb redis.UniversalClient, before survey.Lock) (done bool, err error) {
	now, err := survey.Read(ctx, rdb, before.Name)
	switch {
	case errors.Is(err, survey.ErrNotFound), err == nil && now.State != survey.Held:
		return false, nil
	case err != nil:
		return false, err
	case now.Kind != before.Kind || !slices.Equal(owners(before), owners(now)):
		return false, &ChangedError{now}
	}
	return unlock(ctx, rdb, now)
}

func unlock(ctx context.Context, rdb redis.UniversalClient, l survey.Lock) (done bool, err error) {
	client, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		return false, err
	}
	defer client.Close() //nolint:errcheck // it holds nothing
	switch l.Kind {
	case survey.Fair:
		return client.NewFairMutex(l.Name).ForceUnlock(ctx)
	case survey.RW:
		return client.NewRWMutex(l.Name).ForceUnlock(ctx)
	case survey.Permits:
		return client.NewPermitSemaphore(l.Name).ForceUnlock(ctx)
	default:
		return client.NewMutex(l.Name).ForceUnlock(ctx)
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
