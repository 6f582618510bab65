package rig

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
)

// proxy forwards TCP connections to the API server. The link can be cut or go silent.
type proxy struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	changed sync.Cond // of state
	state   LinkState
	conns   map[net.Conn]bool
}

// LinkState is the state of the link to the API server.
type LinkState int

const (
	LinkUp     LinkState = iota
	LinkCut              // existing connections are closed, and new ones at once
	LinkSilent           // connections stay open, but no data passes
)

// NewProxy starts a proxy, which ends with the test.
func NewProxy(t *testing.T) *proxy {
	t.Helper()
	server, err := url.Parse(Sandbox.Server)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: server.Host, conns: map[net.Conn]bool{}}
	p.changed.L = &p.mu
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close(); p.Set(LinkCut) })
	go p.serve()
	return p
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		cut := p.state == LinkCut
		p.mu.Unlock()
		if cut {
			client.Close()
			server.Close()
			continue
		}
		go p.copy(client, server)
		go p.copy(server, client)
	}
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.state == LinkSilent {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Set changes the state of the link.
func (p *proxy) Set(state LinkState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	p.changed.Broadcast()
	if state == LinkCut {
		for c := range p.conns {
			c.Close()
			delete(p.conns, c)
		}
	}
}

// Client returns a connection through the proxy.
func (p *proxy) Client(t *testing.T, namespace string) *kube.Client {
	t.Helper()
	return Connect(t, namespace, func(s *cli.EnvSettings) { s.KubeAPIServer = "https://" + p.listener.Addr().String() })
}
