package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// operate is what the commands that look at locks have in common: a Redis, a context that ends with SIGINT
// or SIGTERM, and what to say of errors.
func operate(flags redisFlags, do func(ctx context.Context, rdb redis.UniversalClient, target *connect.Target) error) error {
	target, err := flags.target()
	if err != nil {
		return err
	}
	ctx, ended, stop := untilSignal()
	defer stop()
	rdb := target.Client(connect.Bounded(target.Dial))
	defer rdb.Close() //nolint:errcheck // the program ends with it
	if err = do(ctx, rdb, target); err == nil {
		return nil
	}
	if signalled := ended(); signalled != nil {
		return signalled
	}
	return explain(err, target)
}

// explain gives an error of looking at Redis its exit code.
func explain(err error, target *connect.Target) error {
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, holdfast.ErrInvalid):
		return exit.Because(exit.Usage, "%s", unprefixed(err))
	}
	return exit.Because(exit.Unavailable, "Redis (%s) cannot be used: %s", target, reason(err))
}

// reason says why Redis cannot be used, and what to do about it.
func reason(err error) string {
	var lacking *survey.RightError
	var backend *holdfast.BackendError
	switch {
	case errors.As(err, &lacking):
		return lacking.Error() + "; holdfast acl --look prints the rights to look at locks; " +
			"if the user may look at certain names only, give a name or a pattern of these"
	case errors.As(err, &backend):
		err = backend.Err
	}
	return connect.Explain(err).Error()
}

// unprefixed takes the library's prefix off an error: the tool has the same.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "holdfast: ") }

// unreadable gives an error about one name its exit code, if it has one of its own.
func unreadable(name string, err error) error {
	switch {
	case errors.Is(err, survey.ErrNotFound):
		return exit.Because(exit.NoLock, "there is no lock %q; a lock that nobody holds leaves nothing in Redis", name)
	case errors.Is(err, survey.ErrOtherKind), errors.Is(err, holdfast.ErrOtherKind):
		return exit.Because(exit.OtherKind, "%q is no lock: it is another kind of object in Redis; if it should be one, "+
			"look at it with redis-cli, and delete it there", name)
	}
	return err
}
