package neighbours

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestNeighbourScripts: scripts of the neighbour change what the scripts of all users share: globals, libraries, the metatable of strings. Our
// scripts compute the same as before.
func TestNeighbourScripts(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if !w.isolatesScripts() {
		return // see TestNeighbourReplacesScripts
	}
	w.besieged(t, func(t *testing.T, _ []*victim) {
		for _, script := range []string{
			"redis = nil", "redis.call = function() return 1 end", "KEYS = {'ours:x'}", "string.format = nil", "math.min = nil", "table = nil",
			"tonumber = function() return 0 end", "rawset(_G, 'tonumber', function() return 0 end)", "_G.ipairs = nil",
			"setmetatable(_G, {__index = function() return 0 end})", "getmetatable(_G).__index = function() return 0 end",
			"setfenv(0, {})", "setfenv(1, {})", "string.dump(function() end)", "redis.set_repl(0)", "redis.setresp(3)", "redis.replicate_commands()",
			"redis.breakpoint()", "redis.debug('x')", "loadstring('redis = nil')()", "collectgarbage('stop')", "os.exit()", "io.open('/etc/passwd')",
			"cjson.encode_max_depth(1)", "cmsgpack.pack = nil", "getmetatable('').__index = function() return nil end",
			"local m = getmetatable('') for _, e in ipairs({'__concat', '__add', '__sub', '__mul', '__lt', '__le', '__eq', '__len', '__call', '__tostring'}) do m[e] = function() return 0 end end",
			"return string.rep('x', 2 ^ 62)", "local function f() return f() + 1 end return f()", "return loadstring(string.rep('(', 1e5) .. '1' .. string.rep(')', 1e5))()",
			"local t = {} t[1] = t return t", "local t = {} for _ = 1, 1e4 do t = {t} end return t", "error({err = string.rep('x', 1e6)})", "error(nil)",
		} {
			_ = w.do("EVAL", script, 0) // refused or not: what counts is what our scripts do
		}
	})
	// So do those that begin now.
	w.besieged(t, func(*testing.T, []*victim) {})
}

// isolatesScripts reports whether the server keeps a script from replacing the globals of all others.
func (w *town) isolatesScripts() bool { return w.do("EVAL", "return setfenv and 1", 0) != nil }

// TestNeighbourReplacesScripts: on some servers a script can replace the globals of all others (CVE-2022-24735). There a neighbour makes our scripts
// execute its code, with our rights. docs/security.md: do not share such a server.
func TestNeighbourReplacesScripts(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if w.isolatesScripts() {
		return // see TestNeighbourScripts
	}
	w.succeed(t, "EVAL", `local theirs, call = {}, redis.call
		function theirs.call(...) call('SET', 'ours:theirs', '1') return call(...) end
		setfenv(0, setmetatable({redis = setmetatable(theirs, {__index = redis})}, {__index = _G}))
		return 1`, 0)
	kit.Unlock(t, kit.Must(t)(w.ours["go-redis"].Client(t).NewMutex("ours:"+kit.Fresh()).TryLock(background)))
	if got := w.admin.Do(t, "", "EXISTS", "ours:theirs")[0]; got != "1" {
		t.Error("our script did not execute the code of the neighbour")
	}
}

// TestNeighbourHangs: a script of the neighbour runs without end, and the server serves nobody else. Our calls end in time, holds end at their
// deadlines, and the waiters get their locks once the script has ended.
func TestNeighbourHangs(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	for what, c := range map[string]struct {
		script   string
		killable bool
	}{
		"reads":  {"while true do redis.call('GET', KEYS[1]) end", true},
		"writes": {"redis.call('SET', KEYS[1], '1') while true do end", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, "lua-time-limit 100")
			options := []holdfast.ClientOption{holdfast.WithTimeout(limit)}
			if !c.killable { // the holds are to end
				options = append(options, holdfast.WithLease(lease))
			}
			all := w.victims(t, options)
			hung := make(chan error, 1)
			go func() { hung <- w.neighbourHangs(c.script) }()
			kit.WaitFor(t, "the server to be busy", func() bool {
				_, err := w.nodes[0].Ask(time.Second, "GET", "x")
				return err != nil && strings.Contains(err.Error(), "BUSY")
			})
			for _, v := range all[:1] {
				began := time.Now()
				_, err := v.holder.NewMutex("ours:another").TryLock(background)
				if err == nil {
					t.Error("a server that is busy grants a lock")
				}
				kit.Took(t, time.Since(began), 0, limit+kit.ByMessage, "TryLock took %v")
			}
			_, err := w.nodes[0].Ask(time.Second, "SCRIPT", "KILL")
			if c.killable {
				kit.OK(t, err)
				<-hung
				w.relieve(t, all)
				return
			}
			if err == nil || !strings.Contains(err.Error(), "UNKILLABLE") {
				t.Errorf("SCRIPT KILL: %v", err)
			}
			for _, v := range all {
				if v.held == nil {
					continue
				}
				select {
				case <-v.held.Done():
				case <-time.After(patience):
					t.Errorf("%s through %s outlives its lease", v.what, v.client)
				}
			}
			w.nodes[0].Restart() // SHUTDOWN NOSAVE is all that an operator can do, and SIGKILL
			<-hung
			w.allow(t)
			for _, v := range all {
				if k := v.kind; k != nil {
					kit.WantError(t, v.giveBack(), holdfast.ErrLost)
					kit.OK(t, within(func() error { return <-v.passed }))
				}
			}
		})
	}
}

func (w *town) neighbourHangs(script string) error {
	return w.do("EVAL", script, 1, fmt.Sprint("theirs:", kit.Fresh()))
}
