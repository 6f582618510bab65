{{/* Labels of every object of the shop: the part's name and the release. */}}
{{- define "shop.labels" -}}
{{ include "shop.selector" . }}
app.kubernetes.io/part-of: shop
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Labels that are the same in every version. */}}
{{- define "shop.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The name of the part's main objects: shop-db in the release "shop". */}}
{{- define "shop.name" -}}
{{ .Release.Name }}-{{ .Chart.Name }}
{{- end }}

{{/* image, global: the image, with the shop's version unless it has a tag. */}}
{{- define "shop.image" -}}
{{ if contains ":" .image }}{{ .image }}{{ else }}{{ .image }}:{{ .global.version }}{{ end }}
{{- end }}

{{/* ms, global: a duration, shortened by global.speed. */}}
{{- define "shop.delay" -}}
{{ divf (float64 .ms) (float64 .global.speed) | int }}ms
{{- end }}
