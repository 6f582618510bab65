{{- define "chart-library.name" -}}app{{- end }}
