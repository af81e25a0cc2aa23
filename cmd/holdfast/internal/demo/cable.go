package demo

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// cable is a network that can be cut: connections then stay open, but nothing that is sent arrives any more, so nothing
// is answered, as when a cable is pulled or a firewall drops packets.
type cable struct {
	dial connect.Dial
	cut  atomic.Bool
}

// Dial opens a connection through the cable.
func (w *cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.cut.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	conn, err := w.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &cableConn{Conn: conn, cable: w}, nil
}

type cableConn struct {
	net.Conn
	cable *cable
}

// Write pretends to send what the cut cable swallows.
func (c *cableConn) Write(p []byte) (int, error) {
	if c.cable.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
