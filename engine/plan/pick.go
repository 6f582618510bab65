package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pick finds the groups that a text means, in the order given, by their ids:
//
//   - "shop/db:schema", an id; "db:schema" or "schema", as the screen has it; or
//     "Job/migrate", an object of a group. It means one group: where several fit
//     equally well, the error names them.
//   - "*:schema", a pattern of ids, in which * stands for anything and ? for one
//     character; or "kind=Job", for what has an object of that kind. It means all
//     that fit, of which there is at least one.
func Pick(text string, groups []*Group) ([]string, error) {
	if kind, ok := strings.CutPrefix(text, "kind="); ok {
		return some(text, groups, func(g *Group) bool {
			return slices.ContainsFunc(g.Objects, func(o Object) bool { return isKind(o, kind) })
		})
	}
	if strings.ContainsAny(text, "*?") {
		pattern := regexp.MustCompile("^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text)) + "$")
		return some(text, groups, func(g *Group) bool { return pattern.MatchString(g.ID) })
	}
	for _, fits := range []func(*Group) bool{
		func(g *Group) bool { return g.ID == text },
		func(g *Group) bool { return sameName(withoutRoot(g.ID), text) },
		func(g *Group) bool { return sameName(g.ID[strings.LastIndexByte(g.ID, ':')+1:], text) },
		func(g *Group) bool {
			return slices.ContainsFunc(g.Objects, func(o Object) bool { return isNamed(o, text) })
		},
	} {
		switch ids := idsOf(groups, fits); len(ids) {
		case 0:
		case 1:
			return ids, nil
		default:
			return nil, fmt.Errorf("%s could be any of %s", text, strings.Join(ids, ", "))
		}
	}
	return some(text, groups, func(*Group) bool { return false })
}

// mostNamed is how many groups an error names.
const mostNamed = 20

func some(text string, groups []*Group, fits func(*Group) bool) ([]string, error) {
	if ids := idsOf(groups, fits); len(ids) > 0 {
		return ids, nil
	}
	known := idsOf(groups, func(*Group) bool { return true })
	if n := len(known) - mostNamed; n > 0 {
		known = append(known[:mostNamed], fmt.Sprintf("and %d more", n))
	}
	return nil, fmt.Errorf("no such group; the groups are %s", strings.Join(known, ", "))
}

// idsOf are the ids of the groups that fit, each once: a group may run in several
// phases.
func idsOf(groups []*Group, fits func(*Group) bool) (ids []string) {
	seen := map[string]bool{}
	for _, g := range groups {
		if !seen[g.ID] && fits(g) {
			seen[g.ID] = true
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// ShortUnsequenced is Unsequenced where room is scarce.
const ShortUnsequenced = "(unseq.)"

// ShortID is an id as the screen has it, without what is the same for all groups of
// a chart: "shop/db:schema" is "db:schema", "shop:ingress" stays.
func ShortID(id string) string {
	return strings.Replace(withoutRoot(id), Unsequenced, ShortUnsequenced, 1)
}

// withoutRoot leaves the root chart out of the id of a subchart's group.
func withoutRoot(id string) string {
	if slash := strings.IndexByte(id, '/'); slash >= 0 && slash < strings.IndexByte(id, ':') {
		return id[slash+1:]
	}
	return id
}

// sameName compares names, of which the screen shortens one.
func sameName(name, text string) bool {
	return name == text || strings.HasSuffix(name, Unsequenced) && strings.Replace(name, Unsequenced, ShortUnsequenced, 1) == text
}

// isNamed reports whether a text names an object: "Job/migrate", "crd/topics".
func isNamed(o Object, text string) bool {
	kind, name, ok := strings.Cut(text, "/")
	return ok && name == o.Name && isKind(o, kind)
}

// isKind reports whether a text names the kind of an object, in any case, or by
// its initials, as people do with long ones: PVC, CRD.
func isKind(o Object, text string) bool {
	initials := strings.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, o.Kind)
	return strings.EqualFold(o.Kind, text) || len(initials) > 1 && strings.EqualFold(initials, text)
}
