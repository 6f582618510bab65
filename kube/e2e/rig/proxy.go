package rig

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
)

// proxy is a connection to the API server that can be cut or become silent.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	moved sync.Cond
	state Wire
	conns map[net.Conn]bool
}

type Wire int

const (
	Whole Wire = iota
	Cut        // connections are closed, new ones too
	Dead       // connections stay, and nothing comes through
)

func NewProxy(t *testing.T) *proxy {
	t.Helper()
	server, err := url.Parse(Sandbox.Server)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: server.Host, conns: map[net.Conn]bool{}}
	p.moved.L = &p.mu
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close(); p.Set(Cut) })
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
		broken := p.state == Cut
		p.mu.Unlock()
		if broken {
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
		for p.state == Dead {
			p.moved.Wait()
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

func (p *proxy) Set(w Wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = w
	p.moved.Broadcast()
	if w == Cut {
		for c := range p.conns {
			c.Close()
			delete(p.conns, c)
		}
	}
}

// Client returns a connection through the proxy.
func (p *proxy) Client(t *testing.T, namespace string) *kube.Client {
	t.Helper()
	return Connected(t, namespace, func(s *cli.EnvSettings) { s.KubeAPIServer = "https://" + p.listener.Addr().String() })
}
