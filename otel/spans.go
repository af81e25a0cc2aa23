package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// The attributes of spans alone.
const (
	tokenKey    = attribute.Key("holdfast.hold.token")
	holderKey   = attribute.Key("holdfast.lock.holder")
	whoKey      = attribute.Key("holdfast.lock.holder.who")
	waitTimeKey = attribute.Key("holdfast.acquire.wait_time")
)

// spans makes the spans.
type spans struct {
	tracer trace.Tracer
	every  bool
}

// acquired makes the span of an acquire that is over. It is made only then, with the time at which
// the acquire has begun: so nothing has to be kept from one hook to the next, and nothing can be
// left open.
func (s spans) acquired(ctx context.Context, e holdfast.Event) {
	if !e.HadToWait && !s.every {
		return
	}
	end := time.Now()
	_, span := s.tracer.Start(ctx, "acquire "+e.Kind, trace.WithTimestamp(end.Add(-e.Waited)), trace.WithAttributes(lockOf(e)...))
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	if e.HadToWait {
		span.SetAttributes(waitTimeKey.Float64(e.Waited.Seconds()))
	}
	if e.HandedOver {
		span.SetAttributes(handedOverKey.Bool(true))
	}
	if e.Err == nil {
		return
	}
	span.SetAttributes(errorTypeKey.String(errorType(e.Err)))
	span.SetAttributes(holderOf(e.Err)...)
	span.RecordError(e.Err, trace.WithTimestamp(end))
	span.SetStatus(codes.Error, e.Err.Error())
}

// lost notes a loss in the span under which the lock was acquired, if that has not ended.
func (spans) lost(ctx context.Context, e holdfast.Event) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.RecordError(e.Err, trace.WithAttributes(append(lockOf(e), errorTypeKey.String(lossType(e.Err)))...))
	}
}

// lockOf says which lock it is, and which hold of it.
func lockOf(e holdfast.Event) []attribute.KeyValue {
	attrs := []attribute.KeyValue{nameKey.String(e.Name), kindKey.String(e.Kind)}
	if e.Token > 0 {
		attrs = append(attrs, tokenKey.Int64(e.Token))
	}
	return attrs
}

// holderOf says who has the lock, as far as a refusal does.
func holderOf(err error) []attribute.KeyValue {
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.Holder.IsZero() {
		return nil
	}
	attrs := []attribute.KeyValue{holderKey.String(locked.Holder.String())}
	if !locked.Who.IsZero() {
		attrs = append(attrs, whoKey.String(locked.Who.String()))
	}
	return attrs
}
