package connect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// spoken is a connection on which a server says something.
type spoken struct {
	net.Conn
	io.Reader
}

func (s spoken) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// readBounded returns what arrives of a reply.
func readBounded(t *testing.T, r io.Reader) (string, error) {
	t.Helper()
	conn, err := Bounded(func(context.Context, string, string) (net.Conn, error) { return spoken{Reader: r}, nil })(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// bulk is a text as Redis sends it.
func bulk(kind, text string) string { return kind + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// TestBounded: what is short arrives as it is, however it is cut into packets; of what is long the beginning does, and a digest of the rest.
func TestBounded(t *testing.T) {
	t.Parallel()
	limit := strings.Repeat("x", MaxText)
	tricky := "$9999\r\nab\r\n" + strings.Repeat("\r\n$5000\r\n*3\r\n", 700) // in a text, nothing is a header
	for what, c := range map[string]struct{ reply, want string }{
		"short":           {"*3\r\n" + bulk("$", "") + ":-7\r\n+OK\r\n" + bulk("$", "a\r\nb"), ""},
		"none":            {"$-1\r\n*-1\r\n_\r\n*0\r\n#t\r\n,1.5\r\n-ERR no\r\n", ""},
		"as long as may":  {bulk("$", limit) + ":1\r\n", ""},
		"of RESP3":        {"%1\r\n" + bulk("=", "txt:a") + "~1\r\n" + bulk("!", "ERR a") + ">1\r\n:1\r\n|1\r\n+a\r\n+b\r\n", ""},
		"too long":        {"*2\r\n" + bulk("$", limit+"y") + bulk("$", "b"), "*2\r\n$2048\r\n" + limit[:MaxText-digestSize]},
		"too long error":  {"-ERR " + strings.Repeat("z", 1<<20) + "\r\n:1\r\n", "-ERR " + strings.Repeat("z", 2000)},
		"too long, RESP3": {bulk("=", "txt:"+limit) + bulk("!", limit+"!") + ":2\r\n", "=2048\r\ntxt:xxx"},
		"with headers":    {bulk("$", tricky) + ":3\r\n", "$2048\r\n" + tricky[:MaxText-digestSize]},
	} {
		var first string
		for i, r := range []io.Reader{strings.NewReader(c.reply), iotest.OneByteReader(strings.NewReader(c.reply)), iotest.HalfReader(strings.NewReader(c.reply))} {
			got, err := readBounded(t, r)
			if i == 0 {
				first = got
			}
			if err != nil || got != first || c.want == "" && got != c.reply || !strings.HasPrefix(got, c.want) || len(got) > len(limit)*2+100 {
				t.Errorf("%s, %d: %.100q, %d bytes, %v", what, i, got, len(got), err)
			}
			if tail := c.reply[len(c.reply)-4:]; !strings.HasSuffix(got, tail) {
				t.Errorf("%s, %d: it does not end with %q", what, i, tail)
			}
		}
	}
	one, _ := readBounded(t, strings.NewReader(bulk("$", strings.Repeat("x", 1<<20)+"1")))
	other, _ := readBounded(t, strings.NewReader(bulk("$", strings.Repeat("x", 1<<20)+"2")))
	if one == other || len(one) != len(other) {
		t.Error("two long texts have become the same")
	}
	for _, reply := range []string{"*9223372036854775807\r\n", "%9223372036854775808\r\n", "*1048577\r\n", ">1048577\r\n"} {
		if _, err := readBounded(t, strings.NewReader(reply)); !errors.Is(err, errElements) {
			t.Errorf("%q: %v", reply, err)
		}
	}
	for _, reply := range []string{"$5000\r\nabc", "$50", bulk("$", limit+"y")[:2057]} { // it ends within
		got, err := readBounded(t, io.MultiReader(strings.NewReader(reply), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > len(reply) {
			t.Errorf("%.20q: %.20q, %v", reply, got, err)
		}
	}
}

// FuzzBounded: whatever a server says, and in whatever pieces, no more arrives than it has said, and no text of it is longer than it may be.
func FuzzBounded(f *testing.F) {
	for _, seed := range []string{"*1\r\n$3\r\nabc\r\n", bulk("$", strings.Repeat("x", 3000)), "-" + strings.Repeat("e", 5000) + "\r\n", "$-1\r\n", "$99999999999999999999\r\n", "*?\r\n", "\n\n", "$4\r\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		whole, err := readBounded(t, strings.NewReader(reply))
		pieces, again := readBounded(t, iotest.OneByteReader(strings.NewReader(reply)))
		if whole != pieces || (err == nil) != (again == nil) || len(whole) > len(reply)+MaxText {
			t.Errorf("%q, %v; in pieces %q, %v", whole, err, pieces, again)
		}
		for line := range bytes.Lines([]byte(whole)) {
			if size, err := strconv.Atoi(string(bytes.TrimSpace(line[1:]))); line[0] == '$' && err == nil && size > MaxText && !strings.Contains(reply, "\r\n"+string(line)) && !strings.HasPrefix(reply, string(line)) {
				t.Errorf("%q", line)
			}
		}
	})
}

// TestBoundedRedis reads 64 MB by the real client, and keeps next to nothing of it in memory. It is not parallel: it counts what is allocated.
func TestBoundedRedis(t *testing.T) {
	server := redistest.Start(t)
	target, err := Options{URL: "redis://" + server.Addr()}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	plain, bounded := target.Client(target.Dial), target.Client(Bounded(target.Dial))
	defer plain.Close()
	defer bounded.Close()
	huge := strings.Repeat("x", 8<<20)
	for i := range 8 {
		if err := plain.HSet(ctx, "hash", huge[i:], strconv.Itoa(i)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := bounded.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fields, err := bounded.HKeys(ctx, "hash").Result()
	runtime.ReadMemStats(&after)
	slices.Sort(fields)
	if err != nil || len(slices.Compact(fields)) != 8 || slices.ContainsFunc(fields, func(f string) bool { return len(f) != MaxText }) {
		t.Errorf("%d fields, %v", len(fields), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("%d MB were allocated for 64 MB", took>>20)
	}
	if err := bounded.Do(ctx, huge).Err(); err == nil || len(err.Error()) > MaxText { // it comes back in the error
		t.Errorf("%v", err)
	}
	pipe := bounded.Pipeline()
	got := []*redis.SliceCmd{pipe.HMGet(ctx, "hash", "none", huge), pipe.HMGet(ctx, "hash", huge[1:], "none")}
	if _, err := pipe.Exec(ctx); err != nil || got[0].Val()[1] != "0" || got[1].Val()[0] != "1" {
		t.Errorf("the connection is out of step: %v, %v", got, err)
	}
}
