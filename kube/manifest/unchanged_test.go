package manifest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err, text)
	}
	return u
}

const (
	conf = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: n, creationTimestamp: null, labels: {app: a}}, data: {mode: fast}}`
	// ownsConf is what an apply of conf leaves behind.
	ownsConf = `{manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:data": {"f:mode": {}}}}`

	web = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, selector: {matchLabels: {app: a}}, template: {spec: {
		containers: [{name: main, image: "x:1", ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}], args: [run, fast]}, {name: side, image: "y:1"}]}}}}`
	ownsWeb = `{manager: helm, operation: Apply, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec": {"f:containers": {
		'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:ports": {
			'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}, 'k:{"containerPort":53,"protocol":"UDP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}}}},
		'k:{"name":"side"}': {".": {}, "f:name": {}, "f:image": {}}}}}}}}`
	liveWeb = `apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: n, generation: 3, managedFields: [` + ownsWeb + `, {manager: kube, operation: Update, subresource: status, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}]}
spec:
  replicas: 2
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: a}}
  template: {spec: {restartPolicy: Always, containers: [
    {name: main, image: "x:1", imagePullPolicy: Always, args: [run, fast], ports: [{containerPort: 80, protocol: TCP}, {containerPort: 53, protocol: UDP}]},
    {name: side, image: "y:1", imagePullPolicy: Always}]}}
status: {replicas: 2}
`
)

func liveConf(data, labels, owners string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: n, uid: u, labels: ` + labels + `, managedFields: [` + owners + `]}, data: ` + data + `}`
}

// TestUnchanged has each way in which an object can differ from what would be applied,
// in value or in who owns it: only what is surely the same is unchanged.
func TestUnchanged(t *testing.T) {
	kubectl := `{manager: kubectl-edit, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:more": {}}}}`
	tests := map[string]struct {
		want, live string
		same       bool
	}{
		"the same":                       {conf, liveConf("{mode: fast}", "{app: a}", ownsConf), true},
		"somebody's own field besides":   {conf, liveConf("{mode: fast, more: x}", "{app: a}", ownsConf+", "+kubectl), true},
		"another value":                  {conf, liveConf("{mode: slow}", "{app: a}", ownsConf), false},
		"a value that is gone":           {conf, liveConf("{}", "{app: a}", ownsConf), false},
		"a field that somebody has":      {conf, liveConf("{mode: fast}", "{app: a}", `{manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}}}`), false},
		"a field that is to be removed":  {conf, liveConf("{mode: fast, old: x}", "{app: a}", `{manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:data": {"f:mode": {}, "f:old": {}}}}`), false},
		"a field that is new":            {conf, liveConf("{mode: fast}", "{}", `{manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:mode": {}}}}`), false},
		"nobody's":                       {conf, liveConf("{mode: fast}", "{app: a}", kubectl), false},
		"brought from the client's side": {conf, liveConf("{mode: fast}", "{app: a}", `{manager: helm, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:data": {"f:mode": {}}}}`), false},
		"changed as it was admitted":     {conf, liveConf("{mode: fast}", "{app: a}", ownsConf+`, {manager: helm, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data": {"f:more": {}}}}`), false},
		"another version of its API":     {conf, liveConf("{mode: fast}", "{app: a}", `{manager: helm, operation: Apply, apiVersion: v0, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:data": {"f:mode": {}}}}`), false},
		"no owners at all":               {conf, liveConf("{mode: fast}", "{app: a}", ""), false},
		"being deleted":                  {conf, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, deletionTimestamp: "2026-01-01T00:00:00Z", labels: {app: a}, managedFields: [` + ownsConf + `]}, data: {mode: fast}}`, false},
		"null":                           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {app: a}}, data: {mode: null}}`, liveConf("{mode: null}", "{app: a}", ownsConf), false},

		"a workload with defaults":      {web, liveWeb, true},
		"another image":                 {replaced(web, "x:1", "x:2"), liveWeb, false},
		"live another image":            {web, replaced(liveWeb, "y:1", "y:2"), false},
		"other replicas":                {web, replaced(liveWeb, "replicas: 2\n", "replicas: 3\n"), false},
		"other arguments":               {web, replaced(liveWeb, "args: [run, fast]", "args: [fast, run]"), false},
		"another protocol":              {web, replaced(liveWeb, "{containerPort: 80, protocol: TCP}", "{containerPort: 80, protocol: SCTP}"), false},
		"one container less":            {replaced(web, `, {name: side, image: "y:1"}`, ""), liveWeb, false},
		"a selector of another's words": {web, replaced(liveWeb, "selector: {matchLabels: {app: a}}", "selector: {matchLabels: {app: a, more: b}}"), false},
	}
	for name, tt := range tests {
		if got := Unchanged(parsed(t, tt.want), parsed(t, tt.live)); got != tt.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func replaced(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic("no " + old)
	}
	return strings.Replace(text, old, with, 1)
}

// TestRewritten: what Helm adds to metadata does not count.
func TestRewritten(t *testing.T) {
	info := func(text string) *resource.Info {
		return &resource.Info{Object: parsed(t, text)}
	}
	was := info(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}`)
	for text, want := range map[string]bool{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {x: y}}, data: {a: b}}`:  false,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: c}}`:                  true,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`:                                true,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, binaryData: {a: b}}`:            true,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}, immutable: true}`: true,
	} {
		if got := Rewritten(was, info(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
