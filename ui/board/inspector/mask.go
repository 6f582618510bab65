package inspector

import (
	"strings"

	"lockstep/engine/plan"
)

// hidden replaces a secret value. It is the same as mask.Hidden, which the screen must not import.
const hidden = "(hidden)"

// maskSecrets masks the values of a manifest that is, or contains, a Secret. Cluster should have
// masked them; this is the second line of defence. It works line by line, and when in doubt masks
// too much.
func maskSecrets(o plan.Object, manifest string) string {
	if o.Kind != "Secret" && !strings.Contains(manifest, "kind: Secret") && !strings.Contains(manifest, `"Secret"`) {
		return manifest
	}
	if strings.HasPrefix(strings.TrimSpace(manifest), "{") {
		return "(hidden: a Secret in JSON)"
	}
	var out []string
	within := -1 // indentation of the data that is being masked
	for l := range strings.SplitSeq(manifest, "\n") {
		text := strings.TrimLeft(l, " ")
		indent := len(l) - len(text)
		if within >= 0 && text != "" && (indent < within || indent == within && !strings.HasPrefix(text, "- ")) {
			within = -1
		}
		name, value, isKey := strings.Cut(text, ":")
		name = strings.Trim(strings.TrimPrefix(name, "- "), `"'`)
		switch {
		case within >= 0 && indent > within && isKey && name != "" && !strings.ContainsAny(name, " \t"):
			if text := l[:indent] + name + ": " + hidden; len(out) == 0 || out[len(out)-1] != text {
				out = append(out, text)
			}
		case within >= 0 && text != "":
			// continues a value
		case isKey && (name == "data" || name == "stringData"):
			within = indent
			if strings.TrimSpace(value) != "" {
				l = l[:indent] + name + ": " + hidden
			}
			out = append(out, l)
		case isKey && strings.HasSuffix(name, "last-applied-configuration"):
			out = append(out, l[:indent]+name+": "+hidden)
			within = indent
		default:
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
