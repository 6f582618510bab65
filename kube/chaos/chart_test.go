package chaos

import (
	"os"
	"path/filepath"
	"strings"
)

// The chart has everything that a fault can interrupt: hooks whose objects are deleted or stay; three groups, of which
// the first takes a moment to become ready; objects that only some versions have; with fixed, objects that cannot be updated; and,
// with fail, a group that fails.
//
// Compared with v=one, v=two lacks two objects and has another one, so upgrades and rollbacks also delete.
const chartTemplates = `
{{- define "cm" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  annotations: {{ .annotations | toJson }}
data: {v: {{ .v | quote }}}
{{- end }}

{{- define "service" }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  annotations: {{ .annotations | toJson }}
spec: {type: LoadBalancer, ports: [{port: 80}]}
{{- end }}

{{- define "group" }}
{{- $a := dict "helm.sh/resource-group" .name }}
{{- if .after }}{{ $_ := set $a "helm.sh/depends-on-resource-groups" (list .after | toJson) }}{{ end }}
{{- $a | toJson }}
{{- end }}
`

const chartObjects = `
{{- $v := .Values.v }}
{{- $first := include "group" (dict "name" "first" "after" "") | fromJson }}
{{- $second := include "group" (dict "name" "second" "after" "first") | fromJson }}
{{- $third := include "group" (dict "name" "third" "after" "second") | fromJson }}
{{- $address := "[\"{.loadBalancer.ingress[0].ip} != none\"]" }}
{{- include "cm" (dict "name" "first" "v" $v "annotations" $first) }}
{{- include "service" (dict "name" "balancer" "annotations" (merge (dict "sandbox/ready-after" "300ms" "helm.sh/readiness-success" $address "helm.sh/readiness-failure" "[\"{.x} == y\"]") $first)) }}
{{- include "cm" (dict "name" "second" "v" $v "annotations" $second) }}
{{- include "cm" (dict "name" "same" "v" "always" "annotations" $second) }}
{{- include "cm" (dict "name" "third" "v" $v "annotations" $third) }}
{{- if eq $v "one" }}
{{- include "cm" (dict "name" "old-second" "v" $v "annotations" $second) }}
{{- include "cm" (dict "name" "old-alone" "v" $v "annotations" (include "group" (dict "name" "old" "after" "second") | fromJson)) }}
{{- else }}
{{- include "cm" (dict "name" "new" "v" $v "annotations" (include "group" (dict "name" "new" "after" "first") | fromJson)) }}
{{- end }}
{{- if .Values.fixed }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: fixed
  annotations: {{ $second | toJson }}
immutable: true
data: {v: {{ $v }}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: set
  annotations: {{ $third | toJson }}
spec:
  serviceName: {{ $v }}
  selector: {matchLabels: {app: set}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: main, image: example.com/app}]}
{{- end }}
{{- if .Values.fail }}
{{- include "cm" (dict "name" "brought" "v" $v "annotations" $second) }}
{{- include "service" (dict "name" "fails" "annotations" (merge (dict "sandbox/ready-after" "100ms" "helm.sh/readiness-failure" $address "helm.sh/readiness-success" "[\"{.x} == y\"]") $second)) }}
{{- end }}
---
apiVersion: v1
kind: Pod
metadata:
  name: hook-pod
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback,pre-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    sandbox/run-duration: 50ms
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: example.com/job}]
{{- include "cm" (dict "name" "hook-note" "v" $v "annotations" (dict "helm.sh/hook" "post-install,post-upgrade,post-rollback" "helm.sh/hook-delete-policy" "before-hook-creation")) }}
`

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// writeChart writes the chart to a directory. If group is not "", the chart has a CRD in that API group.
func writeChart(dir, group string) error {
	files := map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: chaos\nversion: 0.1.0\n",
		"values.yaml":            "v: one\nfail: false\nfixed: false\n",
		"templates/_parts.tpl":   chartTemplates,
		"templates/objects.yaml": chartObjects,
	}
	if group != "" {
		files["crds/thing.yaml"] = strings.ReplaceAll(crd, "GROUP", group)
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
