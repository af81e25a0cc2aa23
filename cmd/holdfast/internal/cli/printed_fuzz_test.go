//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/visible"
)

// FuzzPrinted: whatever a server says, in whichever form, no command prints anything of it that a terminal obeys or a reader does not see.
func FuzzPrinted(f *testing.F) {
	const hostile = "\x1b]0;own\a\x1b[31m\u202e\u3164\ufe00\u034f\u200b\u0085\x9b\xff\x7f\U000e0001e\u0301\u0302\u0303\u0304\u0305"
	for command := range printing {
		for form := range forms {
			f.Add(hostile, uint8(command), uint8(form))
		}
	}
	f.Add("NOPERM this user has no permissions to run the 'a\x1b' command", uint8(1), uint8(0))
	f.Add("WRONGTYPE \u2028", uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, said string, command, form uint8) {
		t.Parallel()
		args := printing[int(command)%len(printing)]
		server := startLiar(t, said, forms[int(form)%len(forms)])
		out, err := os.Create(t.TempDir() + "/out")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		Main(append([]string{args[0], "--redis", "redis://" + server}, args[1:]...), out, out)
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if visible.Text(line) != line {
				t.Errorf("%q prints %q", args, line)
			}
		}
	})
}

// printing are the commands that print what a server says.
var printing = [][]string{
	{"run", "--try", "--verbose", "job", "--", "true"},
	{"run", "--try", "--kind", "permits", "job", "--", "true"},
	{"ls"},
	{"ls", "--json", "--all"},
	{"show", "job"},
	{"wait", "--wait", "0s", "job"},
	{"unlock", "--force", "--yes", "job"},
	{"doctor", "--timeout", "200ms", "--verbose"},
	{"doctor", "--timeout", "200ms", "--json"},
	{"bench", "--duration", "1ms", "--goroutines", "1"},
}

// forms are the replies that a text can be in.
var forms = []func(said string) string{
	func(said string) string { return "-ERR " + inLine(said) + "\r\n" },
	func(said string) string { return "-" + inLine(said) + "\r\n" },
	func(said string) string { return "+" + inLine(said) + "\r\n" },
	bulk,
	func(said string) string { return "*3\r\n:1\r\n" + bulk(said) + "*1\r\n" + bulk(said) },
	func(said string) string { return "*2\r\n" + bulk(said) + bulk(said) },
}

func bulk(said string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(said), said) }

// inLine is a text without line breaks, which would end the reply.
func inLine(said string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(said) }

// startLiar starts a server that greets like one without HELLO, has a plausible INFO, and says said to all else.
func startLiar(t *testing.T, said string, form func(string) string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() { // until the client closes it
				defer conn.Close()
				for requests := bufio.NewReader(conn); ; {
					request, err := readRequest(requests)
					if err != nil {
						return
					}
					reply := form(said)
					switch strings.ToUpper(request[0]) {
					case "HELLO":
						reply = "-ERR unknown command 'HELLO' " + inLine(said) + "\r\n"
					case "INFO":
						reply = bulk("redis_version:" + inLine(said) + "\r\nrole:slave\r\nmaster_host:" + inLine(said) + "\r\nmaster_link_status:" + inLine(said) +
							"\r\nused_memory:" + inLine(said) + "\r\nslave0:ip=" + inLine(said) + ",port=1,state=" + inLine(said) + "\r\n")
					case "TYPE":
						reply = "+hash\r\n"
					case "PING", "CLIENT":
						reply = "+OK\r\n"
					}
					if _, err := io.WriteString(conn, reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// readRequest reads a command.
func readRequest(r *bufio.Reader) ([]string, error) {
	count, err := readNumber(r, '*')
	if err != nil {
		return nil, err
	}
	request := make([]string, count)
	for i := range request {
		size, err := readNumber(r, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		request[i] = string(text[:size])
	}
	return request, nil
}

func readNumber(r *bufio.Reader, mark byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || line[0] != mark {
		return 0, fmt.Errorf("%q: %w", line, err)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
