package rig

import (
	"net/http"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/kube/throwaway/faultproxy"
)

// Interceptor changes the traffic between a client and the API server. Intercept returns true if it has answered the
// request itself. ModifyResponse may change the API server's response. Both may be nil.
type Interceptor struct {
	Intercept      func(http.ResponseWriter, *http.Request) bool
	ModifyResponse func(*http.Response) error
}

// ConnectThrough returns a connection through an interceptor, as the given user, or as the administrator if that is "".
func (r *Rig) ConnectThrough(i Interceptor, user string) *kube.Client {
	r.T.Helper()
	o := faultproxy.Options{Kubeconfig: Sandbox.Kubeconfig, ModifyResponse: i.ModifyResponse}
	if i.Intercept != nil {
		o.Intercept = func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if !i.Intercept(w, req) {
				next.ServeHTTP(w, req)
			}
		}
	}
	proxy, err := faultproxy.New(o)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(proxy.Close)
	return Connect(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeAPIServer, s.KubeAsUser = proxy.URL, user })
}

// InternalError answers with an internal error. It returns true, as Intercept does for an answered request.
func InternalError(w http.ResponseWriter) bool {
	faultproxy.Refuse(w, http.StatusInternalServerError, "InternalError", "made to fail")
	return true
}
