package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Replacements are the objects that an operation may delete and create again where they cannot be updated (--replace). The zero
// value has none.
type Replacements struct {
	allowed []replaceable
	asks    bool
}

// replaceable is a kind or, with a name, an object. Without a group, it is the kind in any group.
type replaceable struct{ text, kind, group, name string }

const (
	// ReplaceNever replaces nothing.
	ReplaceNever = "never"
	// ReplaceAsk replaces what its kind alone allows; the run pauses before each group with such an object.
	ReplaceAsk = "ask"
	// ReplaceFormat is how to write what may be replaced.
	ReplaceFormat = "KIND[.GROUP][/NAME]"
)

// onlyByName are the kinds that lose data or other objects when one is deleted, so each must be named.
var onlyByName = []GroupKind{
	{Kind: "Namespace"}, {Kind: "PersistentVolumeClaim"}, {Kind: "PersistentVolume"}, {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
}

// ParseReplacements reads the arguments of --replace.
func ParseReplacements(texts []string) (r Replacements, err error) {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text == ReplaceNever && len(texts) == 1 {
			return Replacements{}, nil
		}
		if text == ReplaceAsk && len(texts) == 1 {
			return Replacements{asks: true}, nil
		}
		kind, name, named := strings.Cut(text, "/")
		x := replaceable{text: text, name: name}
		x.kind, x.group, _ = strings.Cut(kind, ".")
		switch {
		case text == ReplaceNever, text == ReplaceAsk:
			return r, fmt.Errorf("%s cannot be combined with anything else", text)
		case x.kind == "" || x.kind[0] < 'A' || x.kind[0] > 'Z' || named && name == "" || strings.Contains(name, "/") || strings.ContainsFunc(text, notInName):
			return r, fmt.Errorf("%s is not a kind or an object; write %s, such as Job or Deployment/web%s", quote(text), ReplaceFormat, similarKind(x.kind))
		case !named && slices.ContainsFunc(onlyByName, func(k GroupKind) bool { return k.Kind == x.kind && (x.group == "" || x.group == k.Group) }):
			return r, fmt.Errorf("%s: what is in it would be deleted with it, so name each object: %s/NAME", quote(text), x.kind)
		}
		r.allowed = append(r.allowed, x)
	}
	return r, nil
}

// Asks reports whether the run pauses before it replaces an object.
func (r Replacements) Asks() bool { return r.asks }

// Allow reports whether an object may be replaced; byName is set if its kind alone is not enough.
func (r Replacements) Allow(o Object, byName bool) bool {
	byName = byName || slices.Contains(onlyByName, o.GroupKind())
	if r.asks {
		return !byName
	}
	return slices.ContainsFunc(r.allowed, func(x replaceable) bool {
		return x.kind == o.Kind && (x.group == "" || x.group == o.Group) && (x.name == o.Name || x.name == "" && !byName)
	})
}

// Unmatched returns a warning for each argument of --replace that names none of the objects, by "--replace ARGUMENT": it may be
// misspelt.
func (r Replacements) Unmatched(objects []Object) map[string]Warning {
	out := map[string]Warning{}
	for _, x := range r.allowed {
		one := Replacements{allowed: []replaceable{x}}
		if slices.ContainsFunc(objects, func(o Object) bool { return one.Allow(o, x.name != "") }) {
			continue
		}
		arg := "--replace " + x.text
		out[arg] = Warning{Rule: "R30b", Message: arg + " names no object of this release: check its kind and its name"}
	}
	return out
}
