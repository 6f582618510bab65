//go:build unix

package signaltest

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// holding stands before the API server and holds back the first request that it
// is told to.
type holding struct {
	to     http.Handler
	holds  func(method, path string) bool // nil for none
	passes bool
	once   sync.Once
	held   chan struct{} // closed when there is one
	go_    chan struct{} // closed when it may go on
	free   sync.Once
}

func (h *holding) letGo() { h.free.Do(func() { close(h.go_) }) }

func (h *holding) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h.holds != nil && h.holds(req.Method, req.URL.Path) {
		first := false
		h.once.Do(func() { first = true })
		if first {
			close(h.held)
		}
		if first && !h.passes {
			select {
			case <-h.go_:
			case <-req.Context().Done():
				return
			}
		}
	}
	h.to.ServeHTTP(w, req)
}

// serve starts the servers of a case, which end with ctx, and writes the
// kubeconfig that leads to them.
func (r *run) serve(ctx context.Context) error {
	transport, err := rest.TransportFor(r.config)
	if err != nil {
		return err
	}
	to, err := url.Parse(r.config.Host)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }} // who asked has gone
	r.api = &holding{to: proxy, holds: r.Phase.holds, passes: r.Phase.passes, held: make(chan struct{}), go_: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r.api}
	go func() { _ = server.Serve(l) }() // until it is closed
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.called, r.deafURL = make(chan struct{}), "http://"+deaf.Addr().String()
	go func() {
		if c, err := deaf.Accept(); err == nil {
			close(r.called)
			<-ctx.Done()
			_ = c.Close()
		}
	}()
	context.AfterFunc(ctx, func() {
		_ = server.Close()
		_ = deaf.Close()
	})
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "http://" + l.Addr().String()}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	return clientcmd.WriteToFile(*config, filepath.Join(r.Dir, "kubeconfig"))
}

// resources is a chart whose values say how long its parts take.
const resources = `{{- if .Values.spin }}{{ $_ := lookup "v1" "ConfigMap" .Release.Namespace "reached" }}{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: first
  annotations: {helm.sh/resource-group: first}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: slow
  annotations: {helm.sh/resource-group: slow, helm.sh/depends-on/resource-groups: '["first"]'}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata:
      labels: {app: slow}
      annotations: {sandbox/ready-delay: {{ .Values.delay }}}
    spec: {containers: [{name: main, image: example/app:1.0}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  annotations: {helm.sh/resource-group: last, helm.sh/depends-on/resource-groups: '["slow"]'}
{{- if .Values.fail }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: failing
  annotations: {helm.sh/resource-group: slow, helm.sh/depends-on/resource-groups: '["first"]'}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {sandbox/exit-code: "1", sandbox/run-duration: 0s}
    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}
{{- end }}
{{- if .Values.hook }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    metadata:
      annotations: {sandbox/run-duration: {{ .Values.delay }}}
    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}
{{- end }}
`

func writeChart(dir string) (string, error) {
	return dir, writeFiles(dir, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: phases\nversion: 1.0.0\n", "templates/resources.yaml": resources,
	})
}

// dependent is a chart with a dependency that never comes.
func (r *run) dependent() string {
	dir := filepath.Join(r.Dir, "dependent")
	err := writeFiles(dir, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: dependent\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, repository: '" + r.deafURL + "'}]\n",
	})
	if err != nil {
		panic(err) // the folder is the test's own
	}
	return dir
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
