package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// This file tries on a server what a user may do there.

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
	keyField  = "K f"
	keyRange  = "K 0 0"
	keyMember = "K m"
)

// harmless are the commands as they change nothing: a server looks at the rights first. K is a
// key that does not exist, C a channel that nobody listens on.
var harmless = map[string]string{
	"DEL": "K", "EVALSHA": anySHA + " 0", "EXISTS": "K", "GET": "K", "HDEL": keyField, "HEXISTS": keyField, "HGET": keyField, "HGETALL": "K",
	"HKEYS": "K", "HLEN": "K", "HSET": "K f v odd", "LINDEX": "K 0", "LLEN": "K", "LPOS": "K v", "LRANGE": keyRange, "LREM": "K 0 v",
	"LTRIM": keyRange, "PERSIST": "K", "PEXPIRE": "K 1", "PTTL": "K", "SET": "K v XX", "TIME": "", "TYPE": "K",
	"UNLINK": "K", "ZADD": "K XX 1 m", "ZCARD": "K", "ZCOUNT": keyRange, "ZRANGE": keyRange, "ZRANGEBYSCORE": keyRange, "ZREM": keyMember,
	"ZREMRANGEBYSCORE": keyRange, "ZSCORE": keyMember, "INCRBY": "K none", "DECRBY": "K none", "PUBLISH": "C 0", "SPUBLISH": "C 0", "PING": "",
	"CLUSTER|SLOTS": "", "PUBSUB|NUMSUB": "C", "PUBSUB|SHARDNUMSUB": "C", "ZPOPMIN": "K", "ZRANK": keyMember,
}

// undone are the commands that change something whatever one says. DEL undoes it at once.
var undone = map[string]string{"RPUSH": "K v", "DECR": "K"}

// keyScript does nothing with its key, and nameKey is the right to use the lock's name as a key.
const (
	keyScript = "return 0"
	nameKey   = "~NAME"
)

// removeScript deletes its keys. Redis 6.0 lets scripts write also if too few replicas are there.
const removeScript = "return redis.call('DEL', unpack(KEYS))"

// forSharded are the commands that clusters with sharded messages know in place of others.
var forSharded = strings.NewReplacer("UNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE", "PUBLISH", "SPUBLISH", "|NUMSUB", "|SHARDNUMSUB")

// probe tries the rights on one node.
type probe struct {
	ctx     context.Context
	client  *redis.Client
	name    string
	cluster bool
	sharded bool
	missing map[string]bool // commands, and templates of keys and channels
	absent  map[string]bool // commands that the server does not know
	err     error           // why it could not go on
}

// words are the words of a list.
func words(list string) []string { return strings.Fields(list) }

// commandsOf are the commands of a kind on this server, the client's own included.
func (p *probe) commandsOf(k kind) []string {
	list := k.commands
	if strings.Contains(list, "UNSUBSCRIBE") {
		list += " PING" // go-redis replaces connections that listen without it
	}
	if p.sharded {
		list = forSharded.Replace(list)
	}
	if p.cluster {
		list += " CLUSTER|SLOTS PUBSUB|SHARDNUMSUB"
	}
	return words(list)
}

// line is what is needed on this server for the line.
func (p *probe) line() kind {
	if p.sharded {
		return lineSharded
	}
	return line
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

// try tries what some kinds need, and their line.
func (p *probe) try(these []kind) {
	these = append(slices.Clone(these), p.line())
	p.tryCommands(needed(these, p.commandsOf))
	p.tryKeys(needed(these, func(k kind) []string { return words(k.keys) }))
	p.tryChannels(needed(these, func(k kind) []string { return words(k.channels) }))
	p.trySubscribe()
}

// needed is what some kinds need, once each.
func needed(these []kind, of func(k kind) []string) (all []string) {
	for _, k := range these {
		all = append(all, of(k)...)
	}
	return unique(all)
}

// tryCommands sends all commands.
func (p *probe) tryCommands(commands []string) {
	pipe := p.client.Pipeline()
	sent := map[string]*redis.Cmd{}
	for _, command := range commands {
		args, known := harmless[command]
		if !known {
			continue
		}
		sent[command] = pipe.Do(p.ctx, p.command(command, args)...)
	}
	sent["EVAL"] = pipe.Do(p.ctx, "EVAL", keyScript, 0)
	_, _ = pipe.Exec(p.ctx) // each reply has its error
	for command, reply := range sent {
		p.note(command, reply.Err())
	}
	p.tryUndone(commands)
}

// command is a command with arguments, of which K is the key and C the channel.
func (p *probe) command(name, args string) (line []any) {
	for part := range strings.SplitSeq(name, "|") {
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
	return line
}

// tryUndone tries what DEL has to undo.
func (p *probe) tryUndone(commands []string) {
	if p.lacks("DEL") || p.err != nil {
		return // it could not be undone; no kind works without DEL
	}
	for command, args := range undone {
		if slices.Contains(commands, command) {
			pipe := p.client.Pipeline()
			done := pipe.Do(p.ctx, p.command(command, args)...)
			pipe.Del(p.ctx, p.name)
			_, _ = pipe.Exec(p.ctx) // each reply has its error
			p.note(command, done.Err())
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
	answer := func(ask func(context.Context, ...string) error) (err error) {
		defer func() { // go-redis panics at a message that is none
			if recover() != nil {
				err = errors.New("it answers with something else than a message")
			}
		}()
		if err := ask(p.ctx, channel); err != nil {
			return err
		}
		_, err = sub.ReceiveTimeout(p.ctx, callTimeout)
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

// lacksOf says which rules of ACL SETUSER a user lacks for a kind, and which commands the server does not know;
// empty: none. soft is true if all works without them, but slower.
func (p *probe) lacksOf(k kind, prefix string) (says string, soft bool) {
	var rules, absent, lacks []string
	soft = true
	for _, command := range p.commandsOf(k) {
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
	if len(rules) > 0 {
		lacks = append(lacks, "this user lacks "+strings.Join(rules, " "))
	}
	if len(absent) > 0 {
		lacks = append(lacks, "the server does not know "+strings.Join(absent, " "))
	}
	return strings.Join(lacks, ", and "), soft
}

// signed puts a sign before each word.
func signed(sign, list string) (all []string) {
	for _, word := range words(list) {
		all = append(all, sign+word)
	}
	return all
}
