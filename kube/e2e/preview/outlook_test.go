package preview

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/faultproxy"
)

// previewAll returns the changes of an operation to the objects of a phase, and the manifests that it would send, by
// object.
func previewAll(r *rig.Rig, op *kube.Operation, phase event.Phase) (changes map[string]inspect.Change, sent map[string]string) {
	r.T.Helper()
	changes, sent = map[string]inspect.Change{}, map[string]string{}
	for _, g := range phase.Groups {
		for _, o := range g.Objects {
			it := inspect.Item{Unit: event.Unit{Phase: phase.Name, Group: g.ID}, Kind: phase.Kind, Object: o}
			c, err := op.Change(context.Background(), it)
			if err != nil {
				r.T.Errorf("%s: %v", o, err)
			}
			changes[o.String()] = c
			text, err := op.Sent(context.Background(), it)
			if nothing := inspect.Unavailable(""); err != nil && !errors.As(err, &nothing) {
				r.T.Errorf("%s: %v", o, err)
			}
			sent[o.String()] = text
		}
	}
	return changes, sent
}

// fields returns the changed fields of an object, as lines.
func fields(c inspect.Change) string {
	var lines []string
	for _, f := range c.Fields {
		lines = append(append(lines, f.In), f.Lines...)
	}
	return strings.Join(lines, "|")
}

// countRequests counts lockstep's requests about an object since a time. It fails the test if one is a write.
func countRequests(r *rig.Rig, since time.Time, resource, name string) (n int) {
	r.T.Helper()
	log := r.Log()
	for _, e := range log.Namespace(r.Namespace).UserAgent("lockstep") {
		if e.Received.Before(since) || e.Object.Resource != resource || e.Object.Name != name || e.Stage != auditlog.ResponseComplete {
			continue
		}
		if n++; e.Verb != "get" && !strings.Contains(e.RequestURI, "dryRun=All") {
			r.T.Errorf("the preview sent %s %s", e.Verb, e.RequestURI)
		}
	}
	return n
}

const secretValue = "c4n4ry-0ld-v4lue"

// TestDiffAtABreakpoint stops an upgrade before its first group and previews the change of
// each object (R42): the changes are exact, nothing is written, at most two requests per
// object are sent, and no secret value is shown. Objects of the rollback that follows are
// previewed in the same way.
func TestDiffAtABreakpoint(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secret := func(value string) string {
		return rig.Object("v1/Secret/key", rig.Group("a"), "stringData: {key: "+value+"}")
	}
	image := func(tag string) string {
		return strings.Replace(rig.Deployment("web", rig.Group("b", "a"), "0s"), "app:1.0", "app:"+tag, 1)
	}
	k := rig.LateKinds("")[0]
	k.API = r.Namespace + ".example"
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, secret(secretValue), rig.ConfigMap("same", rig.Group("a")), image("1.0"), rig.Job("fixed", rig.Group("b", "a"), "0s"), rig.ConfigMap("goes", rig.Group("a"))), nil))
	elsewhere := strings.Replace(rig.ConfigMap("elsewhere", rig.Group("c", "b")), "name: elsewhere", "name: elsewhere\n  namespace: "+r.Namespace+"-later", 1)
	next := rig.ChartOf(t, secret("c4n4ry-n3w-v4lue"), rig.ConfigMap("same", rig.Group("a")), image("2.0"), rig.Job("fixed", rig.Group("b", "a"), "5s"),
		rig.ConfigMap("comes", rig.Group("c", "b"), "quotes: "+secretValue), elsewhere,
		rig.Object("v1/Namespace/"+r.Namespace+"-later", rig.Group("a")),
		k.CRD(rig.Group("a")), k.Object(rig.Group("c", "b")), rig.Job("hook", map[string]string{"helm.sh/hook": "post-upgrade"}, "0s"))
	op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.BreakOn, u.SkipPreflight = []string{"edge:a"}, true })))
	var changes map[string]inspect.Change
	var sent, undone map[string]string
	out := r.Run(op, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused && changes == nil:
			since := time.Now()
			changes, sent = map[string]inspect.Change{}, map[string]string{}
			for _, p := range op.Phases() {
				found, texts := previewAll(r, op, p)
				for name := range found {
					changes[name], sent[name] = found[name], texts[name]
				}
			}
			for resource, name := range map[string]string{"deployments": "web", "secrets": "key", "configmaps": "comes"} {
				if n := countRequests(r, since, resource, name); n != 2 {
					t.Errorf("%d requests about %s %s, want 2", n, resource, name)
				}
			}
			op.Command(event.Command{Name: event.Step})
		case e.Kind == event.KindGroup && e.Group == "edge:a" && e.Status.Over() && e.Phase == "apply":
			op.Command(event.Command{Name: event.Rollback})
		case e.Kind == event.KindPlan && e.Phases[0].Name == event.RollbackPrefix+"apply":
			_, undone = previewAll(r, op, e.Phases[0])
		}
	})
	if out.State.Exit != 3 {
		t.Fatalf("exit %d: %v", out.State.Exit, out.Err)
	}
	for name, want := range map[string]struct {
		action       inspect.Action
		fields, says string
	}{
		"Deployment/web":                      {inspect.Modify, "spec.template.spec.containers[main]|-image: example/app:1.0|+image: example/app:2.0", ""},
		"Secret/key":                          {inspect.Modify, "data|-key: (hidden)|+key: (hidden, changed)", ""},
		"ConfigMap/same":                      {inspect.Unchanged, "", ""},
		"ConfigMap/comes":                     {inspect.Create, "", ""},
		"ConfigMap/goes":                      {inspect.Delete, "", ""},
		"Job/fixed":                           {inspect.Refuse, "", "immutable"},
		"Job/hook":                            {inspect.Hook, "", "any previous Job is deleted first"},
		"ConfigMap/elsewhere":                 {inspect.Create, "", "namespace " + r.Namespace + "-later does not exist yet"},
		k.Kind + "/late":                      {inspect.Later, "", "has no kind"},
		"Namespace/" + r.Namespace + "-later": {inspect.Create, "", ""},
	} {
		c, ok := changes[name]
		if want.action == inspect.Create { // its manifest
			want.fields = "|+" + strings.ReplaceAll(strings.TrimSpace(sent[name]), "\n", "|+")
		}
		if !ok || c.Action != want.action || fields(c) != want.fields || !strings.Contains(c.Message, want.says) {
			t.Errorf("%s: %+v, want %+v", name, c, want)
		}
	}
	if !strings.Contains(sent["Deployment/web"], "image: example/app:2.0") || !strings.Contains(sent["Deployment/web"], "app.kubernetes.io/managed-by: Helm") ||
		!strings.Contains(sent["ConfigMap/comes"], "quotes: (hidden)") || sent["ConfigMap/goes"] != "" || !strings.Contains(sent["Job/hook"], "helm.sh/hook") {
		t.Errorf("sent: %q", sent)
	}
	if !strings.Contains(undone["Deployment/web"], "image: example/app:1.0") {
		t.Errorf("the rollback sends %q", undone)
	}
	for name, c := range changes {
		if all := fields(c) + c.Message + c.Diff + sent[name] + undone[name]; strings.Contains(all, "c4n4ry") || strings.Contains(all, "YzRuNHJ5") {
			t.Errorf("a secret value is shown: %s", all)
		}
	}
}

// TestPreviewOfAReader previews as a user who may only read: manifests are compared, and a note says so.
func TestPreviewOfAReader(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red"), rig.ConfigMap("b", nil)), nil))
	reader := r.WithClient(r.ConnectAs("reader", rig.Rule("", "configmaps,secrets", "get", "list")))
	op := reader.Must(reader.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green"), rig.ConfigMap("b", nil), rig.ConfigMap("d", nil)), func(u *kube.Deploy) { u.PlanOnly = true })))
	changes, _ := previewAll(reader, op, op.Phases()[0])
	if c := changes["ConfigMap/a"]; c.Action != inspect.Modify || fields(c) != "data|-color: red|+color: green" || !strings.Contains(c.Message, "last manifest") {
		t.Errorf("%+v", c)
	}
	if c := changes["ConfigMap/b"]; c.Action != inspect.Unchanged || !strings.Contains(c.Message, "last manifest") {
		t.Errorf("%+v", c)
	}
	if c := changes["ConfigMap/d"]; c.Action != inspect.Create || c.Message != "this user may not both create and patch it, which a dry run requires" {
		t.Errorf("%+v", c)
	}
}

// TestChangeAfterTheRun: after an upgrade, a lookup says what the upgrade changed, although nobody looked before; values of Secrets are
// hidden, and what the upgrade created or left as it was has no fields.
func TestChangeAfterTheRun(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secret := func(value string) string { return rig.Object("v1/Secret/key", nil, "stringData: {key: "+value+"}") }
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red"), rig.ConfigMap("b", nil), secret(secretValue)), nil))
	next := rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green"), rig.ConfigMap("b", nil), rig.ConfigMap("d", nil), secret("c4n4ry-n3w-v4lue"))
	op, err := r.Upgrade("plain", rig.UseChart(next, nil))
	r.MustRun(op, err)
	changes, _ := previewAll(r, op, op.Phases()[0])
	for name, want := range map[string]string{
		"ConfigMap/a": "data|-color: red|+color: green", "ConfigMap/b": "", "ConfigMap/d": "", "Secret/key": "stringData|-key: (hidden)|+key: (hidden, changed)",
	} {
		if c := changes[name]; c.Action != inspect.Unchanged || fields(c) != want {
			t.Errorf("%s: %+v, want %q", name, c, want)
		}
	}
}

// TestPreviewWithWebhookSideEffects previews objects with a webhook that has side effects, so the API server refuses dry
// runs. No object is reported as refused, and a note says what is compared.
func TestPreviewWithWebhookSideEffects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red"), rig.ConfigMap("b", nil)), nil))
	asked := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Query().Get("dryRun") == "" {
			return false
		}
		faultproxy.Refuse(w, http.StatusBadRequest, "BadRequest", `admission webhook "effects.example.com" does not support dry run`)
		return true
	}}, ""))
	op := asked.Must(asked.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green"), rig.ConfigMap("b", nil), rig.ConfigMap("d", nil)), func(u *kube.Deploy) { u.PlanOnly = true })))
	changes, _ := previewAll(asked, op, op.Phases()[0])
	all, err := op.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Action == inspect.Refuse {
			t.Errorf("the plan says that %s is refused: %s", c.Object, c.Message)
		}
	}
	if c := changes["ConfigMap/a"]; c.Action != inspect.Modify || fields(c) != "data|-color: red|+color: green" || !strings.Contains(c.Message, "last manifest, because its webhook does not support dry runs") {
		t.Errorf("%+v", c)
	}
	if c := changes["ConfigMap/b"]; c.Action != inspect.Unchanged || !strings.Contains(c.Message, "last manifest, because its webhook does not support dry runs") {
		t.Errorf("%+v", c)
	}
	if c := changes["ConfigMap/d"]; c.Action != inspect.Create || !strings.Contains(c.Message, "does not support dry runs") {
		t.Errorf("%+v", c)
	}
}
