package session

import (
	"encoding/json"

	"lockstep/engine/event"
	"lockstep/kube/helmclient"
	"lockstep/kube/planfile"
)

// Digest identifies the plan: the release and its revision, what is sent, how, and in which order. Every process that plans the
// same operation on the same revision gets the same digest. It takes about 0.1 s: the manifests may contain secret values, and
// whoever reads the digest could guess short ones (planfile.Slow).
func (p *Prepared) Digest() (string, error) {
	last := 0
	if p.Last != nil {
		last = p.Last.Version
	}
	var hooks, crds []string
	manifest := ""
	if r := p.Target.Release; r != nil {
		manifest = r.Manifest
		for _, h := range r.Hooks {
			hooks = append(hooks, h.Path, h.Manifest)
		}
	}
	for _, d := range p.Target.CRDs.Docs {
		crds = append(crds, d.Source, d.Raw)
	}
	name := []string{p.Info.Name, p.Common.Namespace, p.Common.Release}
	content, err := json.Marshal(struct {
		Operation      []string
		Last, Revision int
		Chart          string
		Manifest       string
		Hooks, CRDs    []string
		Phases         []event.Phase
		Method         helmclient.Method
		Removed        string
	}{name, last, p.Info.Revision, p.Info.Chart, manifest, hooks, crds, p.Phases, p.Target.Method, p.Old.Manifest()})
	if err != nil {
		return "", err
	}
	salt, err := json.Marshal(name)
	if err != nil {
		return "", err
	}
	return planfile.Slow(salt, content), nil
}
