package order

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
	"lockstep/kube/readiness"
)

// phasedChart returns a chart with a custom resource whose controller writes a phase after a while, and a group that waits
// for it. The chart's own expressions are never true.
func phasedChart(t *testing.T, api, size string) *charts.Chart {
	crd := rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
		"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {"+
			"spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, properties: {phase: {type: string}, observedGeneration: {type: integer}}}}}}}]")
	annotations := rig.Group("a")
	annotations["sandbox/ready-after"], annotations["sandbox/status"] = "1s", `{"phase":"Up"}`
	annotations[plan.AnnotationReadinessSuccess], annotations[plan.AnnotationReadinessFailure] = `["{.phase} == Never"]`, `["{.phase} == Down"]`
	return rig.MakeChart(t, rig.Files{"crds/things.yaml": crd, "templates/all.yaml": strings.Join([]string{
		rig.Object(api+"/v1/Thing/it", annotations, "spec: {size: "+size+"}"), rig.ConfigMap("after", rig.Group("b", "a"), "size: s"+size)}, "\n---\n")})
}

func overrides(t *testing.T, value string) []kube.Readiness {
	t.Helper()
	o, err := readiness.ParseFlag(value)
	if err != nil {
		t.Fatal(err)
	}
	return []kube.Readiness{o}
}

// stateOf returns the state of an object of the last apply.
func stateOf(out rig.Outcome, group, name string) *event.ObjectState {
	for _, o := range out.State.Find(helmclient.PhaseApply, group).Objects {
		if o.Object.Name == name {
			return o
		}
	}
	return nil
}

// TestOperatorsRule: the operator's expression decides instead of the chart's, in the operation and in a later rollback to
// its revision; one that names a field that the kind does not have is refused before the first write (R22b).
func TestOperatorsRule(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	api := r.Namespace + ".example"
	install := func(rule string) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(phasedChart(t, api, "1"), func(i *kube.Deploy) { i.Readiness = overrides(t, rule) }))
	}
	assertOperators := func(out rig.Outcome) {
		t.Helper()
		if it := stateOf(out, "edge:a", "it"); it.Status != event.Ready || it.ReadyBy != event.ByOperator {
			t.Errorf("Thing/it is %s by %q: %s", it.Status, it.ReadyBy, it.Message)
		}
	}
	start := time.Now()
	_, err := install("Thing." + api + "={.phse} == Up")
	r.MustRefuse(start, err, "R22b", api+"/v1 Thing has no field .status.phse; did you mean .status.phase?")

	out := r.MustRun(install("Thing." + api + "/it={.phase} == Up; {.phase} == Down"))
	assertOperators(out)
	tl := r.Timeline("lockstep")
	after, _ := tl.FirstWrite(t, []string{"ConfigMap/after"})
	if spoke := tl.LastStatus(t, "Thing/it"); after.Before(spoke) {
		t.Errorf("after was written before the status of Thing/it")
	}
	op, err := r.Upgrade("plain", rig.UseChart(phasedChart(t, api, "2"), func(u *kube.Deploy) {
		u.Readiness = append(overrides(t, "Thing={.phase} == Up"), overrides(t, "Thng={.phase} == Up")...)
	}))
	out = r.MustRun(op, err)
	assertOperators(out)
	if !out.HasWarning("R22b", "readiness of Thng", "did you mean Thing?") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
	assertOperators(r.MustRun(r.Rollback(1)))

	// What the operator says with the rollback comes before what the record says.
	never, err := readiness.ParseNoWait("Thing/it")
	if err != nil {
		t.Fatal(err)
	}
	common := r.Common()
	common.Readiness = []kube.Readiness{never}
	out = r.MustRun(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: common, Revision: 2}))
	if it := stateOf(out, "edge:a", "it"); !it.NotAwaited() || out.State.NotAwaited != 1 {
		t.Errorf("Thing/it is %s by %q; %d objects not awaited", it.Status, it.ReadyBy, out.State.NotAwaited)
	}

	// The cause of a failure, and later views of the release, are about the operator's rule, too.
	op, err = r.Upgrade("plain", rig.UseChart(phasedChart(t, api, "3"), func(u *kube.Deploy) {
		u.Readiness, u.ReadinessTimeout = overrides(t, "Thing={.phase} == Gone; {.phase} == Lost"), 3*time.Second
	}))
	out = r.MustFail(op, err, "{.phase} == Gone")
	for _, e := range out.Events {
		if e.Kind == event.KindDiagnosis && e.Object.Kind == "Thing" && strings.Contains(e.Cause, "Never") {
			t.Errorf("cause %q", e.Cause)
		}
	}
	r.OpenView(0).Await("the operator's rule", func(s *event.State) bool {
		g := s.Find(helmclient.PhaseApply, "edge:a")
		if g == nil {
			return false
		}
		it := g.Find(plan.Object{Group: api, Kind: "Thing", Namespace: r.Namespace, Name: "it"})
		return it != nil && it.Status == event.InProgress && strings.Contains(it.Message, "{.phase} == Gone") &&
			strings.Contains(it.Cause, "{.phase} == Gone") && !strings.Contains(it.Cause, "Never")
	})
}

// TestObjectsThatAreNotAwaited: a Deployment that never becomes ready delays and fails nothing; it is shown with its state,
// never as ready, and the outcome counts it. The annotation and the flag say the same (R22b).
func TestObjectsThatAreNotAwaited(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"annotation", "name", "labels"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			annotations := rig.Group("a")
			if by == "annotation" {
				annotations[plan.AnnotationWait] = "false"
			}
			chart := rig.ChartOf(t, strings.Replace(rig.UnpullableDeployment("debug", annotations), "metadata:\n", "metadata:\n  labels: {tier: debug}\n", 1), rig.Deployment("api", rig.Group("a"), "0s"), rig.ConfigMap("after", rig.Group("b", "a")))
			op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
				if value := map[string]string{"name": "Deployment/debug", "labels": "tier=debug"}[by]; value != "" {
					o, err := readiness.ParseNoWait(value)
					if err != nil {
						t.Fatal(err)
					}
					i.Readiness = []kube.Readiness{o}
				}
			}))
			out := r.MustRun(op, err)
			for _, e := range out.Events {
				if e.Kind == event.KindObject && e.Object.Name == "debug" && e.Status == event.Ready {
					t.Errorf("debug is ready: %v", e)
				}
			}
			if out.State.NotAwaited != 1 || out.State.Outcome != "1 object not waited for" || out.State.Ending() == event.Succeeded {
				t.Errorf("%d not awaited, %q, shown as %s", out.State.NotAwaited, out.State.Outcome, out.State.Ending())
			}
			if api := stateOf(out, "edge:a", "api"); api.Status != event.Ready {
				t.Errorf("api is %s", api.Status)
			}
			r.AssertDeployed("t")
			r.OpenView(0).Await("api decides about its group", func(s *event.State) bool {
				g := s.Find(helmclient.PhaseApply, "edge:a")
				if g == nil {
					return false
				}
				debug := g.Find(plan.Object{Group: "apps", Kind: "Deployment", Namespace: r.Namespace, Name: "debug"})
				return g.Status == event.Ready && debug.NotAwaited() && !debug.Done()
			})
		})
	}
}

// TestTimeoutOfOneObject: the chart and the operator limit the wait for one object, or extend it; the failure names what sets
// the limit, and one that exceeds that of the operation is refused before the first write (R22b, R25).
func TestTimeoutOfOneObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	short := rig.Group("a")
	short[plan.AnnotationReadinessTimeout] = "1s"
	chart := rig.ChartOf(t, rig.Deployment("slow", short, "3s"), rig.ConfigMap("after", rig.Group("b", "a")))
	prepare := func(timeouts ...string) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
			i.Timeout = time.Minute
			for _, value := range timeouts {
				o, forSome, err := readiness.ParseTimeout(value)
				if err != nil || !forSome {
					t.Fatal(forSome, err)
				}
				i.Readiness = append(i.Readiness, o)
			}
		}))
	}
	_, err := prepare("Deployment/slow=2m")
	if err == nil || !strings.Contains(err.Error(), "Deployment/slow: the readiness timeout 2m0s (--readiness-timeout Deployment/slow) exceeds the timeout 1m0s") || len(r.Writes()) > 0 {
		t.Errorf("error %v, writes %v", err, r.Writes())
	}
	op, err := prepare()
	r.MustFail(op, err, "gave up after 1s (helm.sh/readiness-timeout)")
	r.MustRun(r.Uninstall())
	r.MustRun(prepare("Deployment/slow=50s"))
}
