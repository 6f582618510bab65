package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// chart writes a chart with one template and returns its folder.
func (b *benchmark) chart(name, template string) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "templates"), 0o755); err != nil {
		return "", err
	}
	for file, text := range map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"values.yaml":            "v: 1\n",
		"templates/objects.yaml": template,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// grouped are the annotations of group i of a chain, for the loop of a template.
const grouped = `
    helm.sh/resource-group: {{ printf "g%%04d" $i }}
    {{- if $i }}
    helm.sh/depends-on-resource-groups: '["{{ printf "g%%04d" (sub $i 1) }}"]'
    {{- end }}`

// flat returns a template with n ConfigMaps without an order.
func flat(n int) string {
	return fmt.Sprintf(`{{- range $i := until %d }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c{{ $i }}
data:
  v: {{ $.Values.v | quote }}
{{- end }}
`, n)
}

// chained returns a template with a chain of groups of ConfigMaps. order is a tool's annotations (tool.order).
func chained(groups, each int, order string) string {
	return fmt.Sprintf(`{{- range $i := until %d }}
{{- range $k := until %d }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c{{ $i }}-{{ $k }}
  annotations:`+order+`
data:
  v: {{ $.Values.v | quote }}
{{- end }}
{{- end }}
`, groups, each)
}

// deployments returns a template with a chain of groups of Deployments whose pods become ready after a delay.
func deployments(groups, each int, delay string) string {
	return fmt.Sprintf(`{{- range $i := until %d }}
{{- range $k := until %d }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d{{ $i }}-{{ $k }}
  annotations:`+grouped+`
spec:
  selector:
    matchLabels: {app: d{{ $i }}-{{ $k }}}
  template:
    metadata:
      labels: {app: d{{ $i }}-{{ $k }}}
      annotations: {sandbox/ready-delay: %s}
    spec:
      containers: [{name: main, image: "example/app:1"}]
{{- end }}
{{- end }}
`, groups, each, delay)
}

// gateKind is a CustomResourceDefinition. The sandbox makes its objects ready.
const gateKind = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gates.bench.example
spec:
  group: bench.example
  scope: Namespaced
  names: {kind: Gate, listKind: GateList, plural: gates, singular: gate}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// gates returns a template with a chain of n Gates that become ready 10 ms after they are applied.
func gates(n int) string {
	return fmt.Sprintf(`{{- range $i := until %d }}
---
apiVersion: bench.example/v1
kind: Gate
metadata:
  name: {{ printf "g%%04d" $i }}
  annotations:
    sandbox/ready-after: 10ms
    helm.sh/readiness-success: '["{.conditions[?(@.type==\"Ready\")].status} == True"]'
    helm.sh/readiness-failure: '["{.phase} == Failed"]'`+grouped+`
spec: {v: {{ $.Values.v }}}
{{- end }}
`, n)
}

// owned returns a template with n ConfigMaps that are named after their release.
func owned(n int) string {
	return strings.Replace(flat(n), "name: c{{", "name: {{ $.Release.Name }}-{{", 1)
}

// ownedDeployment returns a template with a Deployment, named after its release, whose pod becomes ready after a delay.
func ownedDeployment(delay string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations: {sandbox/ready-delay: %s}
    spec:
      containers: [{name: main, image: "example/app:1"}]
`, delay)
}

// helmfile writes a helmfile of releases of a chart in a namespace, and returns its path. Each
// release needs two releases of the previous layer.
func (b *benchmark) helmfile(namespace, chart string, layers, width int) (string, error) {
	text := "releases:\n"
	for l := range layers {
		for i := range width {
			text += fmt.Sprintf("- {name: r%d-%d, namespace: %s, chart: %s, wait: true", l, i, namespace, chart)
			if l > 0 {
				text += fmt.Sprintf(", needs: [r%d-%d, r%d-%d]", l-1, i, l-1, (i+1)%width)
			}
			text += "}\n"
		}
	}
	file := filepath.Join(b.dir, namespace+".yaml")
	return file, os.WriteFile(file, []byte(text), 0o644)
}
