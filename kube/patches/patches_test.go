package patches

import (
	"bytes"
	"strings"
	"testing"
)

const rendered = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  annotations: {postrenderer.helm.sh/postrender-filename: shop/templates/web.yaml}
spec:
  template:
    spec:
      containers:
      - {name: web, image: web:1}
      - {name: log, image: log:1}
---
# a comment that stays
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: other}
data: {a:   "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {generateName: conf-}
`

// TestPatches: patches change the objects that they select as kustomize does; all other objects keep their text, and patched ones
// the annotation by which Helm knows their template.
func TestPatches(t *testing.T) {
	untouched := rendered[strings.Index(rendered, "# a comment"):]
	for _, test := range []struct {
		name, json, merge string
		want, without     []string
		err               string
	}{
		{name: "merges lists by name", merge: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{name: log, image: log:2}]}}}}",
			want: []string{"image: web:1", "image: log:2", "replicas: 3", "postrender-filename: shop/templates/web.yaml", untouched}},
		{name: "namespace default is none", merge: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: {paused: true}}", want: []string{"paused: true"}},
		{name: "deletes an object", merge: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, $patch: delete}", want: []string{untouched}, without: []string{"Deployment"}},
		{name: "deletes an entry", merge: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: log, $patch: delete}]}}}}",
			want: []string{"image: web:1"}, without: []string{"log:1"}},
		{name: "several documents", merge: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {paused: true}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: other}\ndata: {b: x}",
			want: []string{"paused: true", "b: x"}},
		{name: "another namespace", merge: "{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}, data: {b: x}}", err: "at 5: no object of the chart matches the patch of ConfigMap/conf"},
		{name: "no name", merge: "{apiVersion: v1, kind: ConfigMap}", err: "needs apiVersion, kind and metadata.name"},
		{name: "operations", json: "{target: {kind: Deployment, name: w.*}, patch: [{op: replace, path: /spec/template/spec/containers/0/image, value: web:2}, {op: remove, path: /metadata/annotations}]}",
			want: []string{"web:2", "log:1", "postrender-filename: shop/templates/web.yaml", untouched}},
		{name: "labels", json: "{target: {labelSelector: app=web}, patch: [{op: add, path: /spec/replicas, value: 2}]}", want: []string{"replicas: 2", untouched}},
		{name: "names are whole", json: "{target: {kind: Deployment, name: we}, patch: [{op: add, path: /spec/replicas, value: 2}]}", without: []string{"replicas"}, want: []string{untouched}},
		{name: "a path that does not exist", json: "{target: {kind: Deployment}, patch: [{op: replace, path: /spec/x/y, value: 2}]}", err: "at 5: patch Deployment/web: "},
		{name: "no target", json: "{patch: [{op: add, path: /x, value: 2}]}", err: "needs a target"},
		{name: "no operations", json: "{target: {kind: Deployment}}", err: "needs a list of operations"},
		{name: "a file", json: "{target: {kind: Deployment}, path: x.yaml}", err: "does not read path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := StrategicMerge("at 5", []byte(test.merge))
			if test.json != "" {
				list = make([]Patch, 1)
				list[0], err = JSON("at 5", []byte(test.json))
			}
			out := &bytes.Buffer{}
			if err == nil {
				out, err = Renderer(list, nil).Run(bytes.NewBufferString(rendered))
			}
			if test.err != "" || err != nil {
				if test.err == "" || err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			for _, text := range test.want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("no %q in\n%s", text, out)
				}
			}
			for _, text := range test.without {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q in\n%s", text, out)
				}
			}
		})
	}
}

// FuzzPatches checks that no patch makes the reader or the renderer panic.
func FuzzPatches(f *testing.F) {
	f.Add("{apiVersion: v1, kind: ConfigMap, metadata: {name: conf, namespace: other}, data: null}")
	f.Add("{target: {kind: '.*'}, patch: [{op: remove, path: /metadata}]}")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := StrategicMerge("x", []byte(text))
		if p, err := JSON("x", []byte(text)); err == nil {
			list = append(list, p)
		}
		if err != nil && len(list) == 0 {
			return
		}
		if out, err := Renderer(list, nil).Run(bytes.NewBufferString(rendered)); err == nil && len(list) > 0 && out == nil {
			t.Error("neither objects nor an error")
		}
	})
}
