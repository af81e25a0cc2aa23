// Package otel tells OpenTelemetry what happens to locks: metrics of every acquire, wait, hold,
// renewal and loss, and a span around each acquire that had to wait.
//
//	hooks, err := holdfastotel.New()
//	...
//	client, err := holdfast.New(driver, holdfast.WithHooks(hooks))
//
// Import it under another name, since OpenTelemetry's own package is called otel, too.
//
// docs/telemetry.md has the metrics and their attributes, a dashboard and alerts. The package
// starts no goroutine and keeps no state but its instruments; all of it happens on the goroutine
// that the hook runs on. It never asks a hold for its owner, so holds pass on inside the process
// as without it.
package otel
