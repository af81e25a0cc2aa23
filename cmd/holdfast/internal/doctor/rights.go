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

// lack is what a user lacks, by an error.
type lack int

const (
	nothing lack = iota // the error is about something else
	aCommand
	aKey
	aChannel
)

// lacking interprets an error. Redis has had several wordings.
func lacking(err error) lack {
	if err == nil {
		return nothing
	}
	switch text := err.Error(); {
	case strings.Contains(text, "ACL failure in script"), strings.Contains(text, "The user executing the script can't"):
		return aCommand // those of our scripts have been told their key
	case !strings.Contains(text, "NOPERM"):
		return nothing
	case strings.Contains(text, "to run the"):
		return aCommand
	case strings.Contains(text, "channel"):
		return aChannel
	default:
		return aKey
	}
}

// anySHA is a script that no server has.
var anySHA = strings.Repeat("0", 40)

// What some of them take.
const (
	keyField = "K f"
	keyRange = "K 0 0"
)

// harmless are the commands as they change nothing: a server looks at the rights first. K is a
// key that does not exist, C a channel that nobody listens on.
var harmless = map[string]string{
	"DEL": "K", "EVALSHA": anySHA + " 0", "EXISTS": "K", "GET": "K", "HDEL": keyField, "HEXISTS": keyField, "HGET": keyField, "HGETALL": "K",
	"HKEYS": "K", "HLEN": "K", "HSET": "K f v odd", "LINDEX": "K 0", "LLEN": "K", "LPOS": "K v", "LRANGE": keyRange, "LREM": "K 0 v",
	"LTRIM": keyRange, "PERSIST": "K", "PEXPIRE": "K 1", "PTTL": "K", "SET": "K v XX", "TIME": "", "TYPE": "K",
	"UNLINK": "K", "ZADD": "K XX 1 m", "ZCARD": "K", "ZCOUNT": keyRange, "ZRANGE": keyRange, "ZRANGEBYSCORE": keyRange, "ZREM": "K m",
	"ZREMRANGEBYSCORE": keyRange, "ZSCORE": "K m", "INCRBY": "K none", "DECRBY": "K none", "PUBLISH": "C 0", "SPUBLISH": "C 0", "PING": "",
	"CLUSTER|SLOTS": "", "PUBSUB|SHARDNUMSUB": "C",
}

// undone are the commands that change something whatever one says, and a script that undoes it at once.
var undone = map[string]string{
	"RPUSH": "local done = redis.call('RPUSH', KEYS[1], 'v') redis.call('DEL', KEYS[1]) return done",
	"DECR":  "local done = redis.call('DECR', KEYS[1]) redis.call('DEL', KEYS[1]) return done",
}

// keyScript does nothing with its key, and nameKey is the right to use the lock's name as a key.
const (
	keyScript = "return 0"
	nameKey   = "~NAME"
)

// removeScript deletes its keys. Redis 6.0 lets scripts write also if too few replicas are there.
const removeScript = "return redis.call('DEL', unpack(KEYS))"

// forSharded are the commands that clusters with sharded messages know in place of others.
var forSharded = strings.NewReplacer("UNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE", "PUBLISH", "SPUBLISH")

// probe tries the rights on one node.
type probe struct {
	ctx     context.Context
	client  *redis.Client
	name    string
	sharded bool
	missing map[string]bool // commands, and templates of keys and channels
	absent  map[string]bool // commands that the server does not know
	err     error           // why it could not go on
}

// words are the words of a list.
func words(list string) []string { return strings.Fields(list) }

// commandsOf are the commands of a kind on this server, the client's own included.
func (p *probe) commandsOf(k kind, cluster bool) []string {
	list := k.commands
	if strings.Contains(list, "UNSUBSCRIBE") {
		list += " PING" // go-redis replaces connections that listen without it
	}
	if p.sharded {
		list = forSharded.Replace(list)
	}
	if cluster {
		list += " CLUSTER|SLOTS PUBSUB|SHARDNUMSUB"
	}
	return words(list)
}

// note takes an error of a command down.
func (p *probe) note(command string, err error) {
	var answered redis.Error
	switch {
	case err == nil:
	case lacking(err) == aCommand:
		p.missing[command] = true
	case unknownCommand(err):
		if command != "PUBSUB|SHARDNUMSUB" { // an answer, too
			p.absent[command] = true
		}
	case !errors.As(err, &answered):
		p.err = err
	}
}

// unknownCommand reports whether a server does not know a command.
func unknownCommand(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand")
}

// try sends all commands.
func (p *probe) try(commands, keys, channels []string) {
	pipe := p.client.Pipeline()
	sent := map[string]*redis.Cmd{}
	for _, command := range commands {
		args, known := harmless[command]
		if !known {
			continue
		}
		line := []any{}
		for part := range strings.SplitSeq(command, "|") {
			line = append(line, part)
		}
		for _, arg := range words(args) {
			switch arg {
			case "K":
				arg = p.name
			case "C":
				arg = p.fill(mutexChannel)
			}
			line = append(line, arg)
		}
		sent[command] = pipe.Do(p.ctx, line...)
	}
	sent["EVAL"] = pipe.Do(p.ctx, "EVAL", keyScript, 0)
	_, _ = pipe.Exec(p.ctx) // each reply has its error
	for command, reply := range sent {
		p.note(command, reply.Err())
	}
	p.tryUndone(commands)
	p.tryKeys(keys)
	p.tryChannels(channels)
	p.trySubscribe()
}

// tryUndone tries what a script has to undo.
func (p *probe) tryUndone(commands []string) {
	if p.lacks("EVAL") || p.lacks("DEL") || p.err != nil {
		return // without DEL it could not be undone; no kind works without them
	}
	for command, script := range undone {
		if slices.Contains(commands, command) {
			p.note(command, p.client.Eval(p.ctx, script, []string{p.name}).Err())
		}
	}
}

func (p *probe) lacks(command string) bool { return p.missing[command] || p.absent[command] }

// tryKeys tells each key to a script, or to another command that writes.
func (p *probe) tryKeys(keys []string) {
	for _, key := range keys {
		name := strings.TrimSuffix(p.fill(key), "*")
		var err error
		switch {
		case !p.lacks("EVAL"):
			err = p.client.Eval(p.ctx, keyScript, []string{name}).Err()
		case !p.lacks("DEL"):
			err = p.client.Del(p.ctx, name).Err()
		default:
			continue
		}
		if lacking(err) == aKey {
			p.missing["~"+key] = true
		}
	}
}

// tryChannels publishes on each channel.
func (p *probe) tryChannels(channels []string) {
	publish := "PUBLISH"
	if p.sharded {
		publish = "SPUBLISH"
	}
	if p.lacks(publish) {
		return
	}
	for _, channel := range channels {
		name := strings.TrimSuffix(p.fill(channel), "*")
		if err := p.client.Do(p.ctx, publish, name, 0).Err(); lacking(err) == aChannel {
			p.missing["&"+channel] = true
		}
	}
}

// trySubscribe listens, and stops listening.
func (p *probe) trySubscribe() {
	channel := p.fill(mutexChannel)
	subscribe, unsubscribe := "SUBSCRIBE", "UNSUBSCRIBE"
	sub := p.client.Subscribe(p.ctx)
	defer sub.Close() //nolint:errcheck // nothing depends on it any more
	on, off := sub.Subscribe, sub.Unsubscribe
	if p.sharded {
		subscribe, unsubscribe = "SSUBSCRIBE", "SUNSUBSCRIBE"
		on, off = sub.SSubscribe, sub.SUnsubscribe
	}
	answer := func(ask func(context.Context, ...string) error) error {
		if err := ask(p.ctx, channel); err != nil {
			return err
		}
		_, err := sub.ReceiveTimeout(p.ctx, callTimeout)
		return err
	}
	p.note(subscribe, answer(on))
	p.note(unsubscribe, answer(off))
}

// fill puts the name into a template of docs/acl.md.
func (p *probe) fill(template string) string { return fill(template, p.name) }

// fill puts a name into a template. Where the name has braces, those of the template go.
func fill(template, name string) string {
	if strings.Contains(name, "{") {
		template = strings.ReplaceAll(template, "{NAME}", "NAME")
	}
	return strings.ReplaceAll(template, "NAME", name)
}

// lacksOf are the rules of ACL SETUSER that a user lacks for a kind, and the commands that the server
// does not know. soft is true if all works without them, but slower.
func (p *probe) lacksOf(k kind, cluster bool, prefix string) (rules, absent []string, soft bool) {
	soft = true
	for _, command := range p.commandsOf(k, cluster) {
		switch {
		case p.missing[command]:
			rules = append(rules, "+"+strings.ToLower(command))
		case p.absent[command]:
			absent = append(absent, command)
		default:
			continue
		}
		soft = soft && (command == "PING" || strings.HasSuffix(command, "SUBSCRIBE"))
	}
	for _, rule := range append(signed("~", k.keys), signed("&", k.channels)...) {
		if p.missing[rule] {
			rules, soft = append(rules, strings.ReplaceAll(fill(rule, prefix+"*"), "**", "*")), false
		}
	}
	return rules, absent, soft
}

// signed puts a sign before each word.
func signed(sign, list string) (all []string) {
	for _, word := range words(list) {
		all = append(all, sign+word)
	}
	return all
}

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
	for _, k := range these {
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
	var works []string
	var groups []*group
	for _, k := range these {
		rules, absent, soft := p.lacksOf(k, e.Target.IsCluster(), e.Prefix)
		if soft {
			n.allowed = append(n.allowed, k)
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
	var works []string
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
		found = append(found, fail("See what the server says.", "%s: lock and unlock failed: %v", k.id(), explained(err)))
		if temporary(err) {
			break // the others would fail alike, and take their time
		}
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
	return errors.Join(k.try(ctx, trial{client: e.locks, redis: e.redis, name: name}), e.remove(ctx, k, name))
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
