package dashboard

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// mostConnections is how many connections there are at once.
const mostConnections = 512

// crowd are the connections of a server. If there are too many, it closes the one that has been still for the longest: so neither connections on
// which nothing comes nor those that take their time keep others out.
type crowd struct {
	mu   sync.Mutex
	line list.List // of net.Conn; the one that has been still for the longest is first
	at   map[net.Conn]*list.Element
}

func newCrowd() *crowd { return &crowd{at: map[net.Conn]*list.Element{}} }

// note is what an [http.Server] calls when a connection changes its state. A request that is under way is no change.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.at[conn]
	switch {
	case state == http.StateNew:
		c.at[conn] = c.line.PushBack(conn)
		if c.line.Len() > mostConnections {
			oldest, _ := c.line.Front().Value.(net.Conn)
			c.remove(oldest)
			_ = oldest.Close() // its goroutine ends with the next read or write
		}
	case !known: // it was closed here
	case state == http.StateClosed, state == http.StateHijacked:
		c.remove(conn)
	default:
		c.line.MoveToBack(at)
	}
}

// remove forgets a connection. The caller holds c.mu.
func (c *crowd) remove(conn net.Conn) {
	c.line.Remove(c.at[conn])
	delete(c.at, conn)
}
