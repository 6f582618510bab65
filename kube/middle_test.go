package kube

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"helm.sh/helm/v4/pkg/cli"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// middle stands between a client and the API server. Where meddle answers a
// request itself it returns true; amend may change the API server's answer.
type middle struct {
	meddle func(http.ResponseWriter, *http.Request) bool
	amend  func(*http.Response) error
}

// through is a connection by way of a middle, for the given user, the cluster's
// administrator where that is "".
func (r *rig) through(m middle, user string) *Client {
	r.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", sandbox.Kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		r.t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	onward := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(server) },
		Transport: transport, ModifyResponse: m.amend, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if m.meddle == nil || !m.meddle(w, req) {
			onward.ServeHTTP(w, req)
		}
	}))
	r.t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	s := cli.New()
	s.KubeConfig, s.KubeAPIServer, s.KubeAsUser = sandbox.Kubeconfig, front.URL, user
	s.SetNamespace(r.namespace)
	c, err := Connect(s, nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// broken answers as an API server that has an internal error.
func broken(w http.ResponseWriter) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"made to fail","reason":"InternalError","code":500}`))
	return true
}
