package readiness

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
)

// selector selects objects by their kind and name, or by their labels.
type selector struct {
	kind   string // KIND or KIND.GROUP
	name   string // "" for all
	labels labels.Selector
}

// kindPattern matches KIND or KIND.GROUP.
var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9][a-z0-9.-]*)?$`)

func parseSelector(text string) (selector, error) {
	if strings.ContainsAny(text, "=!(, ") {
		s, err := labels.Parse(text)
		if err != nil {
			return selector{}, fmt.Errorf("label selector %q: %w", text, err)
		}
		return selector{labels: s}, nil
	}
	kind, name, named := strings.Cut(text, "/")
	if !kindPattern.MatchString(kind) || named && name == "" || strings.Contains(name, "/") {
		return selector{}, fmt.Errorf("%q selects no objects: write KIND/NAME or KIND.GROUP/NAME with the kind as in the manifest, for example Deployment/api, or a label selector such as app=api", text)
	}
	return selector{kind: kind, name: name}, nil
}

// rank orders selectors: names come before kinds, and kinds before labels.
func (s selector) rank() int {
	switch {
	case s.labels != nil:
		return 0
	case s.name == "":
		return 1
	}
	return 2
}

// matchesKind reports whether the selector is for the kind of an object. Without a group it is for the kind in every group.
func (s selector) matchesKind(o plan.Object) bool {
	kind := schema.ParseGroupKind(s.kind)
	return kind.Kind == o.Kind && (kind.Group == "" || kind.Group == o.Group)
}

func (s selector) matches(o plan.Object, set map[string]string) bool {
	if s.labels != nil {
		return s.labels.Matches(labels.Set(set))
	}
	return s.matchesKind(o) && (s.name == "" || s.name == o.Name)
}
