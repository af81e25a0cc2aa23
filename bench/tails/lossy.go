package tails

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// lossy makes connections on which what the server says can be lost, while what is said to it arrives:
// of those that have subscribed to something, or of all.
type lossy struct {
	all bool
	on  atomic.Bool
}

func (d *lossy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, lossy: d}, nil
}

type lossyConn struct {
	net.Conn

	lossy      *lossy
	subscribed atomic.Bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToUpper(b[:min(len(b), 64)]), []byte("SUBSCRIBE\r\n")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.lossy.on.Load() || !c.lossy.all && !c.subscribed.Load() {
			return n, err
		}
	}
}
