package kube

import (
	"net/http"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube/throwaway/meddle"
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
	o := meddle.Options{Kubeconfig: sandbox.Kubeconfig, Amend: m.amend}
	if m.meddle != nil {
		o.Meddle = func(w http.ResponseWriter, req *http.Request, onward http.Handler) {
			if !m.meddle(w, req) {
				onward.ServeHTTP(w, req)
			}
		}
	}
	front, err := meddle.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(front.Close)
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
	meddle.Refuse(w, http.StatusInternalServerError, "InternalError", "made to fail")
	return true
}
