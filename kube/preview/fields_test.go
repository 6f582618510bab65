package preview

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestFields: compareFields returns the path and the lines of each difference, and no unchanged fields.
func TestFields(t *testing.T) {
	for name, test := range map[string]struct{ before, after, want string }{
		"field of a named element": {
			"spec: {containers: [{name: side, image: s}, {name: web, image: a:1, env: [{name: A, value: x}]}]}",
			"spec: {containers: [{name: side, image: s}, {name: web, image: a:2, env: [{name: A, value: x}, {name: B, value: z}]}]}",
			"spec.containers[web].env:|+- name: B|+  value: z|spec.containers[web]:|-image: a:1|+image: a:2"},
		"added, removed and of another type": {
			"metadata: {labels: {a: x, b: y}, annotations: {x/y: old}}\nspec: 1", "metadata: {labels: {b: y}, annotations: {x/y: new}}\nspec: {a: 1}\nnew: {b: [1]}",
			"metadata.annotations:|-x/y: old|+x/y: new|metadata.labels:|-a: x|:|+new:|+  b:|+  - 1|:|-spec: 1|+spec:|+  a: 1"},
		"removed element":    {"ports: [{port: 80}, {port: 81}]", "ports: [{port: 81}]", "ports:|-- port: 80"},
		"list without names": {"args: [-a, -b]", "args: [-a, -c]", "args:| - -a|-- -b|+- -c"},
		"names are not unique": {"mounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]", "mounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b, readOnly: true}]",
			"mounts[/b]:|+readOnly: true"},
		"another order of elements": {"l: [{name: a}, {name: b}]", "l: [{name: b}, {name: a}]", "l:|-- name: a| - name: b|+- name: a"},
		"line of a file": {"data: {f.conf: \"1\\n2\\n3\\n4\\n5\\n6\\n7\\n\"}", "data: {f.conf: \"1\\n2\\n3\\n4\\n5\\nsix\\n7\\n\"}",
			"data[f.conf]:|@line 3| 3| 4| 5|-6|+six| 7"},
		"newline at the end of a file": {"data: {a: \"1\\n2\\n\"}", "data: {a: \"1\\n2\"}", `data.a:|-"\n"|+""`},
		"no difference":                {"a: {b: [1, 2]}", "a: {b: [1, 2]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var a, b map[string]any
			if err := errors.Join(yaml.Unmarshal([]byte(test.before), &a), yaml.Unmarshal([]byte(test.after), &b)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range compareFields(a, b) {
				got = append(append(got, f.In+":"), f.Lines...)
			}
			if g := strings.Join(got, "|"); g != test.want {
				t.Errorf("got\n%s\nwant\n%s", g, test.want)
			}
		})
	}
}
