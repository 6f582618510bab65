package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// crdUse is what an operation does with crds/ of a chart.
type crdUse struct {
	chart   *charts.Chart // nil: nothing
	upgrade bool          // also change those that are in the cluster
	force   bool          // take fields over from their owners
}

// docs are the objects in crds/ that the operation has to do with.
func (u crdUse) docs() ([]charts.Document, error) {
	if u.chart == nil {
		return nil, nil
	}
	h, err := u.chart.Helm()
	if err != nil {
		return nil, err
	}
	return charts.CRDs(h)
}

// crdPhase is the phase of crds/, if there is anything in it.
func crdPhase(u crdUse) ([]event.Phase, error) {
	docs, err := u.docs()
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	var objects []plan.Object
	for _, r := range charts.Resources(docs, "", charts.OfflineScope(docs...)) {
		objects = append(objects, r.Object)
	}
	return []event.Phase{{Name: phaseCRDs, Kind: event.PhaseCRDs, Groups: []*plan.Group{oneGroup("crds/", u.chart.Name()+":crds/", objects...)}}}, nil
}

// buildCRDs makes the Infos of crds/.
func (p *pass) buildCRDs(u crdUse) (helmkube.ResourceList, error) {
	docs, err := u.docs()
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	var text strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", d.Source, d.Raw)
	}
	list, _, err := p.ord.builder.build(text.String())
	return list, err
}

// applyCRDs runs the phase of crds/. What is there already is left as it is, as
// Helm does, or brought to what the chart has. Afterwards the cluster's kinds
// are looked up anew.
func (p *pass) applyCRDs(u crdUse) error {
	phases, err := crdPhase(u)
	if err != nil || len(phases) == 0 {
		return err
	}
	list, err := p.buildCRDs(u)
	if err != nil {
		return err
	}
	p.ord.client.lookAhead(p.ord.requests(), p.ord.builder, list)
	forget(list)
	p.begun = true
	err = p.runPrelude(phases[0], list, func(i *resource.Info) error {
		f := p.ord.builder.fact(i)
		switch {
		case !f.known || f.before == "":
			_, err := p.ord.Client.Create(helmkube.ResourceList{i})
			return err
		case !u.upgrade:
			return i.Get()
		}
		_, err := p.ord.Client.Update(nil, helmkube.ResourceList{i},
			helmkube.ClientUpdateOptionServerSideApply(true, u.force), helmkube.ClientUpdateOptionUpgradeClientSideFieldManager(true))
		return err
	})
	if err != nil {
		return err
	}
	return p.forgetKinds()
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// checkCRDs refuses an upgrade of crds/ that would take away a version in which
// objects may be stored: the API server could not read them any more.
func (p *pass) checkCRDs(ctx context.Context, u crdUse) error {
	if !u.upgrade {
		return nil
	}
	docs, err := u.docs()
	if err != nil {
		return err
	}
	for _, d := range docs {
		if d.Object.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		live, err := p.ord.client.dynamic.Resource(crdResource).Get(ctx, d.Object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: look at CustomResourceDefinition/%s: %w", d.Source, d.Object.GetName(), err)
		}
		if lost := lostVersions(live, d.Object); len(lost) > 0 {
			return fmt.Errorf("%s: CustomResourceDefinition/%s would lose version %s, in which objects are stored (status.storedVersions): keep it in the chart with served: false, or migrate the objects and take it out of status.storedVersions first",
				d.Source, d.Object.GetName(), strings.Join(lost, ", "))
		}
	}
	return nil
}

var crdKind = schema.GroupKind{Group: crdResource.Group, Kind: "CustomResourceDefinition"}

// lostVersions are the versions in which objects of the live CRD may be stored
// and which the new one does not have.
func lostVersions(live, next *unstructured.Unstructured) []string {
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(next.Object, "spec", "versions")
	var have []string
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			name, _ := m["name"].(string)
			have = append(have, name)
		}
	}
	return slices.DeleteFunc(stored, func(v string) bool { return slices.Contains(have, v) })
}
