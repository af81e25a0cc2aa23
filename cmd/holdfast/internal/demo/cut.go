package demo

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// wire is a network that can be cut: connections then stay open, but nothing
// comes through any more, as when a cable is pulled or a firewall drops packets.
type wire struct {
	dial connect.Dial
	cut  atomic.Bool
}

// Dial opens a connection through the wire.
func (w *wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.cut.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	conn, err := w.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

type wireConn struct {
	net.Conn
	wire *wire
}

// Write pretends to send what the cut wire swallows.
func (c *wireConn) Write(p []byte) (int, error) {
	if c.wire.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Read drops what comes while the wire is cut.
func (c *wireConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.wire.cut.Load() {
			return n, err
		}
	}
}
