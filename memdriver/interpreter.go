package memdriver

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/holdfast-go/holdfast/driver"
)

// interpreter runs scripts, one at a time, as Redis does. The one of miniredis makes a Lua
// state for each script, which costs more than most of our scripts do.
type interpreter struct {
	commands  *server.Server
	lua       *lua.LState
	functions map[string]*lua.LFunction // by their scripts' SHA
	panicked  any                       // what a command has panicked with
}

// compiled is what has been compiled in this process.
var compiled struct {
	mu    sync.Mutex
	proto map[string]*lua.FunctionProto // by their scripts' SHA; guarded by mu
}

// newInterpreter returns one that has executed nothing. Scripts see what ours use: the basic functions,
// string, table, math, and of redis the functions below.
func newInterpreter(commands *server.Server) *interpreter {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	in := &interpreter{commands: commands, lua: l, functions: map[string]*lua.LFunction{}}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenTable, lua.OpenMath} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	globals := l.G.Global
	globals.RawSetString("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call": in.call, "pcall": in.pcall,
		"error_reply":  func(l *lua.LState) int { return reply(l, "err", l.CheckString(1)) },
		"status_reply": func(l *lua.LState) int { return reply(l, "ok", l.CheckString(1)) },
	}))
	globals.Metatable = l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"__newindex": noGlobal("create"), "__index": noGlobal("access nonexistent"),
	})
	return in
}

// noGlobal keeps scripts from leaving anything to the next one.
func noGlobal(what string) lua.LGFunction {
	return func(l *lua.LState) int {
		l.RaiseError("Script attempted to %s global variable '%s'", what, l.ToString(2))
		return 0
	}
}

// reply pushes a status or an error reply.
func reply(l *lua.LState, field, text string) int {
	l.Push(replyTable(l, field, text))
	return 1
}

// replyTable is what a status or an error reply is for scripts.
func replyTable(l *lua.LState, field, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(field, lua.LString(text))
	return t
}

// run executes a script, and returns its reply as [Server.Do] does.
func (in *interpreter) run(call driver.Call) (any, error) {
	f, err := in.function(call.Script)
	if err != nil {
		return nil, err
	}
	in.lua.G.Global.RawSetString("KEYS", in.strings(call.Keys))
	in.lua.G.Global.RawSetString("ARGV", in.strings(call.Args))
	defer in.lua.SetTop(0)
	in.lua.Push(f)
	err = in.lua.PCall(0, 1, nil)
	if in.panicked != nil { // miniredis is broken, and may have left its lock locked: no error of the script's
		panic(in.panicked)
	}
	if err != nil {
		return nil, raised(err)
	}
	return fromLua(in.lua.Get(-1))
}

func (in *interpreter) function(script *driver.Script) (*lua.LFunction, error) {
	if f := in.functions[script.SHA()]; f != nil {
		return f, nil
	}
	proto, err := compile(script)
	if err != nil {
		return nil, err
	}
	f := in.lua.NewFunctionFromProto(proto)
	in.functions[script.SHA()] = f
	return f, nil
}

// compile compiles a script, once for all servers.
func compile(script *driver.Script) (*lua.FunctionProto, error) {
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	if proto := compiled.proto[script.SHA()]; proto != nil {
		return proto, nil
	}
	var proto *lua.FunctionProto
	chunk, err := parse.Parse(strings.NewReader(script.Source()), "user_script")
	if err == nil {
		proto, err = lua.Compile(chunk, "user_script")
	}
	if err != nil {
		return nil, fmt.Errorf("ERR Error compiling script (new function): %w", err)
	}
	if compiled.proto == nil {
		compiled.proto = map[string]*lua.FunctionProto{}
	}
	compiled.proto[script.SHA()] = proto
	return proto, nil
}

func (in *interpreter) strings(list []string) *lua.LTable {
	t := in.lua.CreateTable(len(list), 0)
	for _, s := range list {
		t.Append(lua.LString(s))
	}
	return t
}

// raised is the error reply for what a script has raised, or a command in it. Redis adds where that was.
func raised(err error) error {
	var e *lua.ApiError
	if !errors.As(err, &e) {
		return err
	}
	if t, ok := e.Object.(*lua.LTable); ok {
		return errors.New(lua.LVAsString(t.RawGetString("err")))
	}
	return errors.New("ERR " + e.Object.String())
}

// notInScripts are the commands that Redis 7 executes in no script.
var notInScripts = func() map[string]bool {
	refused := map[string]bool{}
	for name := range strings.FieldsSeq(`ACL AUTH BGREWRITEAOF BGSAVE BLMOVE BLPOP BRPOP BRPOPLPUSH BZPOPMAX BZPOPMIN
		CLIENT CLUSTER CONFIG DEBUG DISCARD EVAL EVALSHA EVALSHA_RO EVAL_RO EXEC FAILOVER FCALL FCALL_RO FUNCTION HELLO
		LATENCY MODULE MONITOR MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT REPLCONF REPLICAOF RESET ROLE SAVE SCRIPT
		SHUTDOWN SLAVEOF SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE SYNC UNSUBSCRIBE UNWATCH WAIT WATCH`) {
		refused[name] = true
	}
	return refused
}()

// call executes a command for a script, and raises an error if it fails.
func (in *interpreter) call(l *lua.LState) int {
	value, err := in.command(l)
	if err != nil {
		l.Error(replyTable(l, "err", err.Error()), 0)
	}
	l.Push(value)
	return 1
}

// pcall executes a command for a script, and returns an error to it.
func (in *interpreter) pcall(l *lua.LState) int {
	value, err := in.command(l)
	if err != nil {
		return reply(l, "err", err.Error())
	}
	l.Push(value)
	return 1
}

func (in *interpreter) command(l *lua.LState) (lua.LValue, error) {
	args := make([]string, l.GetTop())
	if len(args) == 0 {
		return nil, errors.New("ERR Please specify at least one argument for this redis.call call")
	}
	for i := range args {
		switch a := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(a)
		case lua.LNumber:
			args[i] = a.String()
		default:
			return nil, errors.New("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if notInScripts[strings.ToUpper(args[0])] {
		return nil, errors.New("ERR This Redis command is not allowed from script")
	}
	defer func() {
		if in.panicked = recover(); in.panicked != nil {
			panic(in.panicked)
		}
	}()
	found, err := dispatch(in.commands, args)
	if err != nil {
		return nil, err
	}
	return toLua(l, found)
}

// toLua turns a command's reply into what a script sees of it.
func toLua(l *lua.LState, found any) (lua.LValue, error) {
	switch r := found.(type) {
	case nil:
		return lua.LFalse, nil
	case int:
		return lua.LNumber(r), nil
	case string:
		return lua.LString(r), nil
	case server.Simple:
		return replyTable(l, "ok", string(r)), nil
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, item := range r {
			value, err := toLua(l, item)
			if err != nil {
				return nil, err
			}
			t.Append(value)
		}
		return t, nil
	default:
		return nil, fmt.Errorf("memdriver: reply of type %T", found)
	}
}

// fromLua turns what a script returns into its reply.
func fromLua(value lua.LValue) (any, error) {
	switch v := value.(type) {
	case lua.LBool:
		if v {
			return int64(1), nil
		}
		return nil, nil //nolint:nilnil // it is Redis's null
	case lua.LNumber:
		return int64(v), nil
	case lua.LString:
		return string(v), nil
	case *lua.LTable:
		if text := v.RawGetString("err"); text != lua.LNil {
			return nil, errors.New(lua.LVAsString(text))
		}
		if text := v.RawGetString("ok"); text != lua.LNil {
			return lua.LVAsString(text), nil
		}
		items := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			item, err := fromLua(v.RawGetInt(i))
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	default: // nil, and what Redis takes for it
		return nil, nil //nolint:nilnil // as above
	}
}
