package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// LogHooks returns hooks that log what happens to locks; a nil logger logs nothing. The levels are:
//   - Error: a hold was lost. Each loss is a separate record, even when an outage ends a thousand holds at once: each loss
//     interrupts different work, and only its record names the lock and the owner.
//   - Warn: an outage begins or ends, see below; Redis refuses a call, for a missing right or a full memory, for example;
//     too few replicas acknowledge; an acquire waits for more permits than there are in all; [Permits] differs from the
//     number that is set; or something else has failed in the background.
//   - Info: an acquire had to wait for longWait or more; 0 means any wait.
//   - Debug: everything else, and each failed call.
//
// While Redis is unreachable, every hold and every call fails again and again. So the first failure logs "Redis outage", and
// the first reply after it logs "Redis outage over", with the attributes lasted, failures (how many events reported one)
// and lost (how many holds were lost during it). Each client has its own outages.
//   - On a cluster, replies for the slots that failed end an outage, so locks on other nodes do not. If not all of these
//     slots are used again, it is over when Redis has replied for one of them and nothing has failed for the client's timeout, or
//     nothing has failed for two minutes.
//   - Failures within the client's timeout after the end still belong to the outage: their calls were sent during it.
//   - A client that gets no reply after an outage logs no end.
//   - A call that Redis refuses is no outage. For each error code, a client logs one warning a minute, with the attribute
//     more for how many others there were since the last one.
//
// That an acquire begins to wait is logged at once, with what [Hooks].OnWait knows about the holder. Records have the
// attributes lock and kind and, where they apply, error, waited, held, token, ahead, handed_over and owner. Only losses and
// failures have an owner, because a hold whose owner somebody asks for is not handed over. Records are logged under the
// hook's context, so a handler finds the call's span. One set of hooks can serve several clients.
func LogHooks(logger *slog.Logger, longWait time.Duration) Hooks {
	if logger == nil {
		return Hooks{}
	}
	l := &logHooks{logger: logger, longWait: longWait}
	l.outages.of, l.outages.refusals = map[string]*outage{}, map[refusalKind]*repeats{}
	return Hooks{
		OnWait: func(ctx context.Context, e Event) {
			level := slog.LevelDebug
			var missing *PermitsError
			if errors.As(e.Err, &missing) && missing.hopeless() {
				level = slog.LevelWarn
			}
			l.log(ctx, level, "waiting", e, slog.Int("ahead", e.Ahead))
		},
		OnRefuse:  func(ctx context.Context, e Event) { l.acquire(ctx, "not acquired", e) },
		OnAcquire: func(ctx context.Context, e Event) { l.acquire(ctx, "acquired", e) },
		OnPass:    func(ctx context.Context, e Event) { l.acquire(ctx, "acquired", e) },
		OnRenew:   func(ctx context.Context, e Event) { l.outcome(ctx, slog.LevelDebug, "renewal", e) },
		OnRelease: func(ctx context.Context, e Event) { l.replied(ctx, e) },
		OnLost:    l.lost,
		OnEnd:     l.end,
		OnError: func(ctx context.Context, e Event) {
			level := slog.LevelWarn
			if about, _ := judge(e.Err); about != silent {
				level = slog.LevelDebug // outcome raises it for the first refusal
			}
			l.outcome(ctx, level, "failed in the background", e, ownerOf(e)...)
		},
	}
}

type logHooks struct {
	logger   *slog.Logger
	longWait time.Duration
	outages  outages
}

// outcome logs how a call has ended, at the given level or above.
func (l *logHooks) outcome(ctx context.Context, level slog.Level, what string, e Event, attrs ...slog.Attr) {
	about, code := judge(e.Err)
	switch {
	case about == failing:
		if l.outages.fail(e) {
			l.log(ctx, slog.LevelWarn, "Redis outage", e)
		}
	case about == refused:
		l.replied(ctx, e)
		if more, yes := l.outages.warn(e, code); yes {
			level = slog.LevelWarn
			if more > 0 {
				attrs = append(attrs, slog.Int("more", more))
			}
		}
	case answered(e):
		l.replied(ctx, e)
	}
	l.log(ctx, level, what, e, attrs...)
}

// replied logs the end of an outage, if a reply of Redis ends one.
func (l *logHooks) replied(ctx context.Context, e Event) {
	if e.HandedOver {
		return
	}
	if attrs := l.outages.succeed(e); attrs != nil {
		l.logger.LogAttrs(ctx, slog.LevelWarn, "holdfast: Redis outage over", attrs...)
	}
}

// acquire logs the outcome of an acquire.
func (l *logHooks) acquire(ctx context.Context, what string, e Event) {
	level := slog.LevelDebug
	if e.HadToWait && e.Waited >= l.longWait {
		level, what = slog.LevelInfo, what+" after a long wait"
	}
	l.outcome(ctx, level, what, e)
}

// lost logs a loss.
func (l *logHooks) lost(ctx context.Context, e Event) {
	if answered(e) {
		l.replied(ctx, e)
	} else {
		l.outages.lose(e)
	}
	l.log(ctx, slog.LevelError, "lost", e, ownerOf(e)...)
}

// end logs the end of a hold, unless OnLost has logged it.
func (l *logHooks) end(ctx context.Context, e Event) {
	switch {
	case e.Err == nil:
		l.log(ctx, slog.LevelDebug, "ended", e) // OnRelease has seen the reply, if there was one
	case !errors.Is(e.Err, ErrLost):
		l.outcome(ctx, slog.LevelDebug, "ended, but not given back by Unlock", e)
	}
}

// ownerOf returns the owner of a loss or a failure as an attribute, if there is one.
func ownerOf(e Event) []slog.Attr {
	if owner := e.Owner(); !owner.IsZero() {
		return []slog.Attr{slog.Any("owner", owner)}
	}
	return nil
}

func (l *logHooks) log(ctx context.Context, level slog.Level, what string, e Event, attrs ...slog.Attr) {
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
