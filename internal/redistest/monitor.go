package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Monitor tells each command that the server runs, as MONITOR says it, until the context ends. What is run while a fault has
// ended the connection, and another one is made, is not told. The server has neither a password nor TLS.
func (s *Server) Monitor(ctx context.Context, tell func(line string)) {
	for ctx.Err() == nil {
		if conn, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
			forget := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, _ = fmt.Fprint(conn, "MONITOR\r\n")
			lines := bufio.NewScanner(conn)
			lines.Buffer(nil, 1<<20) // scripts are sent, too
			for lines.Scan() {
				tell(strings.TrimPrefix(lines.Text(), "+"))
			}
			forget()
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}
