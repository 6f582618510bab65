package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// sweptChart has a hook, Job/work, before the turn of subchart db, which comes
// after subchart base. It fails where its exit code is not 0; the group after
// it takes forever.
func sweptChart(policy, duration, exit string) files {
	hook := job("work", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", plan.AnnotationHookScope: plan.HookScopeSubchart, "helm.sh/hook-delete-policy": policy}, duration, "  backoffLimit: 0")
	return files{
		"Chart.yaml":                    "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: base, version: 1.0.0}\n- {name: db, version: 1.0.0, depends-on: [base]}\n",
		"charts/base/Chart.yaml":        "apiVersion: v2\nname: base\nversion: 1.0.0\n",
		"charts/base/templates/all.yml": deployment("base", nil, "300ms"),
		"charts/db/Chart.yaml":          "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/hook.yml":  strings.Replace(hook, "sandbox/run-duration: "+duration, "sandbox/run-duration: "+duration+`, sandbox/exit-code: "`+exit+`"`, 1),
		"charts/db/templates/all.yml": strings.Join([]string{strings.ReplaceAll(deployment("db", group("one"), "0s"), "example/app:1.0", "example/no-such-image:1"),
			configMap("after", group("two", "one"))}, "\n---\n"),
	}
}

// TestScopedHookIsSwept ends a run before, in and after a hook in the plan: one
// that is cut short is deleted, since it would run on; one that has run goes or
// stays by its delete policy; one whose turn has not come is left alone, also
// where an earlier revision has left it (R29, R43).
func TestScopedHookIsSwept(t *testing.T) {
	const created, succeeded, failed = "before-hook-creation", "hook-succeeded", "hook-failed"
	ends := map[string]struct {
		duration, exit string
		abortAt        string   // the group whose start aborts the run
		stays          []string // the policies by which the Job is left
	}{
		"abort in the hook":   {duration: "60s", exit: "0", abortAt: "pre-install:Job/work"},
		"abort after it":      {duration: "100ms", exit: "0", abortAt: "edge/db:one", stays: []string{created, failed}},
		"the hook fails":      {duration: "100ms", exit: "1", stays: []string{created, succeeded}},
		"a later group fails": {duration: "100ms", exit: "0", stays: []string{created, failed}},
	}
	for name, end := range ends {
		for _, policy := range []string{created, succeeded, failed} {
			t.Run(name+" "+policy, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				op, err := r.install("plain", use(makeChart(t, sweptChart(policy, end.duration, end.exit)), func(i *Install) { i.ReadinessTimeout = 3 * time.Second }))
				if err != nil {
					t.Fatal(err)
				}
				out := r.run(op, r.abortAt(op, end.abortAt))
				if want := map[bool]int{true: 3, false: 1}[end.abortAt != ""]; out.state.Exit != want || r.status() != rcommon.StatusFailed {
					t.Errorf("exit %d, the release is %q: %s", out.state.Exit, r.status(), out.state.Message)
				}
				want := []string(nil)
				if slices.Contains(end.stays, policy) {
					want = []string{"work"}
				}
				if got := r.jobs(); !slices.Equal(got, want) {
					t.Errorf("left are Jobs %v, want %v", got, want)
				}
				if n := r.timelineOf("jobs", "work"); n != 2-len(want) {
					t.Errorf("%d writes to the Job, want it created and, unless it stays, deleted", n)
				}
			})
		}
	}
}

// abortAt aborts a run as soon as a Job of a group runs, or the group does.
func (r *rig) abortAt(op *Operation, group string) func(event.Event) {
	once := false
	return func(e event.Event) {
		job := e.Kind == event.KindObject && e.Object.Kind == "Job" && e.Status == event.InProgress
		if once || e.Group != group || !job && (strings.Contains(group, "Job/") || e.Kind != event.KindGroup || e.Status != event.Running) {
			return
		}
		once = true
		op.Command(event.Command{Name: event.Abort})
	}
}

// TestScopedHookOfAnEarlierRevision is left alone by a run that ends before its
// turn.
func TestScopedHookOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(image string) files {
		fs := sweptChart("before-hook-creation", "100ms", "0")
		fs["charts/db/templates/all.yml"] = configMap("db", nil)
		fs["charts/base/templates/all.yml"] = strings.ReplaceAll(fs["charts/base/templates/all.yml"], "example/app:1.0", image)
		return fs
	}
	r.deploy("plain", use(makeChart(t, chart("example/app:1.0")), nil))
	start := time.Now()
	op, err := r.upgrade("plain", useUp(makeChart(t, chart("example/no-such-image:1")), func(u *Upgrade) { u.ReadinessTimeout = 2 * time.Second }))
	r.mustFail(op, err, "Deployment/base", "never started: pre-upgrade:Job/work")
	if got := r.jobs(); !slices.Equal(got, []string{"work"}) {
		t.Errorf("left are Jobs %v", got)
	}
	if w := slices.DeleteFunc(r.writesOf(start), func(s string) bool { return !strings.Contains(s, "jobs/") }); len(w) > 0 {
		t.Errorf("wrote %v", w)
	}
}

// generated is an object whose name the API server makes up.
func generated(doc string) string { return strings.Replace(doc, "  name: ", "  generateName: ", 1) }

// TestOneGenerateNameTwice has one generateName twice in a group, and once more
// in another: all are created and waited for, each revision makes all anew and
// removes those before, and all are removed in the order of their groups.
func TestOneGenerateNameTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := one(t, generated(job("work-", group("a"), "300ms")), generated(job("work-", group("a"), "1s")),
		generated(job("work-", group("b", "a"), "300ms")), configMap("after", group("c", "b")))
	out := r.deploy("plain", use(chart, func(i *Install) { i.WaitForJobs = true }))
	first := r.jobsByGroup()
	if len(first["a"]) != 2 || len(first["b"]) != 1 || out.says("R13") {
		t.Fatalf("Jobs by group: %v, warnings %v", first, out.state.Warnings)
	}
	a := out.state.Find(phaseApply, "edge:a")
	for _, o := range a.Objects {
		if o.Status != event.Ready || !slices.Contains(first["a"], o.Object.Name) {
			t.Errorf("the events draw %+v, want the Jobs %v, ready", o, first["a"])
		}
	}
	posts := r.posts("jobs")
	for _, name := range first["a"] {
		if done := r.timeline("lockstep").lastStatus(t, "Job/"+name); len(posts) != 3 || posts[2].Before(done) || a.Done != 2 {
			t.Errorf("Jobs were created at %v, %s of a was complete at %s; %d are done", posts, name, done, a.Done)
		}
	}

	r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.WaitForJobs = true })))
	second := r.jobsByGroup()
	if len(second["a"]) != 2 || len(second["b"]) != 1 || slices.ContainsFunc(second["a"], func(s string) bool { return slices.Contains(first["a"], s) }) {
		t.Errorf("after the upgrade there are %v, before it there were %v", second, first)
	}

	start := time.Now()
	op, err := r.uninstall()
	out = r.mustRun(op, err)
	if got := out.ended(); !slices.Equal(got, []string{"edge:c", "edge:b", "edge:a"}) || len(r.jobs()) > 0 {
		t.Errorf("removed %v, left are %v", got, r.jobs())
	}
	tl := r.timeline("lockstep").since(start)
	of := func(names []string) (jobs []string) {
		for _, name := range names {
			jobs = append(jobs, "Job/"+name)
		}
		return jobs
	}
	gone, _ := tl.deleted(t, of(second["b"]))
	next, _ := tl.firstDelete(t, of(second["a"]))
	if gone.IsZero() || next.Before(gone) {
		t.Errorf("the Jobs of a were deleted from %s on, that of b at %s", clock(next), clock(gone))
	}
}

// jobsByGroup are the names of the Jobs in the namespace, by resource-group.
func (r *rig) jobsByGroup() map[string][]string {
	r.t.Helper()
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, j := range list.Items {
		g := j.Annotations[plan.AnnotationGroup]
		out[g] = append(out[g], j.Name)
	}
	return out
}

// posts are the times at which we created objects of a resource, in order.
func (r *rig) posts(resource string) (at []time.Time) {
	r.t.Helper()
	for _, e := range r.audit() {
		if e.UserAgent == "lockstep" && e.Verb == "create" && e.Object.Resource == resource && e.Object.Namespace == r.namespace {
			at = append(at, e.Received)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// thing is a chart of a custom resource, its CRD, and a group that waits for
// it.
func thing(t *testing.T, api, size string, readiness map[string]string) *charts.Chart {
	annotations := group("a")
	maps.Copy(annotations, readiness)
	return makeChart(t, files{
		"crds/things.yaml": object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
			"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
			"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]"),
		"templates/all.yaml": object(api+"/v1/Thing/it", annotations, "spec: {size: "+size+"}") + "\n---\n" + configMap("after", group("b", "a"), "size: s"+size),
	})
}

// TestOldStatusOfACustomResource upgrades a custom resource whose status says
// ready from before. Where the status has an observedGeneration, that status
// does not count, and the next group is written only after one that does. Where
// it has none, nothing in the resource tells how old it is: its conditions, or
// the expressions of R23, decide at once. A controller that has nothing to
// change would never write it again, so that to wait for a newer one could be
// to wait for ever (R22).
func TestOldStatusOfACustomResource(t *testing.T) {
	t.Parallel()
	custom := map[string]string{plan.AnnotationReadinessSuccess: `["{.phase} == \"Done\""]`, plan.AnnotationReadinessFailure: `["{.phase} == \"Lost\""]`}
	for name, readiness := range map[string]map[string]string{"conditions": nil, "expressions": custom} {
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s observed %v", name, observed), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				api := r.namespace + ".example"
				status := func(generation int) {
					text := `"phase":"Done","conditions":[{"type":"Ready","status":"True"}]`
					if observed {
						text += fmt.Sprintf(`,"observedGeneration":%d`, generation)
					}
					r.patchStatus(api, "it", `{"status":{`+text+`}}`)
				}
				op, err := r.install("plain", use(thing(t, api, "1", nil), nil))
				r.mustRun(op, err)
				status(1)

				start, told := time.Now(), false
				op, err = r.upgrade("plain", useUp(thing(t, api, "2", readiness), func(u *Upgrade) { u.ReadinessTimeout = 20 * time.Second }))
				if err != nil {
					t.Fatal(err)
				}
				out := r.run(op, func(e event.Event) {
					if !told && e.Kind == event.KindObject && strings.Contains(e.Message, "has not seen the change yet") {
						told = true
						status(2)
					}
				})
				if out.err != nil || told != observed {
					t.Errorf("%v; the old status was told to be old: %v", out.err, told)
				}
				tl := r.timeline("lockstep").since(start)
				after, _ := tl.firstWrite(t, []string{"ConfigMap/after"})
				if applied, _ := tl.firstWrite(t, []string{"Thing/it"}); after.Before(applied) || after.Before(tl.lastStatus(t, "Thing/it")) {
					t.Errorf("after was written at %s, before Thing/it at %s or its status at %s", clock(after), clock(applied), clock(tl.lastStatus(t, "Thing/it")))
				}
			})
		}
	}
}

// patchStatus writes the status of a Thing as its controller would.
func (r *rig) patchStatus(api, name, patch string) {
	r.t.Helper()
	things := schema.GroupVersionResource{Group: api, Version: "v1", Resource: "things"}
	if _, err := r.client.dynamic.Resource(things).Namespace(r.namespace).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		r.t.Error(err)
	}
}
