package redistest

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// Firewall is between clients and servers until it forgets the connections that there are.
type Firewall struct {
	proxies map[string]*Proxy // by the server's address
	forgot  atomic.Bool
}

// NewFirewall starts a firewall before servers. The test's cleanup closes it.
func NewFirewall(t testing.TB, servers ...*Server) *Firewall {
	t.Helper()
	f := &Firewall{proxies: map[string]*Proxy{}}
	for _, s := range servers {
		f.proxies[s.Addr()] = NewProxy(t, s.Addr())
	}
	return f
}

// Dial connects to a server.
func (f *Firewall) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy := f.proxies[addr]; proxy != nil && !f.forgot.Load() {
		addr = proxy.Addr()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Forget has all connections fall silent. New ones work.
func (f *Firewall) Forget() {
	f.forgot.Store(true)
	for _, proxy := range f.proxies {
		proxy.BlackHole(Both, true)
	}
}

// Cut ends the connections that were forgotten.
func (f *Firewall) Cut() {
	for _, proxy := range f.proxies {
		proxy.Cut()
	}
}
