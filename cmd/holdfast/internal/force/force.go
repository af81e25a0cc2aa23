// Package force takes locks away from those who hold them, and says from whom. The library does it, so
// waiters and holders are told.
package force

import (
	"context"
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
	}
	return false
}

// Unlock takes a lock from whoever holds it, and reports whether anybody did. The errors are those of
// [holdfast.Mutex.ForceUnlock].
func Unlock(ctx context.Context, rdb redis.UniversalClient, l survey.Lock) (done bool, err error) {
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

// Owners are those who hold it, sorted, each with its mode.
func Owners(l survey.Lock) (all []string) {
	for _, h := range l.Holders {
		all = append(all, h.Owner+" "+h.Mode)
	}
	slices.Sort(all)
	return all
}

// Victims says in a sentence whom it hits.
func Victims(l survey.Lock) string {
	var named []string
	for _, h := range l.Holders[:min(mostNamed, len(l.Holders))] {
		name := present.Who(h.Who, h.Owner)
		if h.Who.Known() {
			name += ", " + present.Safe(h.Owner)
		}
		named = append(named, name+" ("+present.HoldOf(h, l)+")")
	}
	text := strings.Join(named, "; ")
	if more := l.HolderCount - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	what := "the " + map[survey.Kind]string{survey.Mutex: "mutex", survey.Fair: "fair mutex", survey.RW: "read-write lock", survey.Permits: "permits of the semaphore"}[l.Kind]
	verb := "is held"
	if l.Kind == survey.Permits {
		what, verb = fmt.Sprintf("%d %s", l.Taken, strings.TrimPrefix(what, "the ")), "are held"
	}
	text = fmt.Sprintf("%s %q %s by %s", what, l.Name, verb, text)
	if l.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", l.Waiting)
	}
	return text
}
