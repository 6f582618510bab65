package preview

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

var (
	templateAction = regexp.MustCompile(`(?s)\{\{-?\s*(.*?)\s*-?\}\}`)
	templateString = regexp.MustCompile("(?s)\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
	// unstable are the functions of templates whose results differ from one rendering to the next.
	unstable = regexp.MustCompile(`(?:^|[\s(|])(rand(?:AlphaNum|Alpha|Numeric|Ascii|Bytes|Int)|uuidv4|shuffle|genPrivateKey|genCA(?:WithKey)?|` +
		`gen(?:SelfSigned|Signed)Cert(?:WithKey)?|htpasswd|bcrypt|encryptAES|now|ago)(?:$|[\s)|])`)
)

// Unstable returns the templates of a chart that use random values or the time, each with these functions: "shop/templates/db.yaml".
func Unstable(h *chart.Chart) map[string][]string {
	out := map[string][]string{}
	addUnstable(out, h.Name(), h)
	return out
}

func addUnstable(out map[string][]string, at string, h *chart.Chart) {
	for _, f := range h.Templates {
		names := map[string]bool{}
		for _, action := range templateAction.FindAllSubmatch(f.Data, -1) {
			if text := string(action[1]); !strings.HasPrefix(text, "/*") {
				for _, m := range unstable.FindAllStringSubmatch(templateString.ReplaceAllString(text, `""`), -1) {
					names[m[1]] = true
				}
			}
		}
		if len(names) > 0 {
			out[path.Join(at, f.Name)] = slices.Sorted(maps.Keys(names))
		}
	}
	for _, sub := range h.Dependencies() {
		addUnstable(out, path.Join(at, "charts", sub.Name()), sub)
	}
}
