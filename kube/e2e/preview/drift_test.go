package preview

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// driftChart has objects that the API server stores in another form than they are sent, and all kinds of lists.
func driftChart(t *testing.T) *charts.Chart {
	ignoring := func(pointers string) map[string]string {
		a := rig.Group("app", "conf")
		a["lockstep/ignore-drift"] = pointers
		return a
	}
	conf := rig.Group("conf")
	return rig.ChartOf(t,
		rig.ConfigMap("conf", conf, "empty: ''", "text: same"),
		rig.Object("v1/Secret/creds", conf, "stringData: {password: hunter2abc, other: plain}"),
		rig.Object("v1/Service/svc", conf, "spec: {selector: {app: web}, ports: [{name: http, port: 80}, {name: more, port: 81}]}"),
		rig.Object("networking.k8s.io/v1/NetworkPolicy/policy", conf, "spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}], policyTypes: [Ingress]}"),
		rig.Object("rbac.authorization.k8s.io/v1/Role/role", conf, "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]"),
		rig.Deployment("slow", conf, "1s"),
		rig.Object("apps/v1/Deployment/web", ignoring(`["/spec/template/spec/containers/0/image"]`),
			"spec:", "  replicas: 0", "  selector: {matchLabels: {app: web}}", "  template:", "    metadata: {labels: {app: web}}", "    spec:", "      hostNetwork: false",
			"      volumes: [{name: data, emptyDir: {}}]",
			"      containers: [{name: main, image: example/app:1.0, env: [{name: A, value: ''}, {name: B, value: x}], ports: [{containerPort: 80}], resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]"),
		rig.Object("apps/v1/Deployment/scaled", ignoring("spec.replicas"), "spec:", "  replicas: 0", "  selector: {matchLabels: {app: scaled}}", "  template:",
			"    metadata: {labels: {app: scaled}}", "    spec: {containers: [{name: main, image: example/app:1.0}]}"))
}

// driftLines returns what differs, a line for each field.
func driftLines(d inspect.Drift) (lines []string) {
	for _, o := range d.Objects {
		if o.Gone || o.Unread != "" {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s gone=%v %s%s", o.Object, o.Gone, o.Message, o.Unread)))
		}
		for _, f := range o.Fields {
			from, _ := json.Marshal(f.From)
			to, _ := json.Marshal(f.To)
			lines = append(lines, fmt.Sprintf("%s %s: %s → %s by %s%s", o.Object, f.Field, from, to, f.Manager, f.Subresource))
		}
	}
	slices.Sort(lines)
	return lines
}

// drift compares release t with the cluster.
func drift(r *rig.Rig) inspect.Drift {
	r.T.Helper()
	found, err := r.Client.Drift(r.T.Context(), []kube.ReleaseKey{{Namespace: r.Namespace, Name: "t"}})
	if err != nil || len(found) != 1 {
		r.T.Fatalf("%v: %v", found, err)
	}
	return found[0]
}

// change patches an object as a field manager would.
func change(r *rig.Rig, resource, name string, kind types.PatchType, patch string, subresource ...string) {
	r.T.Helper()
	group := map[string]string{"deployments": "apis/apps/v1", "networkpolicies": "apis/networking.k8s.io/v1", "poddisruptionbudgets": "apis/policy/v1"}[resource]
	if group == "" {
		group = "api/v1"
	}
	path := slices.Concat([]string{group, "namespaces", r.Namespace, resource, name}, subresource)
	err := r.Cluster.CoreV1().RESTClient().Patch(kind).AbsPath(path...).Param("fieldManager", "somebody").Body([]byte(patch)).Do(r.T.Context()).Error()
	if err != nil {
		r.T.Fatal(err)
	}
}

// TestDrift (S18): what somebody has changed since the release was deployed is found, with who did it, however the release was
// applied; what the API server stores in another form, what others have added, and what is ignored is none. A repair writes
// only what differs, in order (R14), keeps what is ignored, and makes no revision.
func TestDrift(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(driftChart(t), func(d *kube.Deploy) { d.ServerSide = serverSide }))
			if d := drift(r); len(d.Objects) > 0 || len(d.Compared) != 8 || d.Revision != 1 {
				t.Errorf("after the install: %+v", d)
			} else if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Message, "Deployment/scaled: annotation lockstep/ignore-drift must be a list of JSON pointers") {
				t.Errorf("warnings: %v", d.Warnings)
			}
			if op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}); op != nil || err != nil {
				t.Errorf("a repair without drift: %v, %v", op, err)
			}
			meddle(r)
			want := []string{
				`ConfigMap/conf data.empty: "" → null by `,
				`ConfigMap/conf data.text: "same" → "other" by somebody`,
				`Deployment/slow gone=true`,
				`Deployment/web spec.replicas: 0 → 1 by somebodyscale`,
				`Deployment/web spec.template.spec.containers[main].env[A].value: "" → "new" by somebody`,
				`Deployment/web spec.template.spec.containers[main].env[B]: {"name":"B","value":"x"} → null by `,
				`Deployment/web spec.template.spec.hostNetwork: false → true by somebody`,
				`NetworkPolicy/policy spec.ingress[0].ports: [{"port":80}] → [{"port":80,"protocol":"TCP"},{"port":90,"protocol":"TCP"}] by somebody`,
				`Role/role gone=true`,
				`Secret/creds data.password: "(hidden)" → "(hidden, changed)" by somebody`,
				`Service/svc spec.selector: {"app":"web"} → {"app":"web","more":"x"} by somebody`,
			}
			d := drift(r)
			if got := driftLines(d); !slices.Equal(got, want) {
				t.Errorf("drift:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if i := slices.IndexFunc(d.Objects, func(o inspect.DriftedObject) bool { return o.Object.Name == "conf" }); i < 0 || time.Since(d.Objects[i].Fields[1].At) > time.Hour {
				t.Errorf("when conf was changed is unknown: %+v", d.Objects)
			}
			repair(r)
		})
	}
}

// meddle changes the objects of driftChart, and what is no drift of them.
func meddle(r *rig.Rig) {
	t := r.T
	change(r, "configmaps", "conf", types.JSONPatchType, `[{"op":"remove","path":"/data/empty"},{"op":"replace","path":"/data/text","value":"other"},{"op":"add","path":"/data/added","value":"x"}]`)
	change(r, "secrets", "creds", types.MergePatchType, `{"stringData":{"password":"otherpw123"}}`)
	change(r, "services", "svc", types.MergePatchType, `{"metadata":{"labels":{"theirs":"x"}},"spec":{"selector":{"more":"x"}}}`)
	change(r, "networkpolicies", "policy", types.MergePatchType, `{"spec":{"ingress":[{"ports":[{"port":80},{"port":90}]}]}}`)
	change(r, "deployments", "web", types.MergePatchType, `{"spec":{"replicas":1}}`, "scale")
	container := `{"spec":{"template":{"spec":{"hostNetwork":%v,"containers":[{"name":"main","image":"%s","resources":{"limits":{"cpu":"%s"}},"env":[%s]}]}}}}`
	change(r, "deployments", "web", types.StrategicMergePatchType, fmt.Sprintf(container, true, "example/app:2.0", "2", `{"name":"A","value":"new"},{"name":"B","$patch":"delete"},{"name":"C","value":"added"}`))
	change(r, "deployments", "web", types.StrategicMergePatchType, fmt.Sprintf(container, true, "example/app:2.0", "1", ""))
	change(r, "deployments", "scaled", types.MergePatchType, `{"spec":{"replicas":1}}`, "scale")
	if err := errors.Join(r.Cluster.RbacV1().Roles(r.Namespace).Delete(t.Context(), "role", metav1.DeleteOptions{}),
		r.Cluster.AppsV1().Deployments(r.Namespace).Delete(t.Context(), "slow", metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "scaled"},
	}}
	if _, err := r.Cluster.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Create(t.Context(), scaler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// repair repairs the drift of meddle.
func repair(r *rig.Rig) {
	t, start := r.T, time.Now()
	r.MustRun(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
	if got := drift(r); len(got.Objects) > 0 || got.Revision != 1 {
		t.Errorf("after the repair: revision %d, %q", got.Revision, driftLines(got))
	}
	var written []string
	for _, w := range r.WritesSince(start) {
		_, object, _ := strings.Cut(w, " ")
		if !slices.Contains(written, object) {
			written = append(written, object)
		}
	}
	slices.Sort(written)
	want := []string{"configmaps/conf", "deployments/slow", "deployments/web", "networkpolicies/policy", "roles/role", "secrets/creds", "services/svc"}
	if !slices.Equal(written, want) {
		t.Errorf("the repair wrote %q, want %q", written, want)
	}
	tl := r.Timeline("lockstep").Since(start)
	if web, _ := tl.FirstWrite(t, []string{"Deployment/web"}); !t.Failed() {
		if slow, _ := tl.Ready(t, []string{"Deployment/slow"}); web.Before(slow) {
			t.Errorf("web was written at %s, before slow was ready at %s", rig.Clock(web), rig.Clock(slow))
		}
	}
	web, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	main := web.Spec.Template.Spec.Containers[0]
	if env := main.Env; main.Image != "example/app:2.0" || len(env) != 3 || env[2].Name != "C" && env[1].Name != "C" && env[0].Name != "C" {
		t.Errorf("the repair changed what is ignored, or what others have added: %s, %v", main.Image, env)
	}
	scaled, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "scaled", metav1.GetOptions{})
	if err != nil || *scaled.Spec.Replicas != 1 {
		t.Errorf("the repair scaled what an autoscaler scales: %v, %v", scaled.Spec.Replicas, err)
	}
	if got := r.ConfigMapData("conf"); got["added"] != "x" || got["text"] != "same" {
		t.Errorf("conf has %v", got)
	}
	r.AssertHistory("1 deployed")
}

// TestDriftThatCannotBeCompared (S18): a release that does not exist, one whose latest revision failed, and objects that the user
// may not read are named; the rest is compared.
func TestDriftThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("conf", nil), rig.Object("v1/Secret/creds", nil)), nil))
	c := r.ConnectAs("blind", rig.Rule("", "secrets", "get", "list"))
	key := func(name string) kube.ReleaseKey { return kube.ReleaseKey{Namespace: r.Namespace, Name: name} }
	found, err := c.Drift(t.Context(), []kube.ReleaseKey{key("none"), key("t")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(found[0].Error, "release none not found") {
		t.Errorf("a missing release: %+v", found[0])
	}
	if differ, unread := found[1].Drifted(); differ != 0 || unread != 1 || !strings.Contains(found[1].Objects[0].Unread, "configmaps") {
		t.Errorf("objects that may not be read: %+v", found[1])
	}
	r.MustFail(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.FailingJob(nil)), func(d *kube.Deploy) { d.WaitForJobs = kube.AllJobs })))
	if d := drift(r); !strings.Contains(d.Error, "revision 2 of release t is failed") {
		t.Errorf("a failed release: %+v", d)
	}
	if _, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}); err == nil || !strings.Contains(err.Error(), "revision 2 of release t is failed") {
		t.Errorf("the repair of a failed release: %v", err)
	}
}

// TestDriftOfManyReleases (S18): 200 releases are compared with at most three requests for each kind and namespace, whatever is
// gone.
func TestDriftOfManyReleases(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const many = 200
	var keys []kube.ReleaseKey
	records, scope := r.Helm().Releases, map[string]string{"meta.helm.sh/release-namespace": r.Namespace}
	for n := range many {
		name := fmt.Sprint("r", n)
		chart := rig.HelmChart(t, rig.ChartOf(t))
		rel := &rel1.Release{Name: name, Namespace: r.Namespace, Version: 1, Chart: chart, Info: &rel1.Info{Status: rcommon.StatusDeployed},
			Manifest: "---\n# Source: edge/templates/all.yaml\n" + rig.ConfigMap(name, nil) + "\n---\n# Source: edge/templates/all.yaml\n" + rig.Object("v1/Secret/"+name, nil, "stringData: {a: same}")}
		if err := records.Create(rel); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, kube.ReleaseKey{Namespace: r.Namespace, Name: name})
		meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, Annotations: maps.Clone(scope)}
		meta.Annotations["meta.helm.sh/release-name"] = name
		conf := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"is": name}}
		switch {
		case n%50 == 7:
			conf.Data["is"] = "other"
		case n%50 == 8:
			delete(conf.Labels, "app.kubernetes.io/managed-by")
		}
		if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), conf, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if n%50 == 9 {
			continue // its Secret is gone
		}
		meta.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		if _, err := r.Cluster.CoreV1().Secrets(r.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": "same"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	found, err := r.Client.Drift(t.Context(), keys)
	if err != nil || len(found) != many {
		t.Fatalf("%d releases: %v", len(found), err)
	}
	for _, d := range found {
		n, _ := strconv.Atoi(strings.TrimPrefix(d.Release, "r"))
		want := map[int]string{7: "data.is", 8: "metadata.labels", 9: "gone"}[n%50]
		if got := strings.Join(driftLines(d), ","); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", d.Release, got, want)
		}
	}
	log := r.Log()
	requests := map[string]int{}
	for _, e := range log.UserAgent("lockstep").Namespace(r.Namespace) {
		if e.Received.After(start) && e.Stage == auditlog.ResponseComplete {
			requests[e.Object.Resource]++
		}
	}
	if requests["configmaps"] > 3 || requests["secrets"] > 3 || requests["namespaces"] > 1 || len(requests) > 3 { // the namespace may be being deleted
		t.Errorf("requests: %v", requests)
	}
}

// TestViewSaysWhoChanged (S18): a view of a release says what somebody has changed since it was deployed, before and while it
// is open; not of what the chart ignores, of what others have added, or of what a repair took back.
func TestViewSaysWhoChanged(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(driftChart(t), nil))
	change(r, "configmaps", "conf", types.MergePatchType, `{"data":{"text":"other","added":"x"}}`)
	change(r, "deployments", "web", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/app:2.0"}]}}}}`)
	v := r.OpenView(0)
	drifted := func(want ...string) func(*event.State) bool {
		return func(s *event.State) bool {
			var got []string
			for _, o := range s.Drifted() {
				for _, d := range o.Drift {
					got = append(got, o.Object.String()+" "+d.Manager+" "+d.Field)
				}
			}
			slices.Sort(got)
			return slices.Equal(got, want) && rig.AllGroups(s, event.Ready)
		}
	}
	conf := "ConfigMap/conf somebody data.text"
	v.Await("what was changed before", drifted(conf))
	change(r, "deployments", "web", types.MergePatchType, `{"spec":{"replicas":0,"paused":true}}`)
	change(r, "deployments", "web", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"B","value":"y"}]}]}}}}`)
	v.Await("what was changed later", drifted(conf, "Deployment/web somebody spec.template.spec.containers[main].env[B].value"))
	r.MustRun(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
	again := r.OpenView(0)
	again.Await("nothing after the repair", func(s *event.State) bool {
		select {
		case <-again.View.Seen():
			return drifted()(s)
		default:
			return false
		}
	})
}

// TestViewSaysWhoOwns (S18): a view of a release says that an object belongs to another release now, also of kinds of which it reads
// only the metadata, until the release has it again.
func TestViewSaysWhoOwns(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"configmaps/shared", "deployments/web"}
	chart := rig.ChartOf(t, rig.ConfigMap("shared", nil, "v: '1'"), rig.Deployment("web", nil, "0s"))
	r.Deploy("plain", rig.UseChart(chart, nil))
	owners := func(want string) func(*event.State) bool {
		return func(s *event.State) bool {
			got := map[string]bool{}
			for _, o := range s.Drifted() {
				got[o.Object.String()+": "+phrase.Drift(o.Drift)] = true
			}
			return rig.AllGroups(s, event.Ready) && (want == "" && len(got) == 0 || len(got) == 2 && got["ConfigMap/shared: "+want] && got["Deployment/web: "+want])
		}
	}
	v := r.OpenView(0)
	v.Await("nothing of others", owners(""))
	r.Deploy("plain", rig.UseChart(chart, func(d *kube.Deploy) { d.Release, d.TakeOwnership = "other", true }))
	v.Await("what other has taken", owners("changed by release other in namespace "+r.Namespace+": metadata.annotations[meta.helm.sh/release-name]"))
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(d *kube.Deploy) { d.TakeOwnership = true })))
	v.Await("nothing of others again", owners(""))
}

// TestRepairThatChangesNothing (S18): client-side apply has no patch that brings a lost port back if another one has its number. The
// repair does not say that it is done.
func TestRepairThatChangesNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: dns}\nspec: {ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]}\n"
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, service), func(d *kube.Deploy) { d.ServerSide = "false" }))
	change(r, "services", "dns", types.JSONPatchType, `[{"op":"remove","path":"/spec/ports/1"}]`)
	if got := driftLines(drift(r)); len(got) != 1 {
		t.Fatalf("drift %q", got)
	}
	out := r.Run(r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})), nil)
	if out.Err == nil || out.State.Exit != 1 || !strings.Contains(out.State.Message, "Service/dns") || !strings.Contains(out.State.Message, "spec.ports[tcp]") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, service), func(d *kube.Deploy) { d.ServerSide = "true" })))
	if got := drift(r); len(got.Objects) > 0 {
		t.Errorf("after the upgrade: %q", driftLines(got))
	}
}

// TestRevisionDuringRepair (S18, R51b): somebody else creates a revision after the last write of a repair. The repair does not say that
// the release is as its revision says.
func TestRevisionDuringRepair(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("app", nil, "3s")), nil))
	if err := r.Cluster.AppsV1().Deployments(r.Namespace).Delete(t.Context(), "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	op := r.Must(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
	var once sync.Once
	out := r.Run(op, func(e event.Event) {
		if e.Kind != event.KindObject || e.Change == "" {
			return
		}
		once.Do(func() { // while the Deployment becomes ready
			last, err := r.Helm().Releases.Last("t")
			if err == nil {
				rel := last.(*rel1.Release)
				rel.Version++
				err = r.Helm().Releases.Create(rel)
			}
			if err != nil {
				t.Error(err)
			}
		})
	})
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "revision 2") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
}
