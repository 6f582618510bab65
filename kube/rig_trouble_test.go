package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// trouble is an object that does not come up, in a group of its own.
type trouble struct {
	doc      string
	object   string // as plan.Object prints it
	cause    string // the whole of it, or its beginning where it ends with …
	evidence string // part of a line
}

// inTrouble is a chart of objects that begin together, each in a group of its
// own, and of one that waits for all.
func inTrouble(t *testing.T, all []trouble) *charts.Chart {
	var groups, docs []string
	for i, x := range all {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(x.doc), &o); err != nil {
			t.Fatal(err, x.doc)
		}
		u := unstructured.Unstructured{Object: o}
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		groups = append(groups, fmt.Sprintf("g%d", i))
		a[plan.AnnotationGroup] = groups[i]
		u.SetAnnotations(a)
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	return one(t, append(docs, object("v1/Service/end", group("end", groups...), "spec: {ports: [{port: 80}]}"))...)
}

// causes checks what is told of each: the sentence, the object and the evidence, of
// the object, of its diagnosis and of its group.
func (out outcome) causes(t *testing.T, all []trouble) {
	t.Helper()
	for i, x := range all {
		var o *event.ObjectState
		g := out.state.Find("apply", fmt.Sprintf("edge:g%d", i))
		for _, s := range g.Objects {
			if s.Object.String() == x.object {
				o = s
			}
		}
		if o == nil {
			t.Errorf("%s is not in the run", x.object)
			continue
		}
		says := func(cause string) bool {
			head, cut := strings.CutSuffix(x.cause, "…")
			return cause == head || cut && strings.HasPrefix(cause, head)
		}
		if !says(o.Cause) {
			t.Errorf("%s: cause %q\nwant %q\n%q", x.object, o.Cause, x.cause, o.Diagnosis)
		}
		if !slices.ContainsFunc(o.Evidence, func(l string) bool { return strings.Contains(l, x.evidence) }) {
			t.Errorf("%s: evidence %q\nlacks %q", x.object, o.Evidence, x.evidence)
		}
		told := slices.ContainsFunc(out.events, func(e event.Event) bool {
			return e.Kind == event.KindDiagnosis && e.Object.String() == x.object && says(e.Cause) && len(e.Evidence) > 0
		})
		if !told {
			t.Errorf("%s: no diagnosis tells so", x.object)
		}
	}
	if out.state.Root == nil || out.state.Cause == "" {
		t.Errorf("the end of the run names no object and no cause: %v %q", out.state.Root, out.state.Cause)
	}
	for _, e := range out.events {
		if strings.Contains(e.Message+e.Cause, "lacks the right") {
			t.Errorf("%s %v: %s", e.Kind, e.Object, e.Message)
		}
	}
}

// create makes an object as somebody else would.
func (r *rig) create(docs ...string) {
	r.t.Helper()
	mapper, err := r.client.Getter.ToRESTMapper()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, doc := range docs {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), u); err != nil {
			r.t.Fatal(err, doc)
		}
		m, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			r.t.Fatal(err)
		}
		client := r.client.Dynamic.Resource(m.Resource)
		if m.Scope.Name() == "namespace" {
			_, err = client.Namespace(r.namespace).Create(r.t.Context(), u, metav1.CreateOptions{})
		} else {
			_, err = client.Create(r.t.Context(), u, metav1.CreateOptions{})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}
