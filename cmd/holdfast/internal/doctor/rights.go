package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/driver"
)

// wanted are the kinds that are looked at, and whether each of them has to work.
func (e *exam) wanted() (these []kind, each bool) {
	if len(e.Kinds) == 0 {
		return kinds, false
	}
	for _, k := range kinds {
		if slices.Contains(e.Kinds, k.id()) {
			these = append(these, k)
		}
	}
	return these, true
}

// scratch is a name that nobody uses. On a cluster it is in a slot of the node; there is none if
// the prefix decides on the slot.
func (e *exam) scratch(ctx context.Context, n *node) (name string, ok bool) {
	cluster, clustered := e.redis.(*redis.ClusterClient)
	for range 1000 {
		name = e.Prefix + ":" + strings.ToLower(rand.Text()[:12])
		if !clustered {
			return name, true
		}
		if owner, err := cluster.MasterForKey(ctx, name); err == nil && owner.Options().Addr == n.addr {
			return name, true
		}
	}
	return "", false
}

func rights(ctx context.Context, e *exam) []Finding {
	return onEach(e.primaries(), func(n *node) []Finding { return e.rightsOn(ctx, n) })
}

// rightsOn tries the rights on one node.
func (e *exam) rightsOn(ctx context.Context, n *node) (found []Finding) {
	name, ok := e.scratch(ctx, n)
	if !ok {
		return nil // with the same prefix on another node
	}
	these, each := e.wanted()
	cluster := e.Target.IsCluster()
	p := &probe{ctx: ctx, client: n.client, name: name, missing: map[string]bool{}, absent: map[string]bool{}}
	if cluster {
		// PUBSUB SHARDNUMSUB, by which clients ask, may be refused; this is known where that is.
		p.sharded = !unknownCommand(n.client.Do(ctx, "SPUBLISH", fill(mutexChannel, name), 0).Err())
	}
	var commands, keys, channels []string
	for _, k := range append(slices.Clone(these), p.line()) {
		commands = append(commands, p.commandsOf(k, cluster)...)
		keys, channels = append(keys, words(k.keys)...), append(channels, words(k.channels)...)
	}
	p.try(unique(commands), unique(keys), unique(channels))
	if p.err != nil {
		return []Finding{fail("Try again; the network may be bad.", "the rights could not be tried: %v", connect.Explain(p.err))}
	}
	return e.judge(n, p, these, each)
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// judge says which kinds work by their rights. Those that lack the same are one finding.
func (e *exam) judge(n *node, p *probe, these []kind, each bool) (found []Finding) {
	if p.missing[nameKey] && !each {
		return []Finding{fail("If the user may use certain names only, give their beginning with --prefix; else give it the right with ACL SETUSER.",
			"this user may not use keys such as %s:…, so no kind can be tried", e.Prefix)}
	}
	var works, waits []string
	var groups []*group
	for _, k := range these {
		rules, absent, soft := p.lacksOf(k, e.Target.IsCluster(), e.Prefix)
		if soft {
			n.allowed = append(n.allowed, k)
			if k.inLine() {
				waits = append(waits, k.id())
			}
		}
		if len(rules)+len(absent) == 0 {
			works = append(works, k.id())
			continue
		}
		lacks := sentence(rules, absent)
		at := slices.IndexFunc(groups, func(g *group) bool { return g.lacks == lacks })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{lacks: lacks, soft: soft})
		}
		groups[at].kinds = append(groups[at].kinds, k.id())
	}
	if len(works) > 0 {
		found = append(found, pass("all that is needed for %s", list(works)))
	}
	if rules, absent, _ := p.lacksOf(p.line(), e.Target.IsCluster(), e.Prefix); len(waits) > 0 && len(rules)+len(absent) > 0 {
		found = append(found, warn(rightsDo, "%s: it works, but those who wait do not stand in line: %s", list(waits), sentence(rules, absent)))
	}
	return append(found, findings(groups, each || len(n.allowed) == 0, e.Detailed || each)...)
}

// list is all kinds, or their names.
func list(names []string) string {
	if len(names) == len(kinds) {
		return "all kinds"
	}
	return strings.Join(names, ", ")
}

// group are kinds that lack the same.
type group struct {
	kinds []string
	lacks string
	soft  bool // they work without it, but slower
}

const rightsDo = "Give the rights with ACL SETUSER; docs/acl.md has what each kind needs."

// findings are those of all groups. needed is true if the kinds have to work; not detailed, those that
// do not are one finding.
func findings(groups []*group, needed, detailed bool) (found []Finding) {
	var idle []string
	for _, g := range groups {
		switch names := list(g.kinds); {
		case g.soft:
			found = append(found, warn(rightsDo, "%s: it works, but those who wait may hear late: %s", names, g.lacks))
		case needed:
			found = append(found, fail(rightsDo, "%s: it does not work: %s", names, g.lacks))
		case detailed:
			found = append(found, warn(rightsDo, "%s: it does not work: %s", names, g.lacks))
		default:
			idle = append(idle, g.kinds...)
		}
	}
	if len(idle) > 0 {
		found = append(found, warn("If you need one of them, --kind "+idle[0]+" says which rights are missing, and --verbose says it of all.",
			"these kinds do not work for this user: %s", strings.Join(idle, ", ")))
	}
	return found
}

// sentence says what is missing.
func sentence(rules, absent []string) string {
	var lacks []string
	if len(rules) > 0 {
		lacks = append(lacks, "this user lacks "+strings.Join(rules, " "))
	}
	if len(absent) > 0 {
		lacks = append(lacks, "the server does not know "+strings.Join(absent, " "))
	}
	return strings.Join(lacks, ", and ")
}

// locks has each kind that the user has the rights for locked, and unlocked.
func locks(ctx context.Context, e *exam) []Finding {
	return onEach(e.primaries(), func(n *node) []Finding { return e.locksOn(ctx, n) })
}

func (e *exam) locksOn(ctx context.Context, n *node) (found []Finding) {
	var works, whys []string
	failed := map[string][]string{} // kinds, by why
	for _, k := range n.allowed {
		name, ok := e.scratch(ctx, n)
		if !ok {
			return nil
		}
		err := e.tryKind(ctx, k, name)
		if err == nil {
			works, n.works = append(works, k.id()), append(n.works, k)
			continue
		}
		why := explained(err).Error()
		if failed[why] == nil {
			whys = append(whys, why)
		}
		failed[why] = append(failed[why], k.id())
		if temporary(err) {
			break // the others would fail alike, and take their time
		}
	}
	for _, why := range whys {
		found = append(found, fail("See what the server says.", "%s: lock and unlock failed: %s", list(failed[why]), why))
	}
	if len(works) > 0 {
		found = append(found, pass("locked and unlocked: %s", list(works)))
	}
	return found
}

// temporary reports whether it is no fault of the kind.
func temporary(err error) bool {
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Transient || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// explained is the error without what the library says to programmers.
func explained(err error) error {
	var backend *holdfast.BackendError
	if errors.As(err, &backend) {
		return connect.Explain(backend.Err)
	}
	return connect.Explain(err)
}

// tryKind locks and unlocks, and removes what is left of it.
func (e *exam) tryKind(ctx context.Context, k kind, name string) error {
	err := k.try(ctx, trial{client: e.locks, redis: e.redis, name: name})
	if left := e.remove(ctx, k, name); err == nil {
		return left
	}
	return err
}

// remove deletes the keys of a lock that was tried, also if the time is over.
func (e *exam) remove(ctx context.Context, k kind, name string) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	var keys []string
	for _, key := range words(k.keys) {
		if !strings.HasSuffix(key, "*") { // those are gone with their holds
			keys = append(keys, fill(key, name))
		}
	}
	if err := e.redis.Eval(clean, removeScript, keys).Err(); err != nil {
		return fmt.Errorf("its keys could not be deleted, and end in %v: %w", scratchTTL, err)
	}
	return nil
}
