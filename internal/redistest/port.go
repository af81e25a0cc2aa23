package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Servers listen on ports from firstPort up to but not including lastPort. A
// cluster node also listens on its port plus busOffset. Both ranges are below
// the ports that Linux and macOS give to outgoing connections, so that no
// client takes a server's port between Kill and Restart.
const (
	firstPort = 10000
	lastPort  = 20000
	busOffset = 10000
)

var (
	portMu   sync.Mutex
	portUsed = map[int]bool{}
)

// freePort picks a port that nothing listens on, nor on its cluster bus port,
// and keeps it from being picked again until releasePort. Another program may
// still take it before it is bound.
func freePort() (int, error) {
	portMu.Lock()
	defer portMu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !portUsed[port] && bindable(port) && bindable(port+busOffset) {
			portUsed[port] = true
			return port, nil
		}
	}
	return 0, errors.New("no free port found")
}

func releasePort(port int) {
	portMu.Lock()
	defer portMu.Unlock()
	delete(portUsed, port)
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
