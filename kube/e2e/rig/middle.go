package rig

import (
	"net/http"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/kube/throwaway/faultproxy"
)

// Middle is a proxy between a client and the API server. Intercept returns true if it has answered a
// request itself. ModifyResponse may change the API server's response.
type Middle struct {
	Intercept      func(http.ResponseWriter, *http.Request) bool
	ModifyResponse func(*http.Response) error
}

// Through returns a connection through a middle, for the given user, or for "" the cluster's administrator.
func (r *Rig) Through(m Middle, user string) *kube.Client {
	r.T.Helper()
	o := faultproxy.Options{Kubeconfig: Sandbox.Kubeconfig, ModifyResponse: m.ModifyResponse}
	if m.Intercept != nil {
		o.Intercept = func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if !m.Intercept(w, req) {
				next.ServeHTTP(w, req)
			}
		}
	}
	front, err := faultproxy.New(o)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(front.Close)
	return Connected(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeAPIServer, s.KubeAsUser = front.URL, user })
}

// Broken answers like an API server with an internal error.
func Broken(w http.ResponseWriter) bool {
	faultproxy.Refuse(w, http.StatusInternalServerError, "InternalError", "made to fail")
	return true
}
