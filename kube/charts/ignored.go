package charts

import (
	"strings"

	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/strvals"

	"lockstep/kube/mask"
)

// IgnoredValues returns the arguments of --set and similar flags that Helm accepts but that set
// nothing, because their key is empty or lacks a closing bracket. Their values are hidden.
func IgnoredValues(o values.Options) (ignored []string) {
	parseFile := func(text string, to map[string]any) error {
		return strvals.ParseIntoFile(text, to, func([]rune) (any, error) { return "", nil })
	}
	whole := func(text string) []string { return []string{text} }
	for _, flag := range []struct {
		name      string
		arguments []string
		split     func(string) []string
		parse     func(string, map[string]any) error
	}{
		{"--set", o.Values, mask.Assignments, strvals.ParseInto},
		{"--set-string", o.StringValues, mask.Assignments, strvals.ParseIntoString},
		{"--set-file", o.FileValues, mask.Assignments, parseFile},
		{"--set-json", o.JSONValues, mask.Assignments, strvals.ParseJSON},
		{"--set-literal", o.LiteralValues, whole, strvals.ParseLiteralInto},
	} {
		for _, argument := range flag.arguments {
			for _, text := range flag.split(argument) {
				to := map[string]any{}
				if text == "" || flag.parse(text, to) != nil || len(to) > 0 {
					continue
				}
				key, _, assigns := strings.Cut(text, "=")
				if assigns {
					key += "=" + mask.Ellipsis
				}
				ignored = append(ignored, flag.name+" "+key)
			}
		}
	}
	return ignored
}
