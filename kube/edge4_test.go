package kube

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
)

// proxy is a wire to the API server that can be cut, or go dead without a word.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	moved sync.Cond
	state wire
	conns map[net.Conn]bool
}

type wire int

const (
	whole wire = iota
	cut        // connections are closed, new ones too
	dead       // connections stay, and nothing comes through
)

func newProxy(t *testing.T) *proxy {
	t.Helper()
	server, err := url.Parse(sandbox.Server)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: server.Host, conns: map[net.Conn]bool{}}
	p.moved.L = &p.mu
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close(); p.set(cut) })
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
		broken := p.state == cut
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
		for p.state == dead {
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

func (p *proxy) set(w wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = w
	p.moved.Broadcast()
	if w == cut {
		for c := range p.conns {
			c.Close()
			delete(p.conns, c)
		}
	}
}

// client is a connection through the proxy.
func (p *proxy) client(t *testing.T, namespace string) *Client {
	t.Helper()
	s := cli.New()
	s.KubeConfig, s.KubeAPIServer = sandbox.Kubeconfig, "https://"+p.listener.Addr().String()
	s.SetNamespace(namespace)
	c, err := Connect(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLostAPI loses the API server in the middle of an operation, for some
// seconds: the run ends, and the release is left failed, not pending (R34).
func TestLostAPI(t *testing.T) {
	tests := []struct {
		operation string
		wire      wire
		timeout   time.Duration
		away      time.Duration
		want      string
	}{
		{"install", cut, time.Minute, 3 * time.Second, "edge:many"},
		{"upgrade", cut, time.Minute, 2 * time.Second, "edge:many"},
		{"uninstall", cut, time.Minute, 2 * time.Second, "edge:many"},
		// Longer than requests in flight are waited for after the timeout.
		{"install", dead, 2 * time.Second, 14 * time.Second, "--timeout"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s wire %d", tt.operation, tt.wire), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := newProxy(t)
			chart := func(v string) string {
				return "{{- range $i := until 300 }}\n---\n" + strings.ReplaceAll(configMap("c-NUMBER", group("many"), "v: "+v), "NUMBER", "{{ $i }}") + "\n{{- end }}\n---\n" + configMap("after", group("after", "many"))
			}
			if tt.operation != "install" {
				r.deploy("plain", use(one(t, chart("one")), nil))
			}
			r.client = p.client(t, r.namespace)
			op, err := r.prepare(tt.operation, use(one(t, chart("two")), func(i *Install) { i.Timeout = tt.timeout }))
			if err != nil {
				t.Fatal(err)
			}
			var lost sync.Once
			start := time.Now()
			out := r.run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Group == "edge:many" && e.Change != "" {
					lost.Do(func() {
						p.set(tt.wire)
						time.AfterFunc(tt.away, func() { p.set(whole) })
					})
				}
			})
			if took := time.Since(start); took > tt.away+20*time.Second {
				t.Errorf("it took %s", took)
			}
			if out.state.Exit != 1 || !strings.Contains(out.state.Message, tt.want) {
				t.Errorf("exit %d: %.300s", out.state.Exit, out.state.Message)
			}
			if got := r.status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed: %.500s", got, out.state.Message)
			}
			if n := len(out.state.Message); n > 3000 {
				t.Errorf("the message is %d characters long: %.600s…", n, out.state.Message)
			}
		})
	}
}

// prepare prepares an operation of a name.
func (r *rig) prepare(operation string, change func(*Install)) (*Operation, error) {
	switch operation {
	case "upgrade":
		var in Install
		change(&in)
		return r.upgrade("plain", useUp(in.Chart, func(u *Upgrade) { u.Timeout = in.Timeout }))
	case "uninstall":
		return r.uninstall()
	}
	return r.install("plain", change)
}

// TestSubchartsThroughUpgradeAndRollback has the plan of an installation come
// back with each revision, from the release alone in a rollback: with an
// aliased subchart used twice, three levels of subcharts, a disabled one as a
// dependency (R4, R12, R28).
func TestSubchartsThroughUpgradeAndRollback(t *testing.T) {
	for _, chart := range []string{"alias-twice", "three-levels", "disabled-dep"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plan := func(out outcome) string {
				var text strings.Builder
				for _, g := range out.state.Phases[0].Groups {
					fmt.Fprintln(&text, g.ID, g.After, g.Group.Objects)
				}
				return text.String()
			}
			want := plan(r.deploy(chart, nil))
			op, err := r.upgrade(chart, nil)
			if got := plan(r.mustRun(op, err)); got != want {
				t.Errorf("the upgrade's plan is\n%swant\n%s", got, want)
			}
			op, err = r.rollback(1)
			if got := plan(r.mustRun(op, err)); got != want {
				t.Errorf("the rollback's plan is\n%swant\n%s", got, want)
			}
		})
	}
}
