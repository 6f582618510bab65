package kube

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
)

// TestCausesAreTold: of a sidecar that crashes, of a key that is missing, and of a Job
// whose pods are gone when it fails, the events name object, container, and the line
// that says why, before the failure is told and with it.
func TestCausesAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workload := func(name, annotations, spec string) string {
		return object("apps/v1/Deployment/"+name, group(name), "spec:\n  selector: {matchLabels: {app: "+name+"}}\n  template:\n    metadata: {labels: {app: "+name+
			"}, annotations: {"+annotations+"}}\n    spec: {"+spec+"}")
	}
	crash := `sandbox/run-duration: 10ms, sandbox/log: "hello\nFATAL: no relation", sandbox/exit-code: "3"`
	c := one(t,
		workload("api", crash+", sandbox/ready-delay: 1h, sandbox/container: mesh", `initContainers: [{name: mesh, image: "x:1", restartPolicy: Always}], containers: [{name: main, image: "x:1"}]`),
		workload("key", "", `containers: [{name: main, image: "x:1", env: [{name: A, valueFrom: {secretKeyRef: {name: absent, key: a}}}]}]`),
		object("batch/v1/Job/migrate", group("migrate"), "spec:\n  backoffLimit: 1\n  template:\n    metadata: {annotations: {"+crash+"}}\n    spec: {restartPolicy: OnFailure, containers: [{name: main, image: \"x:1\"}]}"),
		configMap("after", group("after", "api", "key", "migrate")))
	op, err := r.install("shop", use(c, func(i *Install) { i.ReadinessTimeout, i.WaitForJobs = 8*time.Second, true }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	var first *event.Event
	for name, words := range map[string][]string{
		"api":     {"sidecar mesh ends with code 3", ": FATAL: no relation"},
		"key":     {`container main cannot start: secret "absent" not found`},
		"migrate": {"container main ends with code 3", ": FATAL: no relation"},
	} {
		found, told := false, false
		for _, e := range out.events {
			if e.Object == nil || e.Object.Name != name || e.Cause == "" {
				continue
			}
			found = found || e.Kind == event.KindDiagnosis && len(e.Evidence) > 0
			if e.Kind != event.KindGroup || e.Status != event.Failed {
				continue
			}
			if first == nil || e.Seq < first.Seq {
				first = &e
			}
			told = true
			for _, w := range words {
				if !strings.Contains(e.Cause, w) || !strings.Contains(e.Message, w) {
					t.Errorf("%s: %q, %q lacks %q", name, e.Message, e.Cause, w)
				}
			}
			if !found && name != "migrate" {
				t.Errorf("%s: nothing was told before it failed", name)
			}
			if len(e.Evidence) == 0 {
				t.Errorf("%s: no evidence", name)
			}
		}
		if !told {
			t.Errorf("%s did not fail: %s", name, out.state.Message)
		}
	}
	if first == nil || out.state.Root == nil || *out.state.Root != *first.Object || out.state.Cause == "" || len(out.state.Evidence) == 0 {
		t.Errorf("the end names %v (%q, %q), the first failure was %+v", out.state.Root, out.state.Cause, out.state.Evidence, first)
	}
	if !r.watched("pods") || !r.watched("events") {
		t.Error("signs of trouble are not watched for")
	}
}

// TestTheAPIServersWarningsAreTold: once each.
func TestTheAPIServersWarningsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := one(t, object("v1/Service/old", nil, "spec: {clusterIP: None, externalIPs: [10.0.0.1], ports: [{port: 80}]}"))
	op, err := r.install("shop", use(c, nil))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	told := map[string]int{}
	for _, w := range out.state.Warnings {
		if strings.HasPrefix(w.Message, "services old: the API server warns: ") {
			told[w.Message]++
		}
	}
	if len(told) == 0 {
		t.Errorf("nothing is told: %v", out.state.Warnings)
	}
	for w, n := range told {
		if n != 1 {
			t.Errorf("%d times: %s", n, w)
		}
	}
}
