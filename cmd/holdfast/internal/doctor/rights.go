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
	"github.com/holdfast-go/holdfast/internal/rights"
)

// wanted are the kinds that are looked at, and whether each of them has to work.
func (e *exam) wanted() (these []rights.Kind, each bool) {
	if len(e.Kinds) == 0 {
		return rights.Kinds(), false
	}
	for _, k := range rights.Kinds() {
		if slices.Contains(e.Kinds, k.ID()) {
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

// tryRights tries the rights on one node.
func tryRights(ctx context.Context, e *exam, n *node) findings {
	name, ok := e.scratch(ctx, n)
	if !ok {
		return nil // with the same prefix on another node
	}
	these, each := e.wanted()
	p := &probe{
		ctx: ctx, client: n.client, name: name, tenant: e.Target.Tenant(), server: rights.Server{Cluster: e.Target.IsCluster()},
		missing: map[string]bool{}, absent: map[string]bool{},
	}
	if p.server.Cluster {
		// PUBSUB SHARDNUMSUB, by which clients ask, may be refused; this is known where that is.
		p.sharded = !unknownCommand(n.client.Do(ctx, "SPUBLISH", p.fill(anyChannel), 0).Err())
		if !p.sharded {
			p.server.Version = rights.Redis62
		}
	}
	p.try(these)
	if p.err != nil {
		return fail("Try again; the network may be bad.", "the rights could not be tried: %v", connect.Explain(p.err))
	}
	delete(p.missing, "EVAL") // the check of the scripts says whether they can be run
	delete(p.absent, "EVAL")
	found := e.judge(n, p, these, each)
	if !n.tryLua(ctx).runs() {
		n.allowed = nil // each of them would fail for want of its scripts
	}
	return found
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// theKinds stands in a finding in the place of the kinds that it is about.
const theKinds = "THE KINDS"

// ofKinds makes one finding of those that say the same of several kinds, which are told apart by [findings.at].
func ofKinds(said findings) (found findings) {
	for _, f := range merge(said, 0) {
		names := strings.Join(f.Where, ", ")
		if len(f.Where) == len(rights.Kinds()) {
			names = "all kinds"
		}
		f.Found, f.Where = strings.Replace(f.Found, theKinds, names, 1), nil
		found = append(found, f)
	}
	return found
}

const (
	rightsDo = "Give " + theRights
	// tenantDo is for a user without the channels of grants. They may be those of a tenant that doctor was not told, or told
	// wrong: more rights would undo that limit.
	tenantDo = "If the user is limited to a tenant, name that with --tenant, and give no more rights; if it is not, give " + theRights

	theRights = "the rights with ACL SETUSER; holdfast acl prints the line, and docs/acl.md has what each kind needs."
)

// judge says which kinds work by their rights. Those that lack the same are one finding.
func (e *exam) judge(n *node, p *probe, these []rights.Kind, each bool) findings {
	if p.missing[nameKey] && !each {
		return fail("If the user may use certain names only, give their beginning: --prefix orders for names such as orders:1; "+
			"else give it the right with ACL SETUSER.",
			"this user may not use keys such as %s:…, so no kind can be tried", e.Prefix)
	}
	for _, k := range these {
		if _, soft := p.lacksOf(p.needs(k), e.Prefix); soft {
			n.allowed = append(n.allowed, k)
		}
	}
	var said, waits findings
	var idle []string
	ofLine, _ := p.lacksOf(p.line(), e.Prefix)
	lineDo := rightsDo
	if strings.Contains(ofLine, "&") { // a channel
		lineDo = tenantDo
	}
	for _, k := range these {
		lacks, soft := p.lacksOf(p.needs(k), e.Prefix)
		f := e.judgeKind(lacks, soft, each || len(n.allowed) == 0)
		if len(f) == 0 {
			idle = append(idle, k.ID())
		}
		said = append(said, f.at(k.ID())...)
		if soft && k.Listed() && ofLine != "" {
			f = warn(lineDo, theKinds+": it works, but those who wait do not stand in line: %s", ofLine)
			waits = append(waits, f.at(k.ID())...)
		}
	}
	found := ofKinds(append(said, waits...))
	if len(idle) > 0 {
		found = append(found, warn("If you need one of them, --kind "+idle[0]+" says which rights are missing, "+
			"and --verbose says it of all.",
			"these kinds do not work for this user: %s", strings.Join(idle, ", "))...)
	}
	return found
}

// judgeKind says whether a kind works that lacks something; needed is true if it has to. Nothing is said of one that does not
// have to, unless all is to be said.
func (e *exam) judgeKind(lacks string, soft, needed bool) findings {
	switch {
	case lacks == "":
		return pass("all that is needed for " + theKinds)
	case soft:
		return warn(rightsDo, theKinds+": it works, but those who wait may hear late: %s", lacks)
	case needed:
		return fail(rightsDo, theKinds+": it does not work: %s", lacks)
	case e.Detailed:
		return warn(rightsDo, theKinds+": it does not work: %s", lacks)
	}
	return nil
}

// locks has each kind that the user has the rights for locked, and unlocked.
func locks(ctx context.Context, e *exam, n *node) findings {
	var works, failed findings
	for _, k := range n.allowed {
		name, ok := e.scratch(ctx, n)
		if !ok {
			return nil
		}
		err := e.tryKind(ctx, k, name)
		if err == nil {
			n.works = append(n.works, k)
			works = append(works, pass("locked and unlocked: "+theKinds).at(k.ID())...)
			continue
		}
		f := fail("See what the server says.", theKinds+": lock and unlock failed: %v", explained(err))
		failed = append(failed, f.at(k.ID())...)
		if temporary(err) {
			break // the others would fail alike, and take their time
		}
	}
	return ofKinds(append(failed, works...))
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
func (e *exam) tryKind(ctx context.Context, k rights.Kind, name string) error {
	err := trial{client: e.locks, redis: e.redis, name: name}.try(ctx, k)
	if left := e.remove(ctx, k, name); err == nil {
		return left
	}
	return err
}

// remove deletes the keys of a lock that was tried, also if the time is over.
func (e *exam) remove(ctx context.Context, k rights.Kind, name string) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	var keys []string
	for _, key := range k.Keys {
		if !strings.HasSuffix(key, "*") { // those are gone with their holds
			keys = append(keys, rights.Fill(key, name, ""))
		}
	}
	err := e.redis.Eval(clean, removeScript, keys).Err()
	if cannot(err) {
		err = e.redis.Del(clean, keys...).Err()
	}
	if err != nil {
		return fmt.Errorf("its keys could not be deleted, and end in %v: %w", scratchTTL, err)
	}
	return nil
}
