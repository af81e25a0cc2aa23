package connect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
)

const (
	// MaxText is the longest text of a reply on a connection of [Bounded], in bytes. No key, field or owner of a lock is as long.
	MaxText = 2048
	// maxElements is the largest array of a reply there.
	maxElements = 1 << 20
	// headerBuffer is the longest line that is read as a whole: a type and a length, an integer, or a short text.
	headerBuffer = 4096
	// digestSize is how many hexadecimal digits of a digest a shortened text ends with.
	digestSize = 16
	// texts and arrays are what the lines begin with that have a length.
	texts, arrays = "$=!", "*%~>|"
)

var (
	errElements = errors.New("the reply has an array of more than " + strconv.Itoa(maxElements) + " elements")
	digestSeed  = maphash.MakeSeed()
)

// Bounded returns a dial whose connections shorten what Redis replies, as it comes in: anybody who may write to Redis can make texts of
// 512 MB there, and SCAN, HSCAN and PUBSUB CHANNELS return texts whole. A text longer than [MaxText] arrives with that length, and ends
// with a digest of what was left out, so two texts rarely become the same. An array of more than a million elements fails the read.
//
// A connection with it is for locks: it is useless for INFO.
func Bounded(dial Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		short := &boundedConn{Conn: conn, in: bufio.NewReaderSize(conn, headerBuffer)}
		if raw, plain := conn.(syscall.Conn); plain { // lets the Redis client see whether an idle connection is dead
			return struct {
				*boundedConn
				syscall.Conn
			}{short, raw}, nil
		}
		return short, nil
	}
}

// boundedConn is a connection to Redis that shortens replies. It keeps no track of nesting: every element of a reply begins with a line, and
// the line of a text has the length of the text that follows.
type boundedConn struct {
	net.Conn

	in *bufio.Reader
	// The reader gets the bytes of out, and then keep bytes of in as they are. After those, remove bytes of in are left out, of which
	// removed is the digest.
	out          []byte
	keep, remove int64
	removed      maphash.Hash
}

// Read implements [io.Reader].
func (c *boundedConn) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.keep > 0 {
			n, err := c.in.Read(p[:min(int64(len(p)), c.keep)])
			c.keep -= int64(n)
			return n, err
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// next leaves out what is to be left out, or reads a line.
func (c *boundedConn) next() error {
	if c.remove > 0 {
		n, err := io.CopyN(&c.removed, c.in, c.remove)
		if c.remove -= n; c.remove == 0 {
			c.endText()
			c.keep = int64(len("\r\n"))
		}
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return c.longLine(line)
	}
	if err != nil {
		return err
	}
	c.out = append(c.out[:0], line...)
	size, err := strconv.ParseInt(string(bytes.TrimSpace(line[1:])), 10, 64)
	switch kind := line[0]; {
	case strings.IndexByte(texts, kind) >= 0:
		c.text(kind, size, err)
	case strings.IndexByte(arrays, kind) >= 0 && (err != nil || size > maxElements):
		return errElements
	}
	return nil
}

// text begins a text of such a length.
func (c *boundedConn) text(kind byte, size int64, err error) {
	switch {
	case err != nil || size < 0: // none, or no number, which is the client's to refuse
	case size <= MaxText:
		c.keep = size + int64(len("\r\n"))
	default:
		c.beginText()
		c.out = strconv.AppendInt(append(c.out[:0], kind), MaxText, 10)
		c.out = append(c.out, "\r\n"...)
		c.keep = MaxText - digestSize
		c.remove = size - c.keep
	}
}

// longLine shortens a line that is a text itself: an error, as a rule.
func (c *boundedConn) longLine(begin []byte) error {
	c.out = append(c.out[:0], begin[:MaxText-digestSize]...)
	c.beginText()
	for {
		_, _ = c.removed.Write(begin) // it never fails
		var err error
		if begin, err = c.in.ReadSlice('\n'); err == nil {
			break
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	c.endText()
	c.out = append(c.out, "\r\n"...)
	return nil
}

func (c *boundedConn) beginText() {
	c.removed.SetSeed(digestSeed)
}

// endText adds the digest.
func (c *boundedConn) endText() {
	digits := strconv.FormatUint(c.removed.Sum64(), 16)
	c.out = append(append(c.out, "0000000000000000"[len(digits):]...), digits...)
}
