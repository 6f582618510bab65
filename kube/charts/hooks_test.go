package charts

import (
	"slices"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
)

// TestIgnoredAnnotations: each value of Helm's annotations that Helm ignores, and each ordering annotation of a
// list, is a warning (R2b).
func TestIgnoredAnnotations(t *testing.T) {
	const (
		allEvents   = "pre-install, post-install, pre-upgrade, post-upgrade, pre-rollback, post-rollback, pre-delete, post-delete, test, test-success"
		allPolicies = "before-hook-creation, hook-succeeded, hook-failed"
	)
	for annotations, want := range map[string][]string{
		``:                                    nil,
		`helm.sh/hook: "pre-install"`:         nil,
		`helm.sh/hook: " Test , pre-install"`: nil,
		`helm.sh/hook: test, helm.sh/hook-weight: "-5"`:                                      nil,
		`helm.sh/hook: test, helm.sh/hook-weight: ""`:                                        nil,
		`helm.sh/hook: test, helm.sh/hook-delete-policy: "hook-failed,Before-Hook-Creation"`: nil,
		`helm.sh/hook: test, helm.sh/hook-output-log-policy: "hook-failed, hook-succeeded"`:  nil,
		`helm.sh/hook-weight: abc`:                                                           nil, // not a hook
		`helm.sh/resource-policy: keep`:                                                      nil,
		`helm.sh/resource-policy: ""`:                                                        nil,
		`helm.sh/hook: pre-instal`:                                                           {`unknown hook "pre-instal", so it is never applied; did you mean pre-install?`},
		`helm.sh/hook: "pre-install,never"`:                                                  {`unknown hook "never", so it is never applied; use one of ` + allEvents},
		`helm.sh/hook: ""`:                                                                   {`unknown hook "", so it is never applied; use one of ` + allEvents},
		`helm.sh/hook: crd-install`:                                                          {`unknown hook "crd-install", so it is never applied; move it to crds/`},
		`helm.sh/hook: nope, helm.sh/hook-weight: abc`:                                       {`unknown hook "nope", so it is never applied; use one of ` + allEvents},
		`helm.sh/hook: test, helm.sh/hook-weight: abc`:                                       {`helm.sh/hook-weight "abc" is not an integer, so Helm uses 0; write an integer`},
		`helm.sh/hook: test, helm.sh/hook-delete-policy: "hook-failed,nope", helm.sh/hook-output-log-policy: hook-succeded`: {
			`unknown helm.sh/hook-delete-policy "nope" has no effect; use one of ` + allPolicies,
			`unknown helm.sh/hook-output-log-policy "hook-succeded" has no effect; did you mean hook-succeeded?`,
		},
		`helm.sh/hook: "pre-delete,pre-install", lockstep/no-return: x`: nil,
		`helm.sh/hook: "pre-delete,post-delete", lockstep/no-return: x`: {`annotation lockstep/no-return has no effect on a hook that runs only when the release is uninstalled`},
		`helm.sh/hook: pre-install, lockstep/wait-for: "[]"`:            {`annotation lockstep/wait-for has no effect on a hook; set it on an object of a group that comes before, or wait in the hook itself`},
		`helm.sh/resource-policy: Keep`:                                 {`helm.sh/resource-policy "Keep" keeps the object, but Helm's upgrades delete it; use keep`},
		`helm.sh/resource-policy: kept`:                                 {`unknown helm.sh/resource-policy "kept" has no effect; use keep`},
	} {
		outputs := Outputs{{"shop/charts/db/templates/a.yaml", "---\nkind: ConfigMap\nmetadata: {name: a, annotations: {" + annotations + "}}\n"}}
		var got []string
		for _, w := range IgnoredAnnotations(outputs, "shop", nil) {
			if w.Rule != "R2b" || w.Chart != "shop/db" {
				t.Errorf("%s: warning of rule %s and chart %s, want R2b and shop/db", annotations, w.Rule, w.Chart)
			}
			got = append(got, w.Message)
		}
		for i := range want {
			want[i] = "shop/db: ConfigMap/a: " + want[i]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", annotations, got, want)
		}
	}
	list := Outputs{{"shop/templates/a.yaml", "kind: List\nmetadata: {annotations: {helm.sh/resource-group: a, helm.sh/depends-on/resource-groups: b}}\nitems: []\n"}}
	var onList []string
	for _, w := range IgnoredAnnotations(list, "shop", nil) {
		onList = append(onList, w.Message)
	}
	if want := []string{
		"shop: List: annotation helm.sh/resource-group has no effect on a list; set it on its items",
		"shop: List: annotation helm.sh/depends-on/resource-groups has no effect on a list; set it on its items",
	}; !slices.Equal(onList, want) {
		t.Errorf("ordering annotations of a list: %q, want %q", onList, want)
	}
	notes := Outputs{{"shop/templates/NOTES.txt", "metadata: {annotations: {helm.sh/hook: nope}}"}, {"shop/templates/a.yaml", "helm.sh/hook: [invalid"}}
	if got := IgnoredAnnotations(notes, "shop", nil); got != nil {
		t.Errorf("warnings about notes and invalid YAML: %v", got)
	}
}

// TestHookGroups (R5): each hook has a name, also one that the API server names, and no two have the same ID.
func TestHookGroups(t *testing.T) {
	rel := &release.Release{Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "shop"}}}
	job := func(field, name string) *release.Hook {
		h := &release.Hook{Kind: "Job", Manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {" + field + ": " + name + "}\n"}
		if field == "name" {
			h.Name = name
		}
		return h
	}
	var groups []*plan.Group
	var got []string
	for _, h := range []*release.Hook{job("generateName", "job-"), job("generateName", "job-"), job("generateName", "job-"), job("name", "one"), job("name", "one")} {
		groups = append(groups, HookGroup(rel, h, release.HookPostInstall, groups))
		got = append(got, groups[len(groups)-1].ID+" "+groups[len(groups)-1].Name)
	}
	want := []string{
		"post-install:Job/job- Job/job-", "post-install:Job/job-#2 Job/job-#2", "post-install:Job/job-#3 Job/job-#3", "post-install:Job/one Job/one", "post-install:Job/one' Job/one",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestIgnoredAnnotationsOfDocs: objects of the release are not parsed again.
func TestIgnoredAnnotationsOfDocs(t *testing.T) {
	const text = "kind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/resource-policy: keep}}"
	parsed := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"helm.sh/resource-policy": "parsed"}}}}
	outputs := Outputs{{"shop/templates/a.yaml", "---\n" + text}}
	if got := IgnoredAnnotations(outputs, "shop", []Document{{Raw: text + "\n", Object: parsed}}); len(got) != 1 {
		t.Errorf("%d warnings, want one about the parsed object", len(got))
	}
}
