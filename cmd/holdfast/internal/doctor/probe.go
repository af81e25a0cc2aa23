package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/rights"
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
	"CLUSTER|SLOTS": "", "PUBSUB|NUMSUB": "C", "PUBSUB|SHARDNUMSUB": "C", "ZRANK": keyMember,
}

// undone are the commands that change something whatever one says. DEL undoes it at once.
var undone = map[string]string{"RPUSH": "K v", "DECR": "K"}

// anyChannel is a channel of a lock, as a template.
const anyChannel = "redisson_lock__channel:{NAME}"

// keyScript does nothing with its key, and nameKey is the right to use the lock's name as a key.
const (
	keyScript = "return 0"
	nameKey   = "~NAME"
)

// removeScript deletes its keys. Redis 6.0 lets scripts write also if too few replicas are there.
const removeScript = "return redis.call('DEL', unpack(KEYS))"

// probe tries the rights on one node.
type probe struct {
	ctx     context.Context
	client  *redis.Client
	name    string
	tenant  string
	server  rights.Server
	sharded bool
	missing map[string]bool // commands, and templates of keys and channels
	absent  map[string]bool // commands that the server does not know
	err     error           // why it could not go on
}

// needs returns the rights for a kind on this server, the client's own included.
func (p *probe) needs(k rights.Kind) rights.Rights {
	needs := k.Rights
	if slices.Contains(needs.Commands, "SUBSCRIBE") {
		needs = needs.And(rights.OfClient(rights.GoRedis)) // which it needs where it listens
	}
	return rights.Topology(rights.GoRedis, p.server).And(needs.On(p.server))
}

// line returns the rights that are needed on this server for the line.
func (p *probe) line() rights.Rights { return rights.Line().On(p.server) }

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
func (p *probe) try(these []rights.Kind) {
	needed := p.line()
	for _, k := range these {
		needed = needed.And(p.needs(k))
	}
	p.tryCommands(needed.Commands)
	p.tryKeys(needed.Keys)
	p.tryChannels(needed.Channels)
	p.trySubscribe()
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
	for arg := range strings.FieldsSeq(args) {
		switch arg {
		case "K":
			arg = p.name
		case "C":
			arg = p.fill(anyChannel)
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
	channel := p.fill(anyChannel)
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

// fill puts the name into a template.
func (p *probe) fill(template string) string { return rights.Fill(template, p.name, p.tenant) }

// lacksOf says which rules of ACL SETUSER a user lacks of the rights that are needed, and which commands the server does not know;
// empty: none. soft is true if all works without them, but slower.
func (p *probe) lacksOf(needed rights.Rights, prefix string) (says string, soft bool) {
	var rules, absent, lacks []string
	soft = true
	for _, command := range needed.Commands {
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
	for _, rule := range needed.Patterns() {
		if p.missing[rule] {
			rules, soft = append(rules, strings.ReplaceAll(rights.Fill(rule, prefix+"*", p.tenant), "**", "*")), false
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
