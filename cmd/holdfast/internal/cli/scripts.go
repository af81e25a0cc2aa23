package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/scripts"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// What holdfast scripts can do.
const (
	loadScripts  = "load"
	checkScripts = "check"
	listScripts  = "list"
)

type scriptsCommand struct {
	Action string        `arg:"" enum:"${actions}" help:"load: load all scripts into every server. check: say which servers lack some, and load none. list: print the scripts' names and SHA-1; this needs no Redis."`
	Every  time.Duration `placeholder:"TIME" help:"With load: do so again and again, at least 100ms apart, until a signal ends it. A server that cannot be reached is tried again."`
	JSON   bool          `name:"json" help:"Print one JSON object a line: for each server, or for each script, with its source."`
}

const scriptsHelp = `A Redis user who may use EVAL can run any Lua, and so stop the server for all of its users. Those
who share a server get EVALSHA without EVAL, and an administrator, who may use SCRIPT EXISTS and
SCRIPT LOAD, loads the scripts:
  holdfast scripts load

It goes to the one server of the URL, to all nodes of a cluster, or to the primary and the replicas
that the sentinels name. A server keeps scripts in memory only, and does not replicate them. So load
them again after a restart of a server, after SCRIPT FLUSH, for a new node or replica, and for each
version of holdfast that programs use. A failover to a server that has them needs nothing. To have
that done without an operator, let it run beside Redis:
  holdfast scripts load --every 5s

It exits with 69 if a server cannot be used; the others have the scripts then. check exits with 1 if
one lacks some.`

// Run is called by kong.
func (c *scriptsCommand) Run(s streams, flags redisFlags) error {
	switch {
	case c.Every != 0 && c.Action != loadScripts:
		return exit.Because(exit.Usage, "--every is for holdfast scripts load")
	case c.Every != 0:
		if err := checkInterval(c.Every); err != nil {
			return err
		}
	case c.Action == listScripts:
		return c.list(s)
	}
	target, err := flags.target()
	if err != nil {
		return err
	}
	ctx, ended, stop := untilSignal()
	defer stop()
	err = c.visit(ctx, s, target)
	if signalled := ended(); signalled != nil {
		return signalled
	}
	return err
}

// listedScript is a script as list prints it with --json.
type listedScript struct {
	Name   string `json:"name"`
	SHA1   string `json:"sha1"`
	Source string `json:"source"`
}

func (c *scriptsCommand) list(s streams) error {
	every := protocol.Every()
	for _, name := range slices.Sorted(maps.Keys(every)) {
		script := every[name]
		var err error
		if c.JSON {
			err = present.JSON(s.stdout, listedScript{name, script.SHA(), script.Source()})
		} else {
			err = printer.Lines(s.stdout, script.SHA()+"  "+name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visit visits the servers once, or again and again until ctx ends.
func (c *scriptsCommand) visit(ctx context.Context, s streams, target *connect.Target) error {
	r := &scriptsReport{streams: s, command: c, errors: map[string]string{}}
	for {
		nodes, err := scripts.Visit(ctx, target, c.Action == loadScripts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = r.tell(target, nodes, err)
		if c.Every == 0 {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.Every):
		}
	}
}

// scriptsReport prints what there is to say of the servers. Of a second visit that is what has changed.
type scriptsReport struct {
	streams

	command *scriptsCommand
	errors  map[string]string // of the last visit, by address; under "" why the servers are not known
}

// tell prints what came of a visit, and returns the error with which the command ends if that was the last one.
func (r *scriptsReport) tell(target *connect.Target, nodes []scripts.Node, unknown error) error {
	ends, loaded := r.tellUnknown(target, unknown), false
	for _, n := range nodes {
		switch {
		case n.Error != "":
			ends = exit.Silently(exit.Unavailable)
		case !n.Loaded && ends == nil:
			ends = exit.Silently(exit.Failed)
		}
		loaded = loaded || n.Loaded && len(n.Missing) > 0
		before, visited := r.errors[n.Addr]
		r.errors[n.Addr] = n.Error
		if visited && before == n.Error && len(n.Missing) == 0 {
			continue
		}
		if err := r.print(n); err != nil {
			return err
		}
	}
	if loaded && r.command.Every == 0 {
		r.sayf("after a restart of a server, SCRIPT FLUSH, and for a new node or replica, load them again; --every 5s does that by itself")
	}
	return ends
}

// tellUnknown says why the servers are not known, if they are not, and returns the error with which the command ends then.
func (r *scriptsReport) tellUnknown(target *connect.Target, unknown error) error {
	if unknown == nil {
		delete(r.errors, "")
		return nil
	}
	why := connect.Explain(unknown).Error()
	if r.errors[""] != why {
		r.sayf("Redis (%s) cannot be used: %s", target, why)
	}
	r.errors[""] = why
	return exit.Silently(exit.Unavailable)
}

// print prints what is known of a server.
func (r *scriptsReport) print(n scripts.Node) error {
	text := ""
	switch addr := n.Addr; {
	case r.command.JSON:
		return present.JSON(r.stdout, n)
	case n.Error != "":
		r.sayf("%s cannot be used: %s", addr, n.Error)
		return nil
	case len(n.Missing) == 0:
		text = fmt.Sprintf("%s: it has all %d scripts", addr, n.Scripts)
	case n.Loaded:
		text = fmt.Sprintf("%s: loaded %d scripts, of which it lacked %d", addr, n.Scripts, len(n.Missing))
	case len(n.Missing) == n.Scripts:
		text = fmt.Sprintf("%s: it has none of the %d scripts", addr, n.Scripts)
	default:
		text = fmt.Sprintf("%s: it lacks %d of %d scripts: %s", addr, len(n.Missing), n.Scripts, strings.Join(n.Missing, ", "))
	}
	return printer.Lines(r.stdout, text)
}
