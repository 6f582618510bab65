package rig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway/testcluster"
)

// Trouble is an object that does not become ready, with its expected diagnosis.
type Trouble struct {
	Doc      string
	Object   string // as plan.Object prints it
	Cause    string // the whole cause, or its start followed by …
	Evidence string // part of one of the lines
}

// TroubleChart returns a chart with a group for each object, and one group that waits for all of them.
func TroubleChart(t *testing.T, all []Trouble) *charts.Chart {
	var groups, docs []string
	for i, x := range all {
		u := testcluster.Parse(t, x.Doc)[0]
		groups = append(groups, fmt.Sprintf("g%d", i))
		a := map[string]string{}
		maps.Copy(a, u.GetAnnotations())
		a[plan.AnnotationGroup] = groups[i]
		u.SetAnnotations(a)
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	return ChartOf(t, append(docs, Object("v1/Service/end", Group("end", groups...), "spec: {ports: [{port: 80}]}"))...)
}

// AssertCauses checks the cause and evidence of each trouble, in the state of its object and in a diagnosis event.
func (out Outcome) AssertCauses(t *testing.T, all []Trouble) {
	t.Helper()
	for i, x := range all {
		var o *event.ObjectState
		g := out.State.Find("apply", fmt.Sprintf("edge:g%d", i))
		for _, s := range g.Objects {
			if s.Object.String() == x.Object {
				o = s
			}
		}
		if o == nil {
			t.Errorf("%s is not in the run", x.Object)
			continue
		}
		matches := func(cause string) bool {
			head, cut := strings.CutSuffix(x.Cause, "…")
			return cause == head || cut && strings.HasPrefix(cause, head)
		}
		if !matches(o.Cause) {
			t.Errorf("%s: cause %q\nwant %q\n%q", x.Object, o.Cause, x.Cause, o.Diagnosis)
		}
		if !slices.ContainsFunc(o.Evidence, func(l string) bool { return strings.Contains(l, x.Evidence) }) {
			t.Errorf("%s: evidence %q\nlacks %q", x.Object, o.Evidence, x.Evidence)
		}
		diagnosed := slices.ContainsFunc(out.Events, func(e event.Event) bool {
			return e.Kind == event.KindDiagnosis && e.Object.String() == x.Object && matches(e.Cause) && len(e.Evidence) > 0
		})
		if !diagnosed {
			t.Errorf("%s: no diagnosis event has the cause and evidence", x.Object)
		}
	}
	if out.State.FailedObject == nil || out.State.Cause == "" {
		t.Errorf("the last event lacks the object or the cause: %v %q", out.State.FailedObject, out.State.Cause)
	}
	for _, e := range out.Events {
		if strings.Contains(e.Message+e.Cause, "this user lacks permission") {
			t.Errorf("%s %v: %s", e.Kind, e.Object, e.Message)
		}
	}
}

// Create creates objects without lockstep.
func (r *Rig) Create(docs ...string) {
	r.T.Helper()
	mapper, err := r.Client.Getter.ToRESTMapper()
	if err != nil {
		r.T.Fatal(err)
	}
	for _, u := range testcluster.Parse(r.T, strings.Join(docs, "\n---\n")) {
		m, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			r.T.Fatal(err)
		}
		client := r.Client.Dynamic.Resource(m.Resource)
		if m.Scope.Name() == "namespace" {
			_, err = client.Namespace(r.Namespace).Create(r.T.Context(), u, metav1.CreateOptions{})
		} else {
			_, err = client.Create(r.T.Context(), u, metav1.CreateOptions{})
		}
		if err != nil {
			r.T.Fatal(err)
		}
	}
}
