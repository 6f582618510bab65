// Package faultproxy provides a proxy in front of an API server. Tests use it to make single requests,
// connections or the whole server fail.
package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Options configure a Proxy. All but Kubeconfig are optional.
type Options struct {
	// Kubeconfig is the path of the kubeconfig of the API server. The proxy sends all requests as its user.
	Kubeconfig string
	// TLS serves HTTPS with HTTP/2, so that requests share a connection. Without it the proxy serves plain HTTP/1.1.
	TLS bool
	// Intercept answers a request. next forwards it to the API server.
	Intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// ModifyResponse may change the API server's responses.
	ModifyResponse func(*http.Response) error
}

// Proxy is a proxy between clients and an API server.
type Proxy struct {
	// URL is the proxy's address. It stays the same while the proxy is down.
	URL string

	server  *http.Server
	tls     *httptest.Server // only its certificate is used; nil without TLS
	address string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
}

type connKey struct{}

// New starts a proxy. The caller must close it.
func New(o Options) (*Proxy, error) {
	next, err := o.forwarder()
	if err != nil {
		return nil, err
	}
	p := &Proxy{conns: map[net.Conn]bool{}}
	handler := next
	if o.Intercept != nil {
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.Intercept(w, r, next) })
	}
	p.server = &http.Server{
		Handler:     handler,
		ErrorLog:    log.New(io.Discard, "", 0), // otherwise the server logs each reset
		ConnState:   p.track,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	scheme := "http"
	if o.TLS {
		scheme = "https"
		p.tls = httptest.NewTLSServer(http.NotFoundHandler())
		p.tls.Close()
		p.server.TLSConfig = &tls.Config{Certificates: p.tls.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	}
	p.address = "127.0.0.1:0"
	if err := p.Up(); err != nil {
		return nil, err
	}
	p.URL = scheme + "://" + p.address
	return p, nil
}

// forwarder returns the handler that forwards requests to the API server.
func (o Options) forwarder() (http.Handler, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport, ModifyResponse: o.ModifyResponse, FlushInterval: -1,
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}, nil
}

// Up serves again after Down, at the same address.
func (p *Proxy) Up() error {
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.address, p.listener = l.Addr().String(), l
	p.mu.Unlock()
	if p.tls == nil {
		go func() { _ = p.server.Serve(l) }() // it ends when the listener is closed
	} else {
		go func() { _ = p.server.ServeTLS(l, "", "") }()
	}
	return nil
}

// Down resets all connections and refuses new ones until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	l := p.listener
	p.mu.Unlock()
	_ = l.Close()
	p.Cut()
}

// Cut resets all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// Close stops the proxy and resets its connections.
func (p *Proxy) Close() {
	p.Down()
	_ = p.server.Close()
}

func (p *Proxy) track(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew:
		p.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, c)
	}
}

// Reset resets the connection of a request. This also ends the other requests on that connection.
func Reset(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		reset(c)
	}
}

// reset closes a connection without the usual shutdown, like a crash.
func reset(c net.Conn) {
	raw := c
	if t, ok := c.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = raw.Close()
}

// DropResponse forwards a request to the API server and drops the response, so the API server has executed
// a request that the client may believe to have failed. The caller decides what the client sees instead.
func DropResponse(r *http.Request, next http.Handler) { next.ServeHTTP(httptest.NewRecorder(), r) }

// WriteKubeconfig writes a kubeconfig for clients of the proxy.
func (p *Proxy) WriteKubeconfig(path, namespace string) error {
	cluster := api.NewCluster()
	cluster.Server = p.URL
	if p.tls != nil {
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.tls.Certificate().Raw})
	}
	c := api.NewConfig()
	c.Clusters["proxy"] = cluster
	c.AuthInfos["proxy"] = api.NewAuthInfo()
	c.Contexts["proxy"] = &api.Context{Cluster: "proxy", AuthInfo: "proxy", Namespace: namespace}
	c.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*c, path)
}

// Refuse answers a request like an API server that cannot serve it, with a Status object.
func Refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": message, "reason": reason, "code": code,
	})
}
