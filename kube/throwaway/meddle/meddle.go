// Package meddle provides a proxy in front of an API server, with which tests can make
// single requests, connections or the whole server fail.
package meddle

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
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

// Options configure a Front. All but Kubeconfig are optional.
type Options struct {
	// Kubeconfig is the path of the kubeconfig of the API server; all requests are made by its user.
	Kubeconfig string
	// TLS serves HTTPS with HTTP/2, so that requests share a connection. Without it the front serves plain HTTP/1.1.
	TLS bool
	// Meddle answers a request, most often with onward, which forwards it to the API server.
	Meddle func(w http.ResponseWriter, r *http.Request, onward http.Handler)
	// Amend may change the API server's responses.
	Amend func(*http.Response) error
}

// Front is a proxy between clients and an API server.
type Front struct {
	// URL is the front's address. It stays the same while the front is down.
	URL string

	server  *http.Server
	tls     *httptest.Server // only its certificate is used; nil without TLS
	address string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
}

type connKey struct{}

// New starts a front. The caller must close it.
func New(o Options) (*Front, error) {
	onward, err := o.onward()
	if err != nil {
		return nil, err
	}
	f := &Front{conns: map[net.Conn]bool{}}
	handler := onward
	if o.Meddle != nil {
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.Meddle(w, r, onward) })
	}
	f.server = &http.Server{
		Handler:     handler,
		ErrorLog:    log.New(io.Discard, "", 0), // it would log the resets
		ConnState:   f.track,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	f.URL = "http"
	if o.TLS {
		f.URL = "https"
		f.tls = httptest.NewTLSServer(http.NotFoundHandler())
		f.tls.Close()
		f.server.TLSConfig = &tls.Config{Certificates: f.tls.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	}
	f.address = "127.0.0.1:0"
	if err := f.Up(); err != nil {
		return nil, err
	}
	f.URL += "://" + f.address
	return f, nil
}

func (o Options) onward() (http.Handler, error) {
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
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(server) },
		Transport: transport, ModifyResponse: o.Amend, FlushInterval: -1,
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}, nil
}

// Up serves again, at the same address as before.
func (f *Front) Up() error {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	f.mu.Lock()
	f.address, f.listener = l.Addr().String(), l
	f.mu.Unlock()
	if f.tls == nil {
		go func() { _ = f.server.Serve(l) }() // it ends when the listener is closed
	} else {
		go func() { _ = f.server.ServeTLS(l, "", "") }()
	}
	return nil
}

// Down resets all connections and refuses new ones, until Up.
func (f *Front) Down() {
	f.mu.Lock()
	l := f.listener
	f.mu.Unlock()
	_ = l.Close()
	f.Cut()
}

// Cut resets all connections. New ones are accepted.
func (f *Front) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		reset(c)
	}
}

// Close ends the front and all its connections.
func (f *Front) Close() {
	f.Down()
	_ = f.server.Close()
}

func (f *Front) track(c net.Conn, s http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch s {
	case http.StateNew:
		f.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(f.conns, c)
	}
}

// Reset resets the connection of a request, and so ends all other requests on that connection too.
func Reset(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		reset(c)
	}
}

// reset closes a connection as a crash does, without a proper end.
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

// Swallow forwards a request to the API server and drops the response: the request was
// carried out, but the client does not learn that.
func Swallow(r *http.Request, onward http.Handler) { onward.ServeHTTP(httptest.NewRecorder(), r) }

// WriteKubeconfig writes a kubeconfig for clients of the front.
func (f *Front) WriteKubeconfig(path, namespace string) error {
	cluster := api.NewCluster()
	cluster.Server = f.URL
	if f.tls != nil {
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.tls.Certificate().Raw})
	}
	c := api.NewConfig()
	c.Clusters["front"] = cluster
	c.AuthInfos["front"] = api.NewAuthInfo()
	c.Contexts["front"] = &api.Context{Cluster: "front", AuthInfo: "front", Namespace: namespace}
	c.CurrentContext = "front"
	return clientcmd.WriteToFile(*c, path)
}

// Refuse answers as the API server does when it cannot serve a request: with a Status
// object that has the code, reason and message.
func Refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": message, "reason": reason, "code": code,
	})
}
