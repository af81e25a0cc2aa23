package drivertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	echo = driver.NewScript("echo", "return {KEYS[1], ARGV[1]}")
	incr = driver.NewScript("incr", "return redis.call('INCR', KEYS[1])")
	get  = driver.NewScript("get", "return redis.call('GET', KEYS[1])")
	fail = driver.NewScript("fail", "return {err = ARGV[1]}")
)

func testReplies(t *testing.T, target Target) {
	d := target.Open(t)
	cases := []struct {
		body string
		want any
	}{
		{"return nil", nil},
		{"return false", nil},
		{"return true", int64(1)},
		{"return 42", int64(42)},
		{"return -9007199254740991", int64(-9007199254740991)},
		{"return ''", ""},
		{"return 'text'", "text"},
		{`return 'a\0b\r\n\255'`, "a\x00b\r\n\xff"},
		{"return {ok = 'FINE'}", "FINE"},
		{"return {}", []any{}},
		{"return {1, 'two', {3, {}}}", []any{int64(1), "two", []any{int64(3), []any{}}}},
		{"return {false, 'x', false}", []any{nil, "x", nil}},
		{"return redis.call('GET', KEYS[1])", nil},
		{"return redis.call('HGETALL', KEYS[1])", []any{}},
		{"return redis.call('SET', KEYS[1], '7')", "OK"},
		{"return redis.call('GET', KEYS[1])", "7"},
		{"return redis.call('PTTL', KEYS[1])", int64(-1)},
	}
	key := unique("replies")
	for _, c := range cases {
		got, err := d.Eval(testContext(t), driver.Call{Script: driver.NewScript("reply", c.body), Keys: []string{key}})
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.body, got, c.want)
		}
	}
}

func testBinaryArguments(t *testing.T, target Target) {
	d := target.Open(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, text := range []string{"", " ", "\x00", "\r\n", "$3\r\nfoo\r\n", "ä", string(every)} {
		key := unique("binary") + text
		got, err := d.Eval(testContext(t), driver.Call{Script: echo, Keys: []string{key}, Args: []string{text}})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := []any{key, text}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func testFlushedScripts(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("flushed")
	for want := int64(1); want <= 3; want++ {
		target.FlushScripts(t)
		count(t, d, key, want)
	}
	count(t, d, key, 4) // from the cache
}

// count runs incr, and checks that it is the want-th time.
func count(t testing.TB, d driver.Driver, key string, want int64) {
	t.Helper()
	got, err := d.Eval(testContext(t), driver.Call{Script: incr, Keys: []string{key}})
	if err != nil || got != want {
		t.Fatalf("got %v, %v, want %d", got, err, want)
	}
}

func testScriptErrors(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("errors")
	for _, body := range []string{
		"redis.call('SET', KEYS[1], 'x') return redis.call('HGET', KEYS[1], 'f')", // WRONGTYPE
		"redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[1])",
		"error('on purpose')",
	} {
		_, err := d.Eval(testContext(t), driver.Call{Script: driver.NewScript("bad", body), Keys: []string{key}})
		CheckError(t, body, err, driver.Error{MayHaveRun: true})
	}
}

// inScript is what servers before Redis 7.0 put before the error of a command.
const inScript = "ERR Error running script (call to f_4c06fea5dd3ae260603752e554a0723b8670ca51): " +
	"@user_script:1: @user_script: 1: "

// testServerErrors lets a script say what servers say, word for word.
func testServerErrors(t *testing.T, target Target) {
	d := target.Open(t)
	for message, want := range map[string]driver.Error{
		"BUSY Redis is busy running a script":                     {Transient: true},
		"LOADING Redis is loading":                                {Transient: true},
		"MASTERDOWN Link with MASTER is down":                     {Transient: true},
		"CLUSTERDOWN The cluster is down":                         {Transient: true},
		"NOREPLICAS Not enough good replicas":                     {Transient: true},
		"TRYAGAIN Multiple keys request during rehashing of slot": {Code: "TRYAGAIN", Transient: true},
		"MISCONF Redis is configured to save":                     {Transient: true},
		"OOM command not allowed":                                 {Transient: true},
		"READONLY You can't write against a replica":              {Transient: true},
		"CROSSSLOT Keys in request":                               {},
		"NOAUTH Authentication required.":                         {Code: "NOAUTH"},
		"NOPERM this user has no permissions":                     {Code: "NOPERM"},
		"WRONGTYPE Operation against a key":                       {Code: "WRONGTYPE", MayHaveRun: true},
		"ERR something":                                           {MayHaveRun: true},
		inScript + "-OOM command not allowed":                     {Transient: true},
		inScript + "-READONLY You can't write":                    {Transient: true},
		inScript + "The user can't run this command":              {MayHaveRun: true},
		// What a server says that wants a password first, and gets a long request.
		"ERR Protocol error: unauthenticated multibulk length": {Code: "NOAUTH"},
		"ERR Protocol error: unauthenticated bulk length":      {Code: "NOAUTH"},
		"ERR Error running script (call to f_" + strings.Repeat("0", 40) + "): @user_script:1: WRONGTYPE Operation": {
			Code: "WRONGTYPE", MayHaveRun: true,
		},
	} {
		_, err := ask(t, d, driver.Call{Script: fail, Keys: []string{unique("words")}, Args: []string{message}})
		CheckError(t, message, err, want)
	}
}

// CheckError reports what differs between err and the wanted [driver.Error]: flags,
// and the code unless none is wanted. The cause must be there. what names the case.
func CheckError(t testing.TB, what string, err error, want driver.Error) {
	t.Helper()
	var got *driver.Error
	if !errors.As(err, &got) {
		t.Errorf("%s: got %T %v, want a *driver.Error", what, err, err)
		return
	}
	if got.Err == nil || got.MayHaveRun != want.MayHaveRun || got.Transient != want.Transient {
		t.Errorf("%s: got %+v, want MayHaveRun %t, Transient %t", what, got, want.MayHaveRun, want.Transient)
	}
	if want.Code != "" && got.Code != want.Code {
		t.Errorf("%s: got the code %q, want %q", what, got.Code, want.Code)
	}
}

func testContextEnded(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("ended")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{key}})
	CheckError(t, "cancelled before", err, driver.Error{Transient: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	got, err := d.Eval(testContext(t), driver.Call{Script: get, Keys: []string{key}})
	if got != nil || err != nil {
		t.Errorf("got %v, %v, want nil, since nothing ran", got, err)
	}
}

// testParallel checks that no call gets another's reply, and that none fails
// because others give up, which they begin to do before there is a connection.
func testParallel(t *testing.T, target Target) {
	d := target.Open(t)
	key := unique("parallel")
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for i := range 50 {
				text := fmt.Sprintf("%d-%d", worker, i)
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					workers.Go(cancel)
				}
				got, err := d.Eval(ctx, driver.Call{Script: echo, Keys: []string{key}, Args: []string{text}})
				cancel()
				if err == nil && !reflect.DeepEqual(got, []any{key, text}) {
					t.Errorf("got %v, want %s", got, text)
				}
				if err != nil && i%5 != 0 {
					t.Errorf("%s: %v", text, err)
				}
			}
		})
	}
	workers.Wait()
}

func testPublishCommand(t *testing.T, target Target) {
	d := target.Open(t)
	first, err := d.PublishCommand(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if first != "PUBLISH" && first != "SPUBLISH" {
		t.Errorf("got %q", first)
	}
	for range 3 {
		if again, err := target.Open(t).PublishCommand(testContext(t)); again != first || err != nil {
			t.Errorf("got %q, %v, then %q", first, err, again)
		}
	}
}
