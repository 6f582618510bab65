package status

import (
	"fmt"
	"strings"
)

// KindRules returns the rules for built-in kinds and the table of known custom kinds as Markdown, each in a list.
func KindRules() (builtIn, custom string) {
	var b strings.Builder
	for _, r := range builtInRules {
		fmt.Fprintf(&b, "- `%s`: %s.\n", r.kind, r.text)
	}
	var c strings.Builder
	for _, k := range knownKinds {
		fmt.Fprintf(&c, "- `%s` %s\n", k.Group, strings.Join(k.Kinds, ", "))
		if k.MayBeSilent {
			c.WriteString("  - ready: it exists; its controller may write no status\n")
		}
		if k.Waits != nil {
			fmt.Fprintf(&c, "  - ready: %s\n", k.Ready)
		}
		writeExpressions(&c, "ready", k.Success)
		writeExpressions(&c, "failed", k.Failure)
		if len(k.Success) == 0 && k.Waits == nil && !k.MayBeSilent {
			c.WriteString("  - ready: kstatus decides\n")
		}
		for _, h := range k.Halts {
			value := "`" + h.Path + "` is `" + h.Is + "`"
			if h.Is == "" {
				value = "`" + h.Path + "` is not set"
			}
			fmt.Fprintf(&c, "  - counts with the note %q: %s\n", h.Note, value)
		}
		fmt.Fprintf(&c, "  - source: github.com/%s %s\n", k.Project, k.Version)
	}
	return strings.TrimSuffix(b.String(), "\n"), strings.TrimSuffix(c.String(), "\n")
}

func writeExpressions(b *strings.Builder, word string, list []string) {
	for i, text := range list {
		if i > 0 {
			word = "or"
		}
		fmt.Fprintf(b, "  - %s: `%s`\n", word, text)
	}
}
