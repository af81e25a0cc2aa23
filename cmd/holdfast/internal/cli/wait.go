package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

type waitCommand struct {
	Name  string         `arg:"" type:"name" help:"Name of the lock, the semaphore or the latch: the Redis key."`
	Kind  *string        `placeholder:"KIND" enum:"latch,permits" help:"What the name is: latch, or permits, a semaphore whose permits have leases. Needed where Redis does not show what an integer is: a latch that nobody else waits for, or permits of which none is held."`
	Wait  *time.Duration `placeholder:"TIME" help:"Longest wait, such as 500ms, 10s or 1h30m; 0 is one look. The default is to wait for ever."`
	Quiet bool           `short:"q" help:"Say nothing on standard error but what has failed."`
	JSON  bool           `name:"json" help:"Print one JSON object in the end: name, free, and waited_ms."`
}

const waitHelp = `It waits until nobody holds a lock, or any permit of a semaphore, or until a latch is at zero; and
takes nothing, so somebody may hold it again by the time that it ends:
  holdfast wait migration && ./start.sh
  holdfast wait --kind latch --wait 5m workers-ready

It exits with 75 if that takes longer than --wait says.`

// Run is called by kong.
func (c *waitCommand) Run(s streams, flags redisFlags) error {
	if c.Wait != nil && *c.Wait < 0 {
		return exit.Because(exit.Usage, "a wait of %v is negative", *c.Wait)
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, _ *connect.Target) error {
		began := time.Now()
		err := c.wait(ctx, s, rdb)
		var refused *exit.Error
		if c.JSON && (err == nil || errors.As(err, &refused) && refused.Code == exit.NotAcquired) {
			object := map[string]any{"name": c.Name, "free": err == nil, "waited_ms": time.Since(began).Milliseconds()}
			err = errors.Join(present.JSON(s.stdout, object), err)
		}
		return err
	})
}

func (c *waitCommand) kind() survey.Kind {
	if c.Kind == nil {
		return ""
	}
	return survey.Kind(*c.Kind)
}

// wait waits, and says for whom if it takes long.
func (c *waitCommand) wait(ctx context.Context, s streams, rdb redis.UniversalClient) error {
	began, said := time.Now(), c.Quiet
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if c.Wait != nil && *c.Wait > 0 {
		waiting, cancel = context.WithTimeout(ctx, *c.Wait)
	}
	defer cancel()
	var last survey.Lock
	err := await.Free(waiting, await.Config{
		Redis: rdb, Driver: goredisdriver.New(rdb), Name: c.Name, Kind: c.kind(), Once: c.Wait != nil && *c.Wait == 0,
		Seen: func(l survey.Lock, free bool) {
			if last = l; !free && !said && time.Since(began) > impatience {
				said = true
				s.sayf("waiting: %s", heldBy(l))
			}
		},
	})
	switch {
	case err == nil:
		if last.Kind == "" && !c.Quiet { // it may be another name than was meant
			s.sayf("nobody holds %q: there is nothing of that name in Redis", c.Name)
		}
		return nil
	case errors.Is(err, await.ErrUnclear):
		return exit.Because(exit.OtherKind, "Redis does not show whether anybody holds %q: it is an integer, so a semaphore without leases, "+
			"a latch, or no lock at all; if it is a latch give --kind latch, and --kind permits if its permits have leases", c.Name)
	case errors.Is(err, await.ErrHeld), ctx.Err() == nil && waiting.Err() != nil && last.Kind != "":
		return exit.Because(exit.NotAcquired, "%s: %s", c.tooLong(), heldBy(last))
	}
	return unreadable(c.Name, err)
}

// tooLong says that the time was over.
func (c *waitCommand) tooLong() string {
	if *c.Wait == 0 {
		return "not free"
	}
	return fmt.Sprintf("not free within %v", *c.Wait)
}

// heldBy says who has what is waited for.
func heldBy(l survey.Lock) string {
	if l.Kind == survey.Latch {
		return fmt.Sprintf("the latch %q has %d to go", l.Name, l.Count)
	}
	return force.Victims(l)
}
