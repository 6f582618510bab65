package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// twinSubchart is a chart with crds/ in charts/ of another one. It has no templates.
type twinSubchart struct {
	name         string
	library      bool
	crds         []int
	values       map[string]any
	dependencies []map[string]any // its own, in Chart.yaml
	subcharts    []twinSubchart
}

// subchart creates a chart with subcharts down to a depth. Conditions, tags and values disable some of them, and aliases
// rename or repeat some. Several charts may have the same CRD.
func (m generator) subchart(name string, depth int) twinSubchart {
	s := twinSubchart{name: name, library: m.chance(15), values: map[string]any{"global": map[string]any{"on": m.chance(70)},
		"tags": map[string]any{"t": m.chance(50), "u": m.chance(50)}, "other": map[string]any{"on": m.chance(50)}}}
	for range 1 + m.IntN(2) {
		s.crds = append(s.crds, m.IntN(5))
	}
	if depth == 0 {
		return s
	}
	for n := range m.IntN(4) {
		sub := fmt.Sprintf("s%d", n)
		s.subcharts = append(s.subcharts, m.subchart(sub, depth-1))
		if m.chance(60) {
			s.values[sub] = map[string]any{"on": m.chance(50)}
		}
		if m.chance(10) { // not declared: always enabled
			continue
		}
		for i := range 1 + m.IntN(5)/4 {
			d := map[string]any{"name": sub, "version": "0.1.0", "tags": list(pickSome(m, "t", "u")),
				"condition": pick(m, "", sub+".on", "global.on", "other.on,"+sub+".on", "missing.on,global.on")}
			if i > 0 || m.chance(25) {
				d["alias"] = fmt.Sprintf("%s-alias%d", sub, i)
			}
			s.dependencies = append(s.dependencies, d)
		}
	}
	return s
}

// files returns the files of the chart in a folder. The CRDs belong to a namespace, because they have none.
func (s twinSubchart) files(dir, namespace string) (map[string]string, error) {
	meta := map[string]any{"apiVersion": "v2", "name": s.name, "version": "0.1.0", "dependencies": s.dependencies}
	if s.library && dir != "" {
		meta["type"] = "library"
	}
	out := map[string]string{}
	for file, content := range map[string]any{"Chart.yaml": meta, "values.yaml": s.values} {
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		out[dir+file] = string(text)
	}
	for n, crd := range s.crds {
		out[fmt.Sprintf("%scrds/%d.yaml", dir, n)] = fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: k%[1]ds.%[2]s.example.com, labels: {from: %[3]q}}
spec:
  group: %[2]s.example.com
  scope: Namespaced
  names: {kind: K%[1]d, listKind: K%[1]dList, plural: k%[1]ds, singular: k%[1]d}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, crd, namespace, strings.Trim(strings.ReplaceAll("root/"+dir, "/", "."), "."))
	}
	for _, sub := range s.subcharts {
		inner, err := sub.files(dir+"charts/"+sub.name+"/", namespace)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, inner)
	}
	return out, nil
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crdsOf returns the CRDs that belong to a namespace, by the first part of their names.
func crdsOf(ctx context.Context, namespace string) (map[string]unstructured.Unstructured, error) {
	list, err := admin.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]unstructured.Unstructured{}
	for _, crd := range list.Items {
		if name, found := strings.CutSuffix(crd.GetName(), "."+namespace+".example.com"); found {
			out[name] = crd
		}
	}
	return out, nil
}

// crdDifferences returns the differences between the CRDs that lockstep and Helm have created. Neither ever deletes one.
func (l *twinRelease) crdDifferences() (wrong []string) {
	ours, err := crdsOf(context.Background(), l.ours)
	l.harness.check(err)
	helms, err := crdsOf(context.Background(), l.helms)
	l.harness.check(err)
	if a, b := slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(helms)); !slices.Equal(a, b) {
		return []string{fmt.Sprintf("the CRDs are %q, with helm %q", a, b)}
	}
	comparable := func(crd unstructured.Unstructured, namespace string) map[string]any {
		return normalize(map[string]any{"labels": crd.GetLabels(), "annotations": crd.GetAnnotations(), "spec": crd.Object["spec"]}, namespace)
	}
	for name, crd := range ours {
		wrong = append(wrong, differences("CustomResourceDefinition/"+name, comparable(crd, l.ours), comparable(helms[name], l.helms))...)
	}
	return wrong
}

// deleteCRDs deletes the CRDs of both namespaces, so that the cluster does not collect those of all trials.
func (l *twinRelease) deleteCRDs() {
	for _, namespace := range []string{l.ours, l.helms} {
		crds, err := crdsOf(context.Background(), namespace)
		l.harness.check(err)
		for _, crd := range crds {
			l.harness.check(admin.Resource(crdResource).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}))
		}
	}
}
