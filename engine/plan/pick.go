package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pick finds the groups that a text means, in the order given, by their ids:
//
//   - "shop/db:schema", an id; "db:schema" or "schema", as the screen has it;
//     "Job/migrate", an object of a group; or any end of an id that only one has. ~ stands
//     for (unsequenced), which a shell would need quotes for. It means one group: if
//     several fit equally well, the error lists them.
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
		func(g *Group) bool { return sameName(g.ID, text) },
		func(g *Group) bool { return sameName(withoutRoot(g.ID), text) },
		func(g *Group) bool { return sameName(g.ID[strings.LastIndexByte(g.ID, ':')+1:], text) },
		func(g *Group) bool {
			return slices.ContainsFunc(g.Objects, func(o Object) bool { return isNamed(o, text) })
		},
		func(g *Group) bool { return text != "" && endsWith(g.ID, text, true) },
		func(g *Group) bool { return text != "" && endsWith(g.ID, text, false) },
	} {
		switch ids := idsOf(groups, fits); len(ids) {
		case 0:
		case 1:
			return ids, nil
		default:
			return nil, fmt.Errorf("%s could be any of %s", text, listed(ids))
		}
	}
	ids := idsOf(groups, func(*Group) bool { return true })
	switch {
	case len(ids) == 0:
		return nil, fmt.Errorf("no group %s; the run has no groups", text)
	case text == "":
		return nil, fmt.Errorf("the name of the group is empty; the groups are %s", listed(ids))
	}
	if near := nearest(text, ids); near != "" {
		return nil, fmt.Errorf("no group %s; did you mean %s?", text, near)
	}
	return nil, fmt.Errorf("no group %s; the groups are %s", text, listed(ids))
}

// endsWith reports whether an id ends with a text, as it is or without (unsequenced): after
// / or : if part is set, or anywhere.
func endsWith(id, text string, part bool) bool {
	for _, name := range []string{id, strings.TrimSuffix(id, ":"+Unsequenced), strings.Replace(id, Unsequenced, tilde, 1)} {
		rest, ok := strings.CutSuffix(name, text)
		if ok && (!part || rest == "" || strings.ContainsAny(rest[len(rest)-1:], "/:")) {
			return true
		}
	}
	return false
}

// nearest returns the id of which the whole, or the part that the screen shows, is most like a
// text, "" if none is.
func nearest(text string, ids []string) string {
	best, least := "", 1+max(len(text)/3, 1)
	for _, id := range ids {
		for _, name := range []string{id, withoutRoot(id), id[strings.LastIndexByte(id, ':')+1:]} {
			if d := edits(text, name); d < least {
				best, least = id, d
			}
		}
	}
	return best
}

// edits returns how many characters have to be inserted, deleted or replaced between two texts.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// mostNamed is how many groups an error names.
const mostNamed = 8

func some(text string, groups []*Group, fits func(*Group) bool) ([]string, error) {
	if ids := idsOf(groups, fits); len(ids) > 0 {
		return ids, nil
	}
	return nil, fmt.Errorf("no group matches %s; the groups are %s", text, listed(idsOf(groups, func(*Group) bool { return true })))
}

// listed lists groups for an error.
func listed(ids []string) string {
	if n := len(ids) - mostNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:mostNamed], ", "), n)
	}
	return strings.Join(ids, ", ")
}

// idsOf returns the ids of the groups that fit, each once: a group may run in several
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

// ShortUnsequenced is Unsequenced where room is scarce, tilde as people type it.
const (
	ShortUnsequenced = "(unseq.)"
	tilde            = "~"
)

// ShortID returns an id as the screen has it, without what is the same for all groups of
// a chart: "shop/db:schema" is "db:schema", "shop:ingress" stays.
func ShortID(id string) string {
	return strings.Replace(withoutRoot(id), Unsequenced, ShortUnsequenced, 1)
}

// ShellID returns an id as a shell takes it without quotes: "shop/db:(unsequenced)" is
// "shop/db:~". Pick reads it.
func ShellID(id string) string {
	if chart, ok := strings.CutSuffix(id, ":"+Unsequenced); ok {
		return chart + ":" + tilde
	}
	return id
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
	if name == text {
		return true
	}
	chart, ok := strings.CutSuffix(name, Unsequenced)
	return ok && (chart+ShortUnsequenced == text || chart+tilde == text)
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
