package preflight

import (
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/session"
)

// TestAccess: the pods of a Job may change another object unless neither their image, their commands nor their permissions
// say so.
func TestAccess(t *testing.T) {
	const (
		job     = "spec: {template: {spec: {containers: [{name: c, image: registry.k8s.io/app}]}}}"
		account = "spec: {template: {spec: {serviceAccountName: fixer, containers: [{name: c, image: app}]}}}"
		edit    = "{roleRef: {kind: ClusterRole, name: edit}, subjects: [{kind: ServiceAccount, name: fixer, namespace: ns}]}"
	)
	objects := map[string]plan.Object{
		"account":     {Kind: "ServiceAccount", Namespace: "ns", Name: "fixer"},
		"binding":     {Group: rbacGroup, Kind: "RoleBinding", Namespace: "ns", Name: "fixer"},
		"clusterrole": {Group: rbacGroup, Kind: "ClusterRole", Name: "edit"},
		"role":        {Group: rbacGroup, Kind: "Role", Namespace: "ns", Name: "fixer"},
		"script":      {Kind: "ConfigMap", Namespace: "ns", Name: "script"},
	}
	rules := func(verb string) string {
		return "{rules: [{apiGroups: [apps], resources: [statefulsets], verbs: [" + verb + "]}]}"
	}
	for name, tt := range map[string]struct {
		job    string
		others map[string]string
		want   bool
	}{
		"a migration":                     {job, nil, false},
		"its image":                       {"spec: {template: {spec: {containers: [{name: c, image: 'registry.test/kubectl:1.30'}]}}}", nil, true},
		"its init container's image":      {"spec: {template: {spec: {initContainers: [{name: c, image: alpine/k8s}], containers: []}}}", nil, true},
		"its command":                     {"spec: {template: {spec: {containers: [{name: c, command: [sh, -c, kubectl delete x]}]}}}", nil, true},
		"a script":                        {job, map[string]string{"script": "{data: {x: kubectl delete x}}"}, true},
		"a role that deletes":             {job, map[string]string{"role": rules("delete")}, true},
		"a role that deletes collections": {job, map[string]string{"role": rules("deletecollection")}, true},
		"a role that reads":               {job, map[string]string{"role": rules("get")}, false},
		"an account of somebody else":     {account, nil, true},
		"an account without a role":       {account, map[string]string{"account": "{}"}, false},
		"a role of somebody else":         {account, map[string]string{"account": "{}", "binding": edit}, true},
		"a known role that reads":         {account, map[string]string{"account": "{}", "binding": edit, "clusterrole": rules("get")}, false},
		"a role made of others":           {account, map[string]string{"account": "{}", "binding": edit, "clusterrole": "{aggregationRule: {x: y}}"}, true},
		"a role of another account":       {job, map[string]string{"binding": edit}, false},
		"a role of all accounts":          {job, map[string]string{"binding": "{roleRef: {kind: ClusterRole, name: edit}, subjects: [{kind: Group, name: 'system:serviceaccounts:ns'}]}"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			planned := &plannedObjects{byObject: map[plan.Object]*incomingObject{}}
			add := func(o plan.Object, text string) *incomingObject {
				x := &incomingObject{Object: o}
				if err := yaml.Unmarshal([]byte(text), &x.fields); err != nil {
					t.Fatal(err)
				}
				planned.byObject[o] = x
				return x
			}
			for other, text := range tt.others {
				add(objects[other], text)
			}
			o := add(plan.Object{Group: "batch", Kind: "Job", Namespace: "ns", Name: "fixer"}, tt.job)
			if got := planned.hasAccess(o, plan.Object{Group: "apps", Kind: "StatefulSet", Namespace: "ns", Name: "web"}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestAccessOfEarlierReleases: a Job of an earlier release of a stack may change an object with the role of that release.
func TestAccessOfEarlierReleases(t *testing.T) {
	web := plan.Object{Group: "apps", Kind: "StatefulSet", Namespace: "ns", Name: "web"}
	for verb, want := range map[string]string{"delete": "Job/fixer of an earlier release may change the object", "get": ""} {
		provided := session.NewProvided()
		for o, text := range map[plan.Object]string{
			{Group: "batch", Kind: "Job", Namespace: "ns", Name: "fixer"}:    "spec: {template: {spec: {containers: [{name: c, image: app}]}}}",
			{Group: rbacGroup, Kind: "Role", Namespace: "ns", Name: "fixer"}: "rules: [{apiGroups: [apps], resources: [statefulsets], verbs: [" + verb + "]}]",
		} {
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
				t.Fatal(err)
			}
			provided.Objects[o] = fields
		}
		planned := &plannedObjects{byObject: providedObjects(provided)}
		planned.byObject[web] = &incomingObject{Object: web}
		r := &Refusals{planned: planned, prepared: &session.Prepared{Common: session.Common{Provided: provided}}, granted: func(plan.Object, plan.Object) bool { return false }}
		if got := r.mayBeRewritten(web); got != want {
			t.Errorf("%s: got %q", verb, got)
		}
	}
}
