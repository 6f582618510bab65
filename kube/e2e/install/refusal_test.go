package install

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestBadChartsWriteNothing prepares every chart of testdata/bad. It expects the error of the .want file, and no writes.
func TestBadChartsWriteNothing(t *testing.T) {
	t.Parallel()
	wants, err := filepath.Glob("../../../testdata/bad/*.want")
	if err != nil || len(wants) == 0 {
		t.Fatal("no bad charts", err)
	}
	for _, want := range wants {
		name := strings.TrimSuffix(filepath.Base(want), ".want")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Split(strings.TrimSpace(string(line)), "\t")
			path := strings.TrimSuffix(want, ".want")
			if _, err := os.Stat(path); err != nil {
				path += ".tgz"
			}
			r := rig.New(t)
			chart, err := charts.LoadPath(path)
			if err == nil {
				_, err = r.Client.PrepareInstall(t.Context(), kube.Deploy{ChartOptions: kube.ChartOptions{Chart: chart}, Common: kube.Common{Release: "t", Namespace: r.Namespace}})
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range fields[1:] {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if w := r.Writes(); len(w) > 0 {
				t.Errorf("written: %v", w)
			}
		})
	}
}

// TestBadInputWritesNothing has errors outside the chart.
func TestBadInputWritesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		chart  string
		before func(*rig.Rig)
		change func(*kube.Deploy)
		want   []string
	}{
		{name: "readiness timeout above timeout", change: func(i *kube.Deploy) { i.Timeout, i.ReadinessTimeout = time.Minute, 2*time.Minute },
			want: []string{"--readiness-timeout", "R25"}},
		{name: "missing namespace", change: func(i *kube.Deploy) { i.Namespace = "not-there" }, want: []string{"not-there", "--create-namespace"}},
		{name: "release name in use", before: func(r *rig.Rig) { r.Deploy("plain", nil) }, want: []string{"in use", "revision 1"}},
		{name: "bad release name", change: func(i *kube.Deploy) { i.Release = "Not_A_Name" }, want: []string{"Not_A_Name"}},
		{name: "object of another release", before: func(r *rig.Rig) {
			r.Deploy("plain", func(i *kube.Deploy) { i.Release = "other" })
		}, want: []string{"settings", "owned by release other"}},
		{name: "unknown breakpoint", change: func(i *kube.Deploy) { i.BreakOn = []string{"plain:nope"} }, want: []string{"plain:nope", "plain:(unsequenced)"}},
		{name: "unknown wait strategy", change: func(i *kube.Deploy) { i.Wait = "sometimes" }, want: []string{"sometimes", "ordered", "R27"}},
		{name: "values against the schema", chart: "shop", change: func(i *kube.Deploy) {
			i.Values = rig.MergeValues(i.Values, map[string]any{"global": map[string]any{"speed": 0}})
		}, want: []string{"shop", "speed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			if tt.before != nil {
				tt.before(r)
			}
			before := len(r.Writes())
			_, err := r.Install(cmp.Or(tt.chart, "plain"), tt.change)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if w := r.Writes(); len(w) != before {
				t.Errorf("written: %v", w[before:])
			}
		})
	}
}

func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	s := cli.New()
	s.KubeConfig, s.KubeAPIServer = rig.Sandbox.Kubeconfig, "https://127.0.0.1:1"
	c, err := kube.Connect(s, nil, nil)
	if err == nil {
		_, err = c.PrepareInstall(t.Context(), kube.Deploy{ChartOptions: kube.ChartOptions{Chart: rig.LoadChart(t, "plain")}, Common: kube.Common{Release: "t", Namespace: "default"}})
	}
	if err == nil || !strings.Contains(err.Error(), "cannot reach the cluster") {
		t.Errorf("error %v", err)
	}
}

// TestMalformedFields: the API server would refuse to apply these objects (R2a), so nothing is written. A kind that the
// chart defines itself is not checked, because the cluster may have another definition of it.
func TestMalformedFields(t *testing.T) {
	t.Parallel()
	pod := func(field string) string {
		return "spec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: main, image: example/app:1.0" + field + "}]\n"
	}
	crd := func(api string) string {
		return rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/gears."+api, nil, "spec:\n  group: "+api+"\n  scope: Namespaced\n  names: {kind: Gear, plural: gears}",
			"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {teeth: {type: integer}}}}}}}]")
	}
	gear := func(api string) string { return rig.Object(api+"/v1/Gear/g", nil, "spec: {teeht: 1}") }
	tests := []struct {
		name   string
		docs   func(api string) []string
		before func(api string) []string
		change func(*kube.Deploy)
		want   []string
	}{
		{name: "unknown field", docs: func(string) []string {
			return []string{rig.ConfigMap("a", nil), rig.Object("apps/v1/Deployment/web", nil, pod("")+"  replica: 2")}
		}, want: []string{"Deployment/web: unknown field spec.replica; remove it or correct its name"}},
		{name: "unknown field, applied on the client", docs: func(string) []string {
			return []string{rig.Object("apps/v1/Deployment/web", nil, pod("")+"  replica: 2")}
		},
			change: func(i *kube.Deploy) { i.ServerSide = "false" }},
		{name: "in a namespace that does not exist", docs: func(string) []string { return []string{rig.ConfigMap("a", nil, "b: c\ndta: {}")} },
			change: func(i *kube.Deploy) { i.Namespace, i.CreateNamespace = i.Namespace+"-new", true }, want: []string{"ConfigMap/a: unknown field dta; "}},
		{name: "wrong type", docs: func(string) []string {
			return []string{rig.Object("v1/Service/web", nil, "spec: {ports: [{port: http}]}"), rig.Object("v1/Secret/s", nil, "stringData: {pin: 1234}")}
		}, want: []string{"Service/web: spec.ports[port=\"http\",protocol=\"TCP\"].port must be a number, but is a string; correct it in the chart or its values", "Secret/s: stringData.pin must be a string, but is a number; quote it"}},
		{name: "several faults", docs: func(string) []string { // of those in one object, the API server may report only one
			return []string{rig.Object("v1/ConfigMap/a", nil, "data: {b: true}"), rig.Object("v1/ConfigMap/b", nil, "data: {c: {d: e}}"), rig.Object("v1/ConfigMap/c", nil, "foo: 1")}
		}, want: []string{
			"ConfigMap/a: data.b must be a string, but is a boolean; quote it", "ConfigMap/b: data.c must be a string, but is a map; correct it in the chart or its values",
			"ConfigMap/c: unknown field foo; remove it or correct its name",
		}},
		{name: "wrong type, applied on the client", docs: func(string) []string { return []string{rig.Object("v1/ConfigMap/a", nil, "data: {b: 1}")} },
			change: func(i *kube.Deploy) { i.ServerSide = "false" }, want: []string{"ConfigMap/a: a value in data must be a string, but is a number; quote it"}},
		{name: "no base64", docs: func(string) []string { return []string{rig.Object("v1/Secret/s", nil, "data: {a: abcdefg!}")} },
			want: []string{"Secret/s: a value cannot be decoded: illegal base64 data at input byte 7; correct it in the chart or its values"}},
		{name: "no base64, applied on the client", docs: func(string) []string { return []string{rig.Object("v1/Secret/s", nil, "data: {a: abcdefg!}")} },
			change: func(i *kube.Deploy) { i.ServerSide = "false" }, want: []string{"Secret/s: a value cannot be decoded: illegal base64 data at input byte 7; "}},
		{name: "repeated item", docs: func(string) []string {
			return []string{rig.Object("apps/v1/Deployment/web", nil, pod(", env: [{name: A, value: b}, {name: A, value: c}]"))}
		}, want: []string{"Deployment/web: spec.template.spec.containers[name=\"main\"].env: duplicate entries for key [name=\"A\"]; "}},
		{name: "hook", docs: func(string) []string {
			return []string{rig.ConfigMap("a", nil), rig.Object("v1/ConfigMap/hook", map[string]string{"helm.sh/hook": "pre-install"}, "dta: {}")}
		}, want: []string{"ConfigMap/hook: unknown field dta; "}},
		{name: "generated name", docs: func(string) []string {
			return []string{rig.WithGenerateName(rig.ConfigMap("a-", nil, "b: c\ndta: {}"))}
		},
			want: []string{"ConfigMap/a-: unknown field dta; "}},
		{name: "custom resource", before: func(api string) []string { return []string{crd(api)} }, docs: func(api string) []string { return []string{gear(api)} },
			want: []string{"Gear/g: unknown field spec.teeht; "}},
		{name: "custom resource with its CRD", before: func(api string) []string { return []string{crd(api)} }, docs: func(api string) []string {
			return []string{strings.Replace(crd(api), "teeth", "teeht", 1), gear(api)}
		}, change: func(i *kube.Deploy) { i.TakeOwnership = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			api := r.Namespace + ".example.com"
			if tt.before != nil {
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, tt.before(api)...), func(i *kube.Deploy) { i.Release = "before" }))
			}
			before := len(r.Writes())
			_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, tt.docs(api)...), tt.change))
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "1234") {
				t.Errorf("the error contains a secret value: %v", err)
			}
			if w := r.Writes(); len(w) != before {
				t.Errorf("written: %v", w[before:])
			}
		})
	}
}

// TestUnknownFieldOnTheClient: with client-side apply the API server only warns about unknown fields, of new objects, of a hook, of one
// with a generateName and of a patch, as with Helm (R2a).
func TestUnknownFieldOnTheClient(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Meddles = "the record has fields that the API server ignores"
	chart := rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "b: c\ndta: {}"), rig.WithGenerateName(rig.ConfigMap("made-", nil, "b: c\ndta: {}")),
		rig.Object("v1/ConfigMap/hook", map[string]string{"helm.sh/hook": "pre-install"}, "dta: {}")), func(i *kube.Deploy) { i.ServerSide = "false" })
	want := func(out rig.Outcome, objects ...string) {
		for _, o := range objects {
			if !out.HasWarning("", o+": unknown field dta: the API server ignores it; remove it or correct its name") {
				t.Errorf("no warning of %s: %v", o, out.State.Warnings)
			}
		}
	}
	want(r.MustRun(r.Install("plain", chart)), "ConfigMap/a", "ConfigMap/made-", "ConfigMap/hook")
	want(r.MustRun(r.Upgrade("plain", chart)), "ConfigMap/a")
}

// TestUndecodableValue: the API server refuses a patch with a value that it cannot decode, also in a client-side upgrade,
// so preflight refuses it.
func TestUndecodableValue(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secret := func(data string) string { return rig.Object("v1/Secret/s", nil, data) }
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, secret("data: {a: YQ==}")), func(i *kube.Deploy) { i.ServerSide = "false" }))
	upgrade := func(skip bool) (*kube.Operation, error) {
		return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, secret("data: {a: abcdefg!}")), func(up *kube.Deploy) { up.SkipPreflight = skip }))
	}
	op, err := upgrade(true)
	if err != nil {
		t.Fatal(err)
	}
	if out := r.Run(op, nil); out.Err == nil {
		t.Error("the API server accepted the patch")
	}
	_, err = upgrade(false)
	if err == nil || !strings.Contains(err.Error(), "Secret/s: a value cannot be decoded: illegal base64 data at input byte 7; correct it in the chart or its values") {
		t.Errorf("%v", err)
	}
}
