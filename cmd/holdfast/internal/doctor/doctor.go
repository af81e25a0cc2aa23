// Package doctor says what is wrong with a Redis that locks are to live in.
//
// [Run] first finds the nodes, and asks each of them what the checks need: [gather]. Then it
// goes through [Checks], one after the other. A check of a node only reads what was gathered;
// the others may send commands: they try rights, and lock and unlock.
//
// # What it leaves behind
//
// Nothing but a few scripts in the server's cache of scripts, as every client of holdfast does.
// Keys have names of their own and are deleted. If this process is killed they end by themselves,
// after [scratchTTL], or two minutes if a semaphore or a latch notes its calls in them.
//
// # Time, and goroutines
//
// The context of [Run] ends after [Config.Timeout] at the latest, and every command has the
// client's timeouts besides. Nodes are asked side by side; [Run] waits for all those goroutines.
// What was not asked in time is not known.
package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

const (
	// lease is the default of the library: what an outage, or a failover, is compared with.
	lease = 30 * time.Second
	// outage is what such a lease bears, rounded down: see docs/tuning.md.
	outage = 18 * time.Second
	// scratchTTL is how long a key stays if this process is killed.
	scratchTTL = 10 * time.Second
	// callTimeout bounds one call of the library, and closeLimit its end.
	callTimeout = 4 * time.Second
	closeLimit  = 2 * time.Second
)

// Config says what to look at.
type Config struct {
	Target *connect.Target
	// Prefix is what the names of the locks that are tried begin with.
	Prefix string
	// Kinds are those that have to work. If there are none, all are tried, and one has to.
	Kinds []string
	// Detailed has the rights said that kinds lack which do not have to work.
	Detailed bool
	// Timeout bounds all of it.
	Timeout time.Duration
	// Now is this machine's clock.
	Now func() time.Time
}

// Report is what came of all checks.
type Report struct {
	// Worst is the worst of all findings.
	Worst Severity
	// Unreachable is true if no server could be asked anything.
	Unreachable bool
}

// exam is one call of [Run].
type exam struct {
	Config

	redis redis.UniversalClient
	locks *holdfast.Client
	nodes []*node // all that hold data
	// watchers are the sentinels, and enumerated is why not all nodes are known.
	watchers   []*sentinel
	enumerated error
}

// Run goes through all checks, and hands over what each has found, merged over the nodes. It
// fails only if it could not begin. If the
// context ends, it leaves out what it has not done.
func Run(ctx context.Context, cfg Config, tell func(findings []Finding)) (Report, error) {
	interrupted := ctx.Err
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	e := &exam{Config: cfg, redis: cfg.Target.Client(cfg.Target.Dial)}
	defer e.redis.Close() //nolint:errcheck // nothing depends on it any more
	var err error
	e.locks, err = holdfast.New(goredisdriver.New(e.redis), append(cfg.Target.ClientOptions(), holdfast.WithTimeout(callTimeout), holdfast.WithoutIdentity())...)
	if err != nil {
		return Report{}, err
	}
	defer connect.CloseWithin(closeLimit, e.locks)
	defer e.close()
	e.find(ctx)
	e.gather(ctx)
	report := Report{Worst: Pass, Unreachable: len(e.reached()) == 0}
	for _, check := range Checks {
		if interrupted() != nil {
			break
		}
		if report.Unreachable && !check.first {
			continue
		}
		findings := check.run(ctx, e)
		for _, f := range findings {
			if f.Severity.worse(report.Worst) {
				report.Worst = f.Severity
			}
		}
		if len(findings) > 0 {
			tell(findings)
		}
	}
	return report, nil
}

// reached are the nodes that answer.
func (e *exam) reached() (nodes []*node) {
	for _, n := range e.nodes {
		if n.err == nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// primaries are those of them that take writes. A single server counts as one, whatever it is.
func (e *exam) primaries() (nodes []*node) {
	for _, n := range e.reached() {
		if !n.replica {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (e *exam) close() {
	for _, n := range e.nodes {
		_ = n.client.Close() // nothing depends on it any more
	}
	for _, s := range e.watchers {
		_ = s.client.Close() // neither on this
	}
}
