package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// LogHooks returns hooks that write to a log what happens to locks; a nil logger logs nothing. The levels are Error for a
// hold that was lost; Warn if Redis did not answer or refused, in an acquire, a renewal, an Unlock or in the background,
// also if that has ended the context of a call, if an acquire waits for more permits than there are in all, and if
// [Permits] says another number than are set; Info for an acquire that had to wait for longWait or more, 0 being any wait; Debug for everything else. That an acquire begins to
// wait is logged at once, with what [Hooks].OnWait knows of who holds the lock.
//
// Records have the attributes lock and kind and, where they apply, error, waited, held, token, ahead, handed_over and
// owner: the last one of losses and failures only, since a hold whose owner somebody asks for is not handed over. They are
// logged under the hook's context, so a handler finds the call's span.
func LogHooks(logger *slog.Logger, longWait time.Duration) Hooks {
	if logger == nil {
		return Hooks{}
	}
	l := logHooks{logger, longWait}
	return Hooks{
		OnWait: func(ctx context.Context, e Event) {
			level := levelOf(e.Err)
			var missing *PermitsError
			if errors.As(e.Err, &missing) && missing.hopeless() {
				level = slog.LevelWarn
			}
			l.log(ctx, level, "waiting", e, slog.Int("ahead", e.Ahead))
		},
		OnRefuse:  func(ctx context.Context, e Event) { l.acquire(ctx, "not acquired", e) },
		OnAcquire: func(ctx context.Context, e Event) { l.acquire(ctx, "acquired", e) },
		OnPass:    func(ctx context.Context, e Event) { l.acquire(ctx, "acquired", e) },
		OnRenew:   func(ctx context.Context, e Event) { l.log(ctx, levelOf(e.Err), "renewal", e) },
		OnLost:    func(ctx context.Context, e Event) { l.failure(ctx, slog.LevelError, "lost", e) },
		OnEnd:     l.end,
		OnError:   func(ctx context.Context, e Event) { l.failure(ctx, slog.LevelWarn, "failed in the background", e) },
	}
}

// levelOf is how the outcome of a call is logged: failures of Redis as warnings.
func levelOf(err error) slog.Level {
	if err == nil {
		return slog.LevelDebug
	}
	var failed *BackendError
	if errors.As(err, &failed) || errors.Is(err, ErrNotReplicated) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

type logHooks struct {
	logger   *slog.Logger
	longWait time.Duration
}

// acquire logs what came of an acquire.
func (l logHooks) acquire(ctx context.Context, what string, e Event) {
	level := levelOf(e.Err)
	if e.HadToWait && e.Waited >= l.longWait {
		level, what = max(level, slog.LevelInfo), what+" after a long wait"
	}
	l.log(ctx, level, what, e)
}

// end logs the end of a hold, unless it was lost, as OnLost has said.
func (l logHooks) end(ctx context.Context, e Event) {
	switch {
	case e.Err == nil:
		l.log(ctx, slog.LevelDebug, "ended", e)
	case !errors.Is(e.Err, ErrLost):
		l.log(ctx, levelOf(e.Err), "ended, but not given back by Unlock", e)
	}
}

// failure logs what went wrong, and whose it was.
func (l logHooks) failure(ctx context.Context, level slog.Level, what string, e Event) {
	var attrs []slog.Attr
	if owner := e.Owner(); !owner.IsZero() {
		attrs = append(attrs, slog.Any("owner", owner))
	}
	l.log(ctx, level, what, e, attrs...)
}

func (l logHooks) log(ctx context.Context, level slog.Level, what string, e Event, attrs ...slog.Attr) {
	if !l.logger.Enabled(ctx, level) {
		return
	}
	attrs = append(attrs, slog.String("lock", e.Name), slog.String("kind", e.Kind))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	if e.Waited > 0 {
		attrs = append(attrs, slog.Duration("waited", e.Waited))
	}
	if e.Held > 0 {
		attrs = append(attrs, slog.Duration("held", e.Held))
	}
	if e.Token > 0 {
		attrs = append(attrs, slog.Int64("token", e.Token))
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	l.logger.LogAttrs(ctx, level, "holdfast: "+what, attrs...)
}
