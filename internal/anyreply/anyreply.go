// Package anyreply makes replies of a Redis server out of bytes, for fuzz tests: whatever a
// server can send, and often what one of our scripts nearly replies.
package anyreply

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"
)

// deepest is how deep lists are nested, and longest how long they and texts are.
const deepest, longest = 4, 40

// edges are numbers at which something may break.
var edges = []int64{
	0, 1, 2, 3, -1, -2, -3, 1000, 100_000_000_000, 1 << 31, 1<<53 - 1, 1 << 53, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64,
	math.MaxInt64 / int64(time.Millisecond), math.MaxInt64/int64(time.Millisecond) + 1, 9_223_372_036_854,
}

// Reader takes replies off bytes. When these have come to an end, all replies are nil.
type Reader struct{ data []byte }

// New returns a reader of data.
func New(data []byte) *Reader { return &Reader{data} }

// Done reports whether all bytes are used.
func (r *Reader) Done() bool { return len(r.data) == 0 }

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// Int takes a number.
func (r *Reader) Int() int64 {
	if kind := r.Byte(); kind < 200 {
		return edges[int(kind)%len(edges)]
	}
	var room [8]byte
	for i := range room {
		room[i] = r.Byte()
	}
	return int64(binary.LittleEndian.Uint64(room[:]))
}

// Text takes a text, often a number's.
func (r *Reader) Text() string {
	n := int(r.Byte())
	if n >= 128 {
		return strconv.FormatInt(r.Int(), 10)
	}
	n = min(n%longest, len(r.data))
	text := string(r.data[:n])
	r.data = r.data[n:]
	return text
}

// Reply takes a reply: nil, an int64, a string or a []any of these.
func (r *Reader) Reply() any { return r.reply(0) }

func (r *Reader) reply(depth int) any {
	if r.Done() {
		return nil
	}
	kind := r.Byte()
	switch now := time.Now().UnixMilli(); {
	case kind < 20:
		return nil
	case kind < 80:
		return r.Int()
	case kind < 130:
		return r.Text()
	case kind < 140:
		return now
	case depth == deepest:
		return []any{}
	case kind < 200 && depth == 0: // what a script of ours begins with
		return append([]any{int64(kind%5) - 3, now}, r.list(depth)...)
	default:
		return r.list(depth)
	}
}

func (r *Reader) list(depth int) []any {
	list := make([]any, int(r.Byte())%longest)
	for i := range list {
		list[i] = r.reply(depth + 1)
	}
	return list
}
