package bench

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// delayProxy is a proxy that delays all data, as if the server were far away. It does not limit the throughput.
type delayProxy struct {
	address   string // of the server
	roundTrip time.Duration
	listener  net.Listener
	mu        sync.Mutex
	conns     []net.Conn
}

// newDelayProxy starts a proxy to the server at an address.
func newDelayProxy(address string, roundTrip time.Duration) (*delayProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayProxy{address: address, roundTrip: roundTrip, listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go d.connect(client)
		}
	}()
	return d, nil
}

// connect connects a client to the server after one round trip, like a TCP handshake.
func (d *delayProxy) connect(client net.Conn) {
	time.Sleep(d.roundTrip)
	server, err := net.Dial("tcp", d.address)
	if err != nil {
		_ = client.Close()
		return
	}
	d.mu.Lock()
	d.conns = append(d.conns, client, server)
	d.mu.Unlock()
	go d.forward(server, client)
	d.forward(client, server)
}

// packet is the data of one read, and when it arrives.
type packet struct {
	data []byte
	at   time.Time
}

// forward copies one direction with a delay of half a round trip, then closes both ends.
func (d *delayProxy) forward(to, from net.Conn) {
	wire := make(chan packet, 1<<16)
	go func() {
		defer close(wire)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				wire <- packet{buf[:n], time.Now().Add(d.roundTrip / 2)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range wire {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
}

// Close closes all connections.
func (d *delayProxy) Close() {
	_ = d.listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// delayedKubeconfig starts a proxy to the cluster and writes a kubeconfig for it. The caller closes the proxy.
func (b *benchmark) delayedKubeconfig(roundTrip time.Duration) (path string, d *delayProxy, err error) {
	config, err := clientcmd.LoadFromFile(b.cluster.Kubeconfig)
	if err != nil {
		return "", nil, err
	}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return "", nil, err
		}
		if d != nil {
			return "", nil, errors.New("the kubeconfig has more than one cluster")
		}
		if d, err = newDelayProxy(server.Host, roundTrip); err != nil {
			return "", nil, err
		}
		server.Host = d.listener.Addr().String()
		cluster.Server = server.String()
	}
	path = filepath.Join(b.dir, "kubeconfig-away")
	return path, d, clientcmd.WriteToFile(*config, path)
}

// TestDelayProxy sends two requests through the proxy: on a new connection, and on the same one again.
func TestDelayProxy(t *testing.T) {
	const roundTrip = 100 * time.Millisecond
	body := bytes.Repeat([]byte("x"), 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	defer server.Close()
	d, err := newDelayProxy(server.Listener.Addr().String(), roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, least := range []time.Duration{2 * roundTrip, roundTrip} {
		start := time.Now()
		response, err := client.Get("http://" + d.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if took := time.Since(start); err != nil || !bytes.Equal(got, body) || took < least {
			t.Errorf("%d bytes after %v (%v), want at least %v", len(got), took, err, least)
		}
	}
}
