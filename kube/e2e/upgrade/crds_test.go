package upgrade

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/session"
	"lockstep/kube/throwaway/faultproxy"
)

// crdChart returns a chart with a CRD in crds/ that has the given versions and stores the last one, and if resource is set,
// a custom resource.
func crdChart(t *testing.T, group string, resource bool, versions ...string) *kube.Deploy {
	t.Helper()
	fs := rig.Files{"crds/gears.yaml": crdText(group, versions...), "templates/a.yaml": rig.ConfigMap("a", nil)}
	if last := versions[len(versions)-1]; resource {
		fs["templates/gear.yaml"] = rig.Object(group+"/"+last+"/Gear/g", nil, "spec: {size: x}")
	}
	return &kube.Deploy{ChartOptions: kube.ChartOptions{Chart: rig.MakeChart(t, fs)}}
}

// crdText returns a CRD that has the given versions and stores the last one.
func crdText(group string, versions ...string) string {
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears." + group + "}\nspec:\n  group: " + group +
		"\n  scope: Namespaced\n  names: {kind: Gear, listKind: GearList, plural: gears, singular: gear}\n  versions:\n"
	for n, v := range versions {
		text += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %v\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}\n",
			v, n == len(versions)-1)
	}
	return text
}

// versions returns the versions of the test's CRD in the cluster.
func versions(r *rig.Rig, group string) (out []string) {
	r.T.Helper()
	crd, err := r.Client.Dynamic.Resource(rig.CRDResource).Get(r.T.Context(), "gears."+group, metav1.GetOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		out = append(out, v.(map[string]any)["name"].(string))
	}
	return out
}

// TestUpgradeCRDs: crds/ are upgraded only on request, before everything else, and never if
// stored objects would become unreadable.
func TestUpgradeCRDs(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	api := r.Namespace + ".example"
	to := func(up *kube.Deploy, crds bool) func(*kube.Deploy) {
		return rig.UseChart(up.Chart, func(u *kube.Deploy) { u.CRDs = map[bool]string{true: kube.CRDsUpgrade}[crds] })
	}
	r.MustRun(r.Install("plain", rig.UseChart(crdChart(t, api, true, "v1").Chart, nil)))

	two := crdChart(t, api, true, "v1", "v2")
	r.MustRun(r.Upgrade("plain", to(crdChart(t, api, true, "v1"), false)))
	if got := versions(r, api); !slices.Equal(got, []string{"v1"}) {
		t.Fatalf("without UpgradeCRDs the versions are %v", got)
	}
	_, diffs := r.Changes(r.Upgrade("plain", to(two, true)))
	if c := diffs["CustomResourceDefinition/gears."+api]; c.Action != inspect.Modify || c.Phase != session.PhaseCRDs || !strings.Contains(c.Diff, "+  - name: v2\n") {
		t.Errorf("the plan has %+v", c)
	}

	start := time.Now()
	out := r.MustRun(r.Upgrade("plain", to(two, true)))
	if p := out.State.Phases[0]; p.Kind != event.PhaseCRDs || p.Groups[0].Status != event.Ready {
		t.Errorf("the first phase is %s (%s)", p.Name, p.Groups[0].Status)
	}
	if got := versions(r, api); !slices.Equal(got, []string{"v1", "v2"}) {
		t.Errorf("the versions are %v, want [v1 v2]", got)
	}
	w := r.WritesSince(start)
	if len(w) < 2 || w[0] != "patch customresourcedefinitions/gears."+api || !strings.Contains(w[1], "secrets/sh.helm.release") {
		t.Errorf("wrote %v", w)
	}

	start = time.Now()
	_, err := r.Upgrade("plain", to(crdChart(t, api, false, "v2"), true))
	if err == nil || !strings.Contains(err.Error(), "lose version v1") || !strings.Contains(err.Error(), "storedVersions") {
		t.Errorf("removing a stored version is not refused: %v", err)
	}
	if w := r.WritesSince(start); len(w) > 0 {
		t.Errorf("the refused upgrade wrote %v", w)
	}
}

// TestCRDsOfASecondInstall: as in Helm, a server-side install applies the CRDs in crds/ that exist, too, so that its objects fit. It
// takes nothing away from what other releases need: then the CRD stays, and objects that do not fit are refused before the first
// write (R29a). crds/ may have objects of a namespace.
func TestCRDsOfASecondInstall(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example"
	wider := strings.Replace(crdText(group, "v1"), "size: {type: string}", "size: {type: string}, mode: {type: string}", 1)
	install := func(release, crd, spec string) (*kube.Operation, error) {
		chart := rig.MakeChart(t, rig.Files{"crds/gears.yaml": crd, "crds/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: in-crds}\n",
			"templates/gear.yaml": rig.Object(group+"/v1/Gear/"+release, nil, spec)})
		return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Release = release }))
	}
	r.MustRun(install("one", crdText(group, "v1"), "spec: {size: x}"))
	op, err := install("two", wider, "spec: {mode: x}")
	if _, changes := r.Changes(op, err); changes["CustomResourceDefinition/gears."+group].Action != inspect.Modify {
		t.Errorf("the plan says %+v", changes["CustomResourceDefinition/gears."+group])
	}
	r.MustRun(op, nil)
	start := time.Now()
	_, err = install("three", crdText(group, "v1"), "spec: {siez: x}")
	r.MustRefuse(start, err, "Gear/three: unknown field spec.siez", "--crds=upgrade")
	op, err = install("three", crdText(group, "v1"), "spec: {mode: fast}")
	if _, changes := r.Changes(op, err); !strings.Contains(changes["CustomResourceDefinition/gears."+group].Message, "stays as it is: the CRD of the chart removes field spec.mode of v1") {
		t.Errorf("the plan says %+v", changes["CustomResourceDefinition/gears."+group])
	}
	out := r.MustRun(op, err)
	if !out.HasWarning("R29a", "stays as it is: the CRD of the chart removes field spec.mode of v1") {
		t.Errorf("warnings: %v", out.State.Warnings)
	}
	if maps := r.ConfigMaps(r.Namespace); !slices.Contains(maps, "in-crds") {
		t.Errorf("ConfigMaps %v", maps)
	}
	// somebody else's newer CRD: a conflict is not the reason, as forcing it would lose a field
	r.Create(strings.NewReplacer("gear", "cog", "Gear", "Cog").Replace(wider))
	op, err = install("four", strings.NewReplacer("gear", "cog", "Gear", "Cog").Replace(crdText(group, "v1")), "spec: {mode: fast}")
	if _, changes := r.Changes(op, err); !strings.Contains(changes["CustomResourceDefinition/cogs."+group].Message, "stays as it is: the CRD of the chart removes field spec.mode of v1") {
		t.Errorf("the plan says %+v", changes["CustomResourceDefinition/cogs."+group])
	}
}

// TestCRDChangedSinceThePlan: what a CRD loses is decided when it is written: another release may have widened it since the plan
// (R29a). Then it stays as it is, or is applied if it loses nothing; with --crds=upgrade the operation fails, as the plan did not show
// the loss.
func TestCRDChangedSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before bool // the CRD exists when the install is planned
		crds   string
		adds   string // to the CRD of the planned install
		keeps  bool   // the CRD stays as the other release has applied it
		fails  bool
	}{
		"stays":             {before: true, adds: "mode", keeps: true},
		"is new":            {adds: "mode", keeps: true},
		"is applied":        {before: true, adds: "mode: {type: string}, speed: {type: string}, wheels", keeps: false},
		"new, is applied":   {adds: "mode: {type: string}, speed: {type: string}, wheels", keeps: false},
		"explicit upgrade":  {before: true, crds: kube.CRDsUpgrade, adds: "mode", keeps: true, fails: true},
		"upgraded, applied": {before: true, crds: kube.CRDsUpgrade, adds: "mode: {type: string}, speed: {type: string}, wheels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			group := r.Namespace + ".example"
			with := func(fields string) string {
				return strings.Replace(crdText(group, "v1"), "size: {type: string}", "size: {type: string}, "+fields+": {type: string}", 1)
			}
			install := func(release, crd, crds string, docs ...string) (*kube.Operation, error) {
				chart := rig.MakeChart(t, rig.Files{"crds/gears.yaml": crd, "templates/all.yaml": strings.Join(append(docs, rig.ConfigMap(release, nil)), "\n---\n")})
				return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Release, i.CRDs = release, crds }))
			}
			if c.before {
				r.MustRun(install("zero", crdText(group, "v1"), ""))
			}
			op, err := install("one", with(c.adds), c.crds)
			r.MustRun(install("two", with("mode: {type: string}, speed"), "", rig.Object(group+"/v1/Gear/g", nil, "spec: {speed: fast}")))
			if c.fails {
				if err != nil {
					t.Fatal(err)
				}
				if out := r.Run(op, nil); out.State.Exit != 2 || !strings.Contains(phrase.Reason(&out.State), "the CRD of the chart removes field spec.speed of v1") {
					t.Errorf("exit %d: %s", out.State.Exit, phrase.Reason(&out.State))
				}
			} else if out := r.MustRun(op, err); out.HasWarning("R29a", "stays as it is", "removes field spec.speed of v1") != c.keeps {
				t.Errorf("warnings: %v", out.State.Warnings)
			}
			gear, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gears"}).Namespace(r.Namespace).Get(t.Context(), "g", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if speed, _, _ := unstructured.NestedString(gear.Object, "spec", "speed"); speed != "fast" {
				t.Error("the object of the other release has lost its field")
			}
			crd, err := r.Client.Dynamic.Resource(rig.CRDResource).Get(t.Context(), "gears."+group, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if applied := strings.Contains(fmt.Sprint(crd.Object["spec"]), "wheels"); applied == c.keeps {
				t.Errorf("applied: %t", applied)
			}
		})
	}
}

// TestCRDConversion: an upgrade of a CRD that Helm created by client-side apply may drop its conversion webhook.
func TestCRDConversion(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example"
	crd := func(conversion string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears." + group + "}\nspec:\n  group: " + group +
			"\n  scope: Namespaced\n  names: {kind: Gear, listKind: GearList, plural: gears, singular: gear}\n  conversion: {" + conversion + "}" +
			"\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(crd(`strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}}`)), &u.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client.Dynamic.Resource(rig.CRDResource).Create(t.Context(), u, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
		t.Fatal(err)
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))
	next := rig.MakeChart(t, rig.Files{"crds/gears.yaml": crd("strategy: None"), "templates/a.yaml": rig.ConfigMap("a", nil)})
	op, err := r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.CRDs = kube.CRDsUpgrade }))
	_, changes := r.Changes(op, err)
	if c := changes["CustomResourceDefinition/gears."+group]; c.Action != inspect.Modify || !strings.Contains(c.Diff, "webhook") {
		t.Errorf("the plan says %s %q\n%s", c.Action, c.Message, c.Diff)
	}
	r.MustRun(op, nil)
}

// TestCRDMovesToCRDs: a CRD that moves from the templates of a chart to its crds/ stays in the cluster, with all objects of its
// kind: an upgrade, with and without UpgradeCRDs, does not delete it, and neither does a later uninstall (R30).
func TestCRDMovesToCRDs(t *testing.T) {
	t.Parallel()
	for _, upgradeCRDs := range []bool{false, true} {
		r := rig.NewNamed(t, fmt.Sprintf("crd-moves-%t", upgradeCRDs))
		api := r.Namespace + ".example"
		crds := func(dir string) rig.Files {
			return rig.Files{dir + "/gears.yaml": crdText(api, "v1"), "templates/a.yaml": rig.ConfigMap("a", nil)}
		}
		r.Deploy("plain", rig.UseChart(rig.MakeChart(t, crds("templates")), nil))
		next := rig.UseChart(rig.MakeChart(t, crds("crds")), func(u *kube.Deploy) { u.CRDs = map[bool]string{true: kube.CRDsUpgrade}[upgradeCRDs] })
		lines, _ := r.Changes(r.Upgrade("plain", next))
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+string(inspect.Delete)) }) {
			t.Errorf("UpgradeCRDs %t: the plan is %v", upgradeCRDs, lines)
		}
		r.MustRun(r.Upgrade("plain", next))
		r.MustRun(r.Uninstall())
		if got := versions(r, api); !slices.Equal(got, []string{"v1"}) {
			t.Errorf("UpgradeCRDs %t: the versions are %v", upgradeCRDs, got)
		}
	}
}

// TestCRDWithObjectsOfOthers: a CRD in the templates stays while there are objects of its kind that the release does not delete,
// whatever removes it: the rollback of an install, an upgrade, a rollback, or an uninstall (R31a).
func TestCRDWithObjectsOfOthers(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	kinds := rig.LateKinds(r.Namespace + ".example")
	object := func(k rig.LateKind, name string, annotations map[string]string) string {
		return rig.Object(k.API+"/v1/"+k.Kind+"/"+name, annotations, "spec: {size: x}")
	}
	objects := func(k rig.LateKind) dynamic.ResourceInterface {
		return r.Client.Dynamic.Resource(schema.GroupVersionResource{Group: k.API, Version: "v1", Resource: k.Plural}).Namespace(r.Namespace)
	}
	assertObjects := func(when string, k rig.LateKind, want ...string) {
		t.Helper()
		list, err := objects(k).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list.Items {
			got = append(got, o.GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: objects %v, want %v", when, got, want)
		}
	}

	fails := rig.ChartOf(t, kinds[1].CRD(rig.Group("kind")), kinds[1].Object(rig.Group("own", "kind")), rig.UnpullableDeployment("fails", rig.Group("fails", "own")))
	op := r.Must(r.Install("plain", rig.UseChart(fails, func(i *kube.Deploy) { i.RollbackOnFailure, i.ReadinessTimeout = true, 4*time.Second })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Group == "edge:own" && e.Status == event.Ready {
			r.Create(object(kinds[1], "theirs", nil))
		}
	})
	if out.State.Exit != event.ExitFailed || r.Status() != "" {
		t.Errorf("exit %d, release %q: %s", out.State.Exit, r.Status(), out.State.Message)
	}
	assertObjects("the rollback of an install", kinds[1], "theirs")
	kept := "it has 1 object in 1 namespace: " + r.Namespace + "/theirs"
	if !slices.ContainsFunc(op.Feed().Events(), func(e event.Event) bool { return e.Message == "kept: "+kept }) {
		t.Errorf("no event says: %s", kept)
	}

	keepAnnotation := rig.Group("own", "kind")
	keepAnnotation["helm.sh/resource-policy"] = "keep"
	k, plain := kinds[0], rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil)
	with := rig.ChartOf(t, rig.ConfigMap("a", nil), k.CRD(rig.Group("kind")), k.Object(rig.Group("own", "kind")),
		object(k, "stays", keepAnnotation))
	r.Deploy("plain", rig.UseChart(with, nil))
	r.Create(object(k, "theirs", nil))
	r.MustRun(r.Upgrade("plain", plain))
	assertObjects("an upgrade", k, "stays", "theirs")
	r.MustRun(r.Rollback(1))
	r.MustRun(r.Rollback(2))
	assertObjects("a rollback", k, "stays", "theirs")
	r.MustRun(r.Rollback(1))
	lines, changes := r.Changes(r.Uninstall())
	kept = "it has 2 objects in 1 namespace: " + r.Namespace + "/stays, " + r.Namespace + "/theirs"
	if c := changes["CustomResourceDefinition/"+k.Plural+"."+k.API]; c.Action != inspect.Keep || c.Message != kept {
		t.Errorf("the plan of the uninstall is %q: %q", lines, c.Message)
	}
	if err := objects(k).Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Uninstall())
	assertObjects("an uninstall", k, "stays")
}

// TestExpiredPages: the objects of others are found, although the API server forgets the state of a list between two pages.
func TestExpiredPages(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	k := rig.LateKinds(r.Namespace + ".example")[0]
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), k.CRD(nil)), nil))
	for _, name := range []string{"one", "three", "two"} {
		r.Create(rig.Object(k.API+"/v1/"+k.Kind+"/"+name, nil, "spec: {size: x}"))
	}
	expired := false
	r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		q := req.URL.Query()
		if req.URL.Path != "/apis/"+k.API+"/v1/"+k.Plural || q.Get("limit") == "" {
			return false
		}
		if q.Has("continue") {
			expired = true
			faultproxy.Refuse(w, http.StatusGone, "Expired", "the provided continue parameter is too old")
			return true
		}
		q.Set("limit", "2")
		req.URL.RawQuery = q.Encode()
		return false
	}}, "")
	kept := "it has 3 objects in 1 namespace: " + r.Namespace + "/one, " + r.Namespace + "/three, " + r.Namespace + "/two"
	_, changes := r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil)))
	if c := changes["CustomResourceDefinition/"+k.Plural+"."+k.API]; c.Action != inspect.Keep || c.Message != kept || !expired {
		t.Errorf("%s: %q, want %q; expired: %t", c.Action, c.Message, kept, expired)
	}
}

// TestCRDWithUnservedStorage: a CRD whose storage version is not served stays while others have objects of its kind in a version that
// is (R31a).
func TestCRDWithUnservedStorage(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example"
	a := rig.ConfigMap("a", nil)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a, crdText(group, "v2", "v1")), nil))
	r.Create(rig.Object(group+"/v2/Gear/theirs", nil, "spec: {size: x}"))
	unserved := strings.Replace(crdText(group, "v2", "v1"), "name: v1\n    served: true", "name: v1\n    served: false", 1)
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, unserved), nil)))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if got := versions(r, group); !slices.Equal(got, []string{"v2", "v1"}) {
		t.Errorf("the CRD has versions %v", got)
	}
	resource := schema.GroupVersionResource{Group: group, Version: "v2", Resource: "gears"}
	if _, err := r.Client.Dynamic.Resource(resource).Namespace(r.Namespace).Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
		t.Errorf("the object of somebody else: %v", err)
	}
}
