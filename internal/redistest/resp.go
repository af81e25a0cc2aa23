package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

var errNotRESP = errors.New("not RESP")

// A value is one whole request or reply as it came, or other bytes.
type value struct {
	raw  []byte
	kind byte // the first byte of a RESP value; 0 for other bytes
}

// A respReader splits a stream into RESP values. From the first byte that does
// not fit, such as TLS or an inline command, it returns bytes as they come.
type respReader struct {
	in     *bufio.Reader
	buf    bytes.Buffer // what has been read of the present value
	opaque bool
}

func newRESPReader(r io.Reader) *respReader {
	return &respReader{in: bufio.NewReader(r)}
}

// next returns the next value. With an error it returns what came before it,
// as other bytes.
func (r *respReader) next() (value, error) {
	if r.opaque {
		chunk := make([]byte, 32<<10)
		n, err := r.in.Read(chunk)
		return value{raw: chunk[:n]}, err
	}
	r.buf.Reset()
	err := r.element()
	v := value{raw: bytes.Clone(r.buf.Bytes())}
	switch {
	case err == nil:
		v.kind = v.raw[0]
	case errors.Is(err, errNotRESP):
		r.opaque = true
		if len(v.raw) == 0 {
			return r.next()
		}
		err = nil
	}
	return v, err
}

// element reads one value, with all that is in it, into buf.
func (r *respReader) element() error {
	kind, err := r.in.Peek(1)
	if err != nil {
		return err
	}
	// Checked before reading on: other protocols may never send a line end.
	if !strings.ContainsRune("+-:_,#($!=*~>%|", rune(kind[0])) {
		return errNotRESP
	}
	line, err := r.in.ReadBytes('\n')
	r.buf.Write(line)
	if err != nil {
		return err
	}
	if strings.ContainsRune("+-:_,#(", rune(line[0])) {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil {
		return errNotRESP
	}
	return r.body(line[0], n)
}

// body reads what belongs to a header that gave the length n.
func (r *respReader) body(kind byte, n int) error {
	if n < 0 {
		return nil // a null in RESP2
	}
	switch kind {
	case '$', '!', '=':
		_, err := io.CopyN(&r.buf, r.in, int64(n)+2)
		return err
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1 // attributes, and the value that they belong to
	}
	for range n {
		if err := r.element(); err != nil {
			return err
		}
	}
	return nil
}

// Args returns the command and the arguments of a request as a [Proxy] sees
// it, a RESP array of bulk strings, or nil if it is something else.
func Args(request []byte) []string {
	header, rest, _ := bytes.Cut(request, []byte("\r\n"))
	if !bytes.HasPrefix(header, []byte("*")) {
		return nil
	}
	var args []string
	for len(rest) > 0 {
		var length []byte
		length, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if !bytes.HasPrefix(length, []byte("$")) {
			return nil
		}
		n, err := strconv.Atoi(string(length[1:]))
		if err != nil || n < 0 || len(rest) < n+2 {
			return nil
		}
		args = append(args, string(rest[:n]))
		rest = rest[n+2:]
	}
	return args
}

// Command returns a function that says whether a request is the named command,
// for the methods of [Proxy]. Case does not matter.
func Command(name string) func(request []byte) bool {
	return func(request []byte) bool {
		args := Args(request)
		return len(args) > 0 && strings.EqualFold(args[0], name)
	}
}
