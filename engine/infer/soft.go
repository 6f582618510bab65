package infer

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// hostRef is a host in the configuration of a workload: a Service of the release, another host, or one in a
// Secret outside the release.
type hostRef struct {
	service plan.Object
	where   string // the place that names the service: "env DB_HOST"
	host    string
	secret  plan.Object
	key     string // the entry of secret
}

// Rule R63: soft edges come from indirect evidence, such as a database that a Job and a workload share
func (r *reader) softEdges() {
	r.selectedPodEdges()
	r.credentialEdges()
	r.migrationEdges()
	r.namedPreparationEdges()
	r.secretProducerEdges()
	r.customReferenceEdges()
}

// selectedPodEdges makes workloads wait for the Services and NetworkPolicies that select their pods.
func (r *reader) selectedPodEdges() {
	for _, n := range r.nodes {
		var selected []*node
		path := "spec.selector"
		switch {
		case n.kind == service:
			if selector, _ := n.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
				selected = r.labelledWorkloads(n.name().Namespace, selector)
			}
		case n.kind == plan.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:
			path = "spec.podSelector"
			selected = r.selectedWorkloads(n.name().Namespace, n.root.At("spec", "podSelector"))
		}
		for _, w := range selected {
			if w.kind.Group != "batch" {
				r.add(w, n, Soft, Reason{In: n.name(), Path: path, By: []plan.Object{}, Text: fmt.Sprintf("%s %s selects its pods and comes first", n.name(), path)})
			}
		}
	}
}

// credentialEdges makes a Job wait for the database of its chart whose credentials it reads: the Secret alone would prove
// nothing, but a database is ready while it is still empty, and waits for no client.
func (r *reader) credentialEdges() {
	readers := map[*node][]*node{}
	for _, n := range r.nodes {
		for _, s := range r.environmentSecrets(n) {
			readers[s] = append(readers[s], n)
		}
	}
	for s, list := range readers {
		for _, j := range list {
			for _, n := range list {
				if j.kind != job || n.kind.Kind != "StatefulSet" || j.Chart != n.Chart || n.idle() || !r.isStore(n) || waitsForOthers(n) {
					continue
				}
				for _, service := range r.readyServices(n) {
					j.hosts = append(j.hosts, hostRef{service: service.name(), where: s.name().String()})
					r.add(j, n, Soft, Reason{In: s.name(), Path: "metadata.name", Value: s.name().Name, By: []plan.Object{s.name()},
						Text: fmt.Sprintf("both read %s, and %s is a database, so %s is probably its client", s.name(), n.name(), j.name())})
				}
			}
		}
	}
}

// environmentSecrets returns the Secrets that a workload reads into environment variables.
func (r *reader) environmentSecrets(n *node) []*node {
	if !n.isWorkload {
		return nil
	}
	var found []*node
	for _, ref := range n.refs {
		if to := r.byObject[ref.To]; ref.Use == refs.Environment && ref.To.Kind == "Secret" && to != nil && !slices.Contains(found, to) {
			found = append(found, to)
		}
	}
	return found
}

// readyServices returns a workload's Services, except those that also publish the addresses of pods
// that are not ready: such pods may need the Job to become ready.
func (r *reader) readyServices(n *node) []*node {
	return slices.DeleteFunc(slices.Clone(r.servicesIn[n.name().Namespace]), func(s *node) bool {
		return !slices.Contains(r.serversOf(s), n) || s.root.At("spec", "publishNotReadyAddresses").True()
	})
}

// waitsForOthers reports whether an init container of a workload says that it waits.
func waitsForOthers(n *node) bool {
	return slices.ContainsFunc(n.spec().At("initContainers").Each(), func(c refs.Field) bool {
		return strings.Contains(c.At("name").Text()+imageName(c)+command(c), "wait")
	})
}

// secretProducerEdges makes pods wait for the Certificate or ExternalSecret that creates their Secret. If they cannot start
// without the Secret, that is certain.
func (r *reader) secretProducerEdges() {
	producers := map[plan.Object]*node{}
	for _, n := range r.nodes {
		if builtinGroup(n.name().Group) || n.kind.Kind != "Certificate" && n.kind.Kind != "ExternalSecret" {
			continue
		}
		for _, at := range []refs.Field{n.root.At("spec", "secretName"), n.root.At("spec", "target", "name")} {
			if at.Text() != "" {
				producers[plan.Object{Kind: "Secret", Namespace: n.name().Namespace, Name: at.Text()}] = n
			}
		}
	}
	for _, n := range r.nodes {
		if ca := n.root.At("spec", "ca", "secretName"); !builtinGroup(n.name().Group) && ca.Text() != "" { // an Issuer
			if p := producers[plan.Object{Kind: "Secret", Namespace: n.name().Namespace, Name: ca.Text()}]; p != nil {
				r.add(n, p, Soft, Reason{Path: ca.Path, Value: ca.Text(), Text: fmt.Sprintf("%s names Secret/%s, which %s creates", ca.Path, ca.Text(), p.name())})
			}
		}
		if !n.isWorkload || len(producers) == 0 {
			continue
		}
		for _, ref := range n.refs {
			if p := producers[ref.To]; p != nil && !ref.Optional && r.byObject[ref.To] == nil {
				strength, needed := Soft, ref.Use == refs.Environment || ref.Use == refs.Volume
				if needed {
					strength = Serving
				}
				r.add(n, p, strength, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s, which %s creates", ref.Path, ref.To, p.name()), proof: needed})
			}
		}
	}
}
