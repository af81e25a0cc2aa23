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
//
// Nor does another test process: each has blocks of ports to itself. Who listens
// on the first port of a block has the block, until the process ends.
const (
	firstPort = 10000
	lastPort  = 20000
	blockSize = 100
	busOffset = 10000
)

var ports = struct {
	sync.Mutex

	blocks []net.Listener // what keeps the blocks of this process
	free   []int          // those of its ports that no server has
	used   map[int]bool   // the others
}{used: map[int]bool{}}

// freePort picks a port that nothing listens on, nor on its cluster bus port,
// and keeps it from being picked again until releasePort. A program that knows
// nothing of blocks may still take it before it is bound.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for {
		rand.Shuffle(len(ports.free), func(i, j int) { ports.free[i], ports.free[j] = ports.free[j], ports.free[i] })
		for i, port := range ports.free {
			if bindable(port) && bindable(port+busOffset) {
				ports.free = append(ports.free[:i], ports.free[i+1:]...)
				ports.used[port] = true
				return port, nil
			}
		}
		if err := claimBlock(); err != nil {
			return 0, err
		}
	}
}

// claimBlock adds the ports of a block that nobody has. The caller holds ports.
func claimBlock() error {
	for _, n := range rand.Perm((lastPort - firstPort) / blockSize) {
		first := firstPort + n*blockSize
		keeper, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue // another process has it, or this one
		}
		ports.blocks = append(ports.blocks, keeper)
		for port := first + 1; port < first+blockSize; port++ {
			ports.free = append(ports.free, port)
		}
		return nil
	}
	return errors.New("no free port found")
}

func releasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	if ports.used[port] {
		delete(ports.used, port)
		ports.free = append(ports.free, port)
	}
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
