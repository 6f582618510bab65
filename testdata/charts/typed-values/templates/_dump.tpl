{{- define "typed-values.dump" -}}
{{- if kindIs "map" . }}
{{- range $k, $v := . }}{{ $k }}={ {{ include "typed-values.dump" $v }} } {{ end }}
{{- else if kindIs "slice" . }}
{{- range . }}[ {{ include "typed-values.dump" . }} ] {{ end }}
{{- else }}{{ printf "%T %v %q" . . (toString .) }}{{ end }}
{{- end -}}
