package rig

import (
	"net/http"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/kube/throwaway/meddle"
)

// Middle is a proxy between a client and the API server. meddle returns true if it has
// answered a request itself; amend may change the API server's answer.
type Middle struct {
	Meddle func(http.ResponseWriter, *http.Request) bool
	Amend  func(*http.Response) error
}

// Through returns a connection through a middle, for the given user, or for "" the cluster's administrator.
func (r *Rig) Through(m Middle, user string) *kube.Client {
	r.T.Helper()
	o := meddle.Options{Kubeconfig: Sandbox.Kubeconfig, Amend: m.Amend}
	if m.Meddle != nil {
		o.Meddle = func(w http.ResponseWriter, req *http.Request, onward http.Handler) {
			if !m.Meddle(w, req) {
				onward.ServeHTTP(w, req)
			}
		}
	}
	front, err := meddle.New(o)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(front.Close)
	return Connected(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeAPIServer, s.KubeAsUser = front.URL, user })
}

// Broken answers like an API server with an internal error.
func Broken(w http.ResponseWriter) bool {
	meddle.Refuse(w, http.StatusInternalServerError, "InternalError", "made to fail")
	return true
}
