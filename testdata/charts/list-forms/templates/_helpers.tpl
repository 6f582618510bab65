{{- define "list-forms.waitsFor" -}}
helm.sh/depends-on/resource-groups: {{ toJson . }}
{{- end }}
