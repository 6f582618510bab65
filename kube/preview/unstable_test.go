package preview

import (
	"maps"
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

func TestUnstableTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"a: {{ randAlphaNum 8 | quote }}":                               "randAlphaNum",
		"a: {{- now | date \"2006\" -}}":                                "now",
		"{{ $ca := genCA \"x\" 365 }}{{ (genSignedCert \"now\") }}":     "genCA genSignedCert",
		"{{/* now is a word */}} now {{ \"uuidv4\" }}":                  "",
		"{{ .Values.now }}{{ $now }}{{ include \"now\" . }}":            "",
		"a: {{ .Values.password | default (randAlpha 5) }}":             "randAlpha",
		"{{ if\n  lookup \"v1\"\n}}{{ else }}{{\n  uuidv4\n}}{{ end }}": "uuidv4",
	} {
		sub := &chart.Chart{Metadata: &chart.Metadata{Name: "db"}, Templates: []*common.File{{Name: "templates/x.yaml", Data: []byte(text)}}}
		h := &chart.Chart{Metadata: &chart.Metadata{Name: "shop"}}
		h.AddDependency(sub)
		found := Unstable(h)
		got := ""
		for _, name := range found["shop/charts/db/templates/x.yaml"] {
			if got != "" {
				got += " "
			}
			got += name
		}
		if got != want || want == "" && len(found) > 0 {
			t.Errorf("%s: %q in %v, want %q", text, got, slices.Sorted(maps.Keys(found)), want)
		}
	}
}
