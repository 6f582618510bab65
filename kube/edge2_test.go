package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
)

// TestGenerateName creates objects without a name by POST (Helm 4.3.1 cannot),
// tells their names, makes them anew with each revision, and removes those that
// went before.
func TestGenerateName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	generated := func(doc string) string { return strings.Replace(doc, "  name: ", "  generateName: ", 1) }
	chart := one(t, generated(job("work-", group("a"), "500ms")), generated(configMap("made-", group("b", "a"))), configMap("after", group("c", "b")))
	jobs := func() (names []string) {
		list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list.Items {
			names = append(names, j.Name)
		}
		return names
	}
	out := r.deploy("plain", use(chart, func(i *Install) { i.WaitForJobs = true }))
	first := jobs()
	if len(first) != 1 || !strings.HasPrefix(first[0], "work-") || len(r.configMaps(r.namespace)) != 2 {
		t.Fatalf("Jobs %v, ConfigMaps %v", first, r.configMaps(r.namespace))
	}
	g := out.state.Find(phaseApply, "edge:a")
	if len(g.Objects) != 1 || g.Objects[0].Object.Name != first[0] || g.Objects[0].Status != event.Ready || g.Done != 1 {
		t.Errorf("the events draw %+v, want only the Job %s, ready", g.Objects[0], first[0])
	}
	if d := out.at("edge:b", event.Running).Sub(out.at("edge:a", event.Running)); d < 500*time.Millisecond {
		t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
	}
	// Somebody else's object with such a name is none of ours.
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "made-stranger", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made-stranger","generateName":"made-"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	r.mustRun(r.upgrade("plain", useUp(chart, nil)))
	second := jobs()
	if len(second) != 1 || second[0] == first[0] || len(r.configMaps(r.namespace)) != 3 {
		t.Errorf("after the upgrade there are Jobs %v (before: %v) and ConfigMaps %v", second, first, r.configMaps(r.namespace))
	}
	r.mustRun(r.rollback(1))
	if third := jobs(); len(third) != 1 || third[0] == second[0] {
		t.Errorf("after the rollback there are Jobs %v", third)
	}
	op, err := r.uninstall()
	r.mustRun(op, err)
	if got := r.configMaps(r.namespace); len(jobs()) > 0 || !slices.Equal(got, []string{"made-stranger"}) {
		t.Errorf("left are Jobs %v and ConfigMaps %v", jobs(), got)
	}
	if n := len(op.Phases()[0].Groups); n != 3 {
		t.Errorf("the uninstallation was planned in %d groups, want 3", n)
	}
}

// TestGeneratedNameOfAHook runs a hook without a name, and deletes what it made.
func TestGeneratedNameOfAHook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hook := map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"}
	out := r.deploy("plain", use(one(t, strings.Replace(job("hook-", hook, "300ms"), "  name: ", "  generateName: ", 1), configMap("a", nil)), nil))
	named := slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Phase == "pre-install" && len(e.Object.Name) > len("hook-") && e.Status == event.Ready
	})
	if !named {
		t.Errorf("no event names the hook's Job, ready")
	}
	r.eventually("the hook's Job is deleted", func() bool {
		list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// TestRetryOfAGeneratedName deletes what the failed attempt made (R44).
func TestRetryOfAGeneratedName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fails := strings.Replace(job("work-", group("a"), "100ms", "  backoffLimit: 0"), "{sandbox/run-duration: 100ms}", `{sandbox/run-duration: 100ms, sandbox/exit-code: "1"}`, 1)
	op, err := r.install("plain", use(one(t, strings.Replace(fails, "  name: ", "  generateName: ", 1), configMap("after", group("b", "a"))),
		func(i *Install) { i.WaitForJobs, i.HoldOnFailure = true, true }))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Status == event.Failed {
			failed = append(failed, e.Object.Name)
		}
		if e.Kind == event.KindRun && e.Status == event.Held {
			op.Command(event.Command{Name: map[bool]event.CommandName{true: event.Retry, false: event.Resume}[len(failed) < 2]})
		}
	})
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(failed) != 2 || failed[0] == failed[1] || len(list.Items) != 1 || list.Items[0].Name != failed[1] {
		t.Errorf("failed were %v, %d Jobs are left", failed, len(list.Items))
	}
}

// TestTakenOver has another release take an object over: an upgrade refuses to
// take it back unless asked to, a removal and an uninstallation leave it, and
// all say so.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := configMap("a", group("a")), configMap("b", group("b", "a"))
	r.deploy("plain", use(one(t, a, b), nil))
	take := func(release string) {
		r.deploy("plain", use(one(t, b), func(i *Install) { i.Release, i.TakeOwnership = release, true }))
	}
	take("thief")
	writes := len(r.writes())
	if _, err := r.upgrade("plain", useUp(one(t, a, b), nil)); err == nil || !strings.Contains(err.Error(), "ConfigMap/b") ||
		!strings.Contains(err.Error(), "release thief") || !strings.Contains(err.Error(), "--take-ownership") {
		t.Errorf("error %v", err)
	}
	if n := len(r.writes()); n != writes {
		t.Errorf("%d writes by an upgrade that is refused", n-writes)
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, a, b), func(u *Upgrade) { u.TakeOwnership = true })))
	take("thief2")
	op, err := r.rollback(1)
	if out := r.mustRun(op, err); !out.says("R32", "ConfigMap/b", "thief2") {
		t.Errorf("the rollback does not say that it takes b back: %v", out.state.Warnings)
	}
	take("thief3")
	op, err = r.upgrade("plain", useUp(one(t, a), nil))
	out := r.mustRun(op, err)
	if !slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Object != nil && e.Object.Name == "b" && e.Change == event.Kept && strings.Contains(e.Message, "thief3")
	}) {
		t.Errorf("the upgrade does not say that it leaves b alone")
	}
	r.mustRun(r.rollback(1))
	take("thief4")
	op, err = r.uninstall()
	out = r.mustRun(op, err)
	if !out.says("R31", "ConfigMap/b", "thief4") {
		t.Errorf("the uninstallation does not say that b stays: %v", out.state.Warnings)
	}
	if n := len(op.Phases()[0].Groups); n != 1 {
		t.Errorf("%d groups are planned to be removed, want 1", n)
	}
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("left are %v, want [b]", got)
	}
}

// TestReplicasOfAnotherManager leaves alone the replicas that an autoscaler
// sets; where the chart sets them too, it says who owns them and how to go on.
func TestReplicasOfAnotherManager(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, deployment("app", group("a"), "0s"), configMap("after", group("b", "a"))), nil))
	if _, err := r.cluster.AppsV1().Deployments(r.namespace).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
	replicas := func() int32 {
		d, err := r.cluster.AppsV1().Deployments(r.namespace).Get(t.Context(), "app", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *d.Spec.Replicas
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, deployment("app", group("a"), "10ms"), configMap("after", group("b", "a"))), nil)))
	if n := replicas(); n != 3 {
		t.Errorf("%d replicas after an upgrade that says nothing of them, want the autoscaler's 3", n)
	}
	fixed := useUp(one(t, deployment("app", group("a"), "20ms", "  replicas: 2"), configMap("after", group("b", "a"))), nil)
	op, err := r.upgrade("plain", fixed)
	r.mustFail(op, err, "Deployment/app", `"autoscaler"`, ".spec.replicas", "--force-conflicts", "never started: edge:b")
	op, err = r.upgrade("plain", func(u *Upgrade) { fixed(u); u.ForceConflicts = true })
	r.mustRun(op, err)
	if n := replicas(); n != 2 {
		t.Errorf("%d replicas after --force-conflicts, want 2", n)
	}
}

// TestFieldConflict is told with the owner and the field, also by an install
// that takes an object over; --force-conflicts goes on in both.
func TestFieldConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "a", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"is":"mine"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	chart := one(t, configMap("a", nil))
	says := []string{"ConfigMap/a", `"somebody"`, ".data.is", "--force-conflicts"}
	op, err := r.install("plain", use(chart, func(i *Install) { i.TakeOwnership = true }))
	r.mustFail(op, err, says...)
	r.deploy("plain", use(chart, func(i *Install) { i.TakeOwnership, i.ForceConflicts, i.Replace = true, true, true }))
	r.patchConfigMap("a", `{"data":{"is":"theirs"}}`)
	op, err = r.upgrade("plain", useUp(chart, nil))
	r.mustFail(op, err, says...)
	op, err = r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.ForceConflicts = true }))
	r.mustRun(op, err)
	a, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || a.Data["is"] != "a" {
		t.Errorf("data %v, %v", a.Data, err)
	}
}

// TestImmutableField names the object and the field, and says what can be done.
func TestImmutableField(t *testing.T) {
	service := func(ip string) string {
		return object("v1/Service/front", nil, "spec: {clusterIP: "+ip+", ports: [{port: 80}]}")
	}
	selector := func(label string) string {
		return strings.ReplaceAll(deployment("app", nil, "0s"), "{app: app}", "{app: "+label+"}")
	}
	claim := func(size string) string {
		return object("apps/v1/StatefulSet/state", nil, "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}}, spec: {containers: [{name: main, image: example/app:1.0}]}}",
			"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}}]")
	}
	tests := map[string]struct {
		old, new, object, field string
	}{
		"job":         {job("work", nil, "0s"), strings.ReplaceAll(job("work", nil, "0s"), "app:1.0", "app:2.0"), "Job/work", "spec.template"},
		"service":     {service(`""`), service("None"), "Service/front", "spec.clusterIPs"},
		"deployment":  {selector("one"), selector("two"), "Deployment/app", "spec.selector"},
		"statefulset": {claim("1Gi"), claim("2Gi"), "StatefulSet/state", "spec"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, tt.old), nil))
			op, err := r.upgrade("plain", useUp(one(t, tt.new), nil))
			out := r.mustFail(op, err, tt.object, tt.field, "delete the object")
			if n := len(out.state.Message); n > 700 {
				t.Errorf("the message is %d characters long: %s", n, out.state.Message)
			}
		})
	}
}

// TestCustomResourceWithoutStatus is ready once the API server has it (R22),
// and its CRD may be in the same group (R17).
func TestCustomResourceWithoutStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	api := r.namespace + ".example"
	crd := object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, group("a"), "spec:", "  group: "+api, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")
	out := r.deploy("plain", use(one(t, object(api+"/v1/Thing/mute", group("a"), "spec: {size: 1}"), crd, configMap("after", group("b", "a"))), nil))
	g := out.state.Find(phaseApply, "edge:a")
	if g.Status != event.Ready || g.Done != 2 {
		t.Errorf("%s, %d of 2 done", g.Status, g.Done)
	}
	r.mustRun(r.uninstall())
}

// TestStaleStatus upgrades workloads whose status still says ready: the next
// group is written only after the status that belongs to the new rollout (R22).
func TestStaleStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := func(version, delay string) func(*Upgrade) {
		set := object("apps/v1/StatefulSet/state", group("a"), "spec:", "  serviceName: state", "  selector: {matchLabels: {app: state}}",
			"  template: {metadata: {labels: {app: state}, annotations: {sandbox/ready-delay: "+delay+"}}, spec: {containers: [{name: main, image: example/app:"+version+"}]}}")
		return useUp(one(t, deployment("app", group("a"), delay), set, configMap("after", group("b", "a"), "version: v"+version)), func(u *Upgrade) { u.Install = true })
	}
	op, err := r.upgrade("plain", chart("1", "0s"))
	r.mustRun(op, err)
	start := time.Now()
	op, err = r.upgrade("plain", chart("2", "1500ms"))
	out := r.mustRun(op, err)
	tl := r.timeline("lockstep").since(start)
	for _, workload := range []string{"Deployment/app", "StatefulSet/state"} {
		ready, _ := tl.ready(t, []string{workload})
		applied, _ := tl.firstWrite(t, []string{workload})
		after, _ := tl.firstWrite(t, []string{"ConfigMap/after"})
		if after.Before(ready) || after.Sub(applied) < 1500*time.Millisecond {
			t.Errorf("%s was applied at %s and ready at %s, ConfigMap/after was written at %s", workload, clock(applied), clock(ready), clock(after))
		}
	}
	if t.Failed() {
		tl.dump(t)
		t.Log(out.at("edge:a", event.Ready))
	}
}
