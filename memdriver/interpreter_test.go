package memdriver

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// What scripts see and what they reply is as on a Redis server; the rest is in TestConformance.
func TestScripts(t *testing.T) {
	d := newServer(t).Driver()
	for source, want := range map[string]any{
		"return {1, 'two', {3, false, 'x'}, nil, 5}": []any{int64(1), "two", []any{int64(3), nil, "x"}},
		"return {'a', redis.status_reply('FINE')}":   []any{"a", "FINE"},
		"return 3.99":                          int64(3),
		"return true":                          int64(1),
		"return false":                         nil,
		"return":                               nil,
		"return {}":                            []any{},
		"return redis.call('SET', KEYS[1], 7)": "OK",
		"return redis.call('SET', KEYS[1], 7).ok .. #KEYS .. #ARGV":     "OK12",
		"redis.call('SET', KEYS[1], 0.5) return redis.call('GET', 'k')": "0.5",
		"return redis.call('GET', 'absent') == false and 'null'":        "null",
		"return redis.call('HGETALL', 'absent')":                        []any{},
		"return redis.call('INCR', 'n') + 1":                            int64(2),
		"return redis.pcall('LPUSH', 'n', '1').err":                     "WRONGTYPE Operation against a key holding the wrong kind of value",
		"local ok, e = pcall(redis.call, 'LPUSH', 'n', '1') return {tostring(ok), e.err}": []any{
			"false", "WRONGTYPE Operation against a key holding the wrong kind of value",
		},
		"return ARGV[2]": "b",
	} {
		if strings.Contains(source, "'n'") {
			if _, err := d.server.Do("SET", "n", "0"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := d.execute(driver.Call{Script: driver.NewScript("test", source), Keys: []string{"k"}, Args: []string{"a", "b"}})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, want %#v", source, got, err, want)
		}
	}
}

// An error says what Redis says first of it, and leaves nothing to later scripts.
func TestScriptErrors(t *testing.T) {
	d := newServer(t).Driver()
	run := func(source string) (any, error) {
		return d.execute(driver.Call{Script: driver.NewScript("test", source), Keys: []string{"k"}})
	}
	for source, want := range map[string]string{
		"return redis.error_reply('MINE of my own')":               "MINE of my own",
		"return {1, redis.error_reply('MINE of my own')}":          "MINE of my own",
		"redis.call('SET', 'h', 'x') redis.call('HGET', 'h', 'f')": "WRONGTYPE Operation against a key holding the wrong kind of value",
		"redis.call()":                    "ERR Please specify at least one argument",
		"redis.call('GET', {})":           "ERR Lua redis lib command arguments must be strings or integers",
		"redis.call('NOSUCH')":            "ERR unknown command",
		"redis.call('subscribe', 'c')":    "ERR This Redis command is not allowed from script",
		"redis.call('BLPOP', KEYS[1], 0)": "ERR This Redis command is not allowed from script",
		"return 1 + {}":                   "ERR cannot perform add operation",
		"error('no')":                     "ERR no",
		"x = 1":                           "ERR Script attempted to create global variable 'x'",
		"return y":                        "ERR Script attempted to access nonexistent global variable 'y'",
		"return os.time()":                "ERR Script attempted to access nonexistent global variable 'os'",
		"this is no Lua":                  "ERR Error compiling script (new function)",
	} {
		reply, err := run(source)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", source, reply, err, want)
		}
		if again, err := run("return #KEYS"); err != nil || again != int64(1) {
			t.Fatalf("after %s: %v, %v", source, again, err)
		}
	}
}

// Nothing comes between the commands of a script.
func TestScriptsAreNotInterrupted(t *testing.T) {
	s := newServer(t)
	slow := driver.NewScript("slow", `
		for _ = 1, 20 do
			redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) + 1)
		end`)
	if _, err := s.Do("SET", "n", "0"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 4 {
		d := s.Driver()
		wg.Go(func() {
			for range 50 {
				if _, err := d.execute(driver.Call{Script: slow, Keys: []string{"n"}}); err != nil {
					t.Error(err)
				}
				if _, err := s.Do("INCR", "n"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := s.Do("GET", "n"); err != nil || n != "4200" {
		t.Errorf("%v, %v, want 4200", n, err)
	}
}
