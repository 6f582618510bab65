package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Pick returns the ids of the groups that a text selects, in the order of groups (R42).
//
//   - The text may name one group: by its id ("shop/db:schema"), by its name on the screen
//     ("db:schema" or "schema"), by one of its objects ("Job/migrate"), or by an unambiguous suffix
//     of its id. ~ stands for (unsequenced), which would need quotes in a shell.
//   - Or it selects all groups whose id matches a pattern ("*:schema"), in which * stands for any
//     text and ? for one character, or all that have an object of a kind ("kind=Job").
//
// If no group matches, or several match a name equally well, the error says so.
func Pick(text string, groups []*Group) ([]string, error) {
	if kind, ok := strings.CutPrefix(text, "kind="); ok {
		ids := matchingIDs(groups, func(g *Group) bool {
			return slices.ContainsFunc(g.Objects, func(o Object) bool { return isKind(o, kind) })
		})
		if len(ids) == 0 {
			return nil, noGroupOfKind(kind, groups)
		}
		return ids, nil
	}
	if strings.ContainsAny(text, "*?") {
		pattern := regexp.MustCompile("^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text)) + "$")
		ids := matchingIDs(groups, func(g *Group) bool { return pattern.MatchString(g.ID) })
		if len(ids) == 0 {
			return nil, listError("no group matches "+text, allIDs(groups))
		}
		return ids, nil
	}
	for _, match := range []func(*Group) bool{
		func(g *Group) bool { return g.ID == text },
		func(g *Group) bool { return sameName(g.ID, text) },
		func(g *Group) bool { return sameName(ShortID(g.ID), text) },
		func(g *Group) bool { return sameName(g.ID[strings.LastIndexByte(g.ID, ':')+1:], text) },
		func(g *Group) bool {
			return slices.ContainsFunc(g.Objects, func(o Object) bool { return isNamed(o, text) })
		},
		func(g *Group) bool { return text != "" && hasSuffix(g.ID, text, true) },
		func(g *Group) bool { return text != "" && hasSuffix(g.ID, text, false) },
	} {
		switch ids := matchingIDs(groups, match); len(ids) {
		case 0:
		case 1:
			return ids, nil
		default:
			return nil, fmt.Errorf("%s is ambiguous: %s", text, joinOr(ids))
		}
	}
	return nil, noGroupNamed(text, allIDs(groups))
}

// noGroupNamed is the error of Pick for a name.
func noGroupNamed(text string, ids []string) error {
	if text == "" {
		return listError("the name of the group is empty", ids)
	}
	if near := closest(text, ids); near != "" {
		return fmt.Errorf("no group %s; did you mean %s?", text, near)
	}
	return listError("no group "+text, ids)
}

// noGroupOfKind is the error of Pick for kind=.
func noGroupOfKind(kind string, groups []*Group) error {
	var kinds []string
	for _, g := range groups {
		for _, o := range g.Objects {
			kinds = append(kinds, o.Kind)
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	switch {
	case kind == "":
		return errors.New("kind= needs a kind, for example kind=Job")
	case len(kinds) == 0:
		return fmt.Errorf("no group has an object of kind %s; the run has no objects", kind)
	}
	return fmt.Errorf("no group has an object of kind %s; the kinds are %s", kind, strings.Join(kinds, ", "))
}

// PickBreakpoint is Pick for an argument of --break-on other than "failure".
func PickBreakpoint(text string, groups []*Group) ([]string, error) {
	ids, err := Pick(text, groups)
	if err != nil && EditDistance(text, "failure") < 3 {
		return nil, fmt.Errorf("no group %s; did you mean failure?", text)
	}
	return ids, err
}

// hasSuffix reports whether an id ends with a text. (unsequenced) may be missing, or be a ~. With
// wholePart, the text must start after a / or a colon.
func hasSuffix(id, text string, wholePart bool) bool {
	names := []string{id, strings.TrimSuffix(id, ":"+Unsequenced), strings.Replace(id, Unsequenced, tilde, 1)}
	return slices.ContainsFunc(names, func(name string) bool {
		rest, ok := strings.CutSuffix(name, text)
		return ok && (!wholePart || rest == "" || strings.ContainsAny(rest[len(rest)-1:], "/:"))
	})
}

// closest returns the id that is most similar to a text, as it is or as shown on the screen, or "".
func closest(text string, ids []string) string {
	best, least := "", 1+max(len(text)/3, 1)
	for _, id := range ids {
		for _, name := range []string{id, ShortID(id), id[strings.LastIndexByte(id, ':')+1:]} {
			if d := EditDistance(text, name); d < least {
				best, least = id, d
			}
		}
	}
	return best
}

// Nearest returns the first of the names with the smallest edit distance to a text, or "" if all have more
// than the given number of typos.
func Nearest(text string, names []string, typos int) (nearest string) {
	least := typos + 1
	for _, name := range names {
		if d := EditDistance(text, name); d < least {
			nearest, least = name, d
		}
	}
	return nearest
}

// EditDistance returns the Levenshtein distance of two texts.
func EditDistance(a, b string) int {
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

// maxListed limits the names in a message.
const maxListed = 8

// ShortListError is an error of Pick that names only some of the groups. WithHint adds how to list them.
type ShortListError struct{ text string }

func (e *ShortListError) Error() string { return e.text }

// WithHint adds how to list the groups to a *ShortListError. Other errors are returned unchanged.
func WithHint(err error, hint string) error {
	if !errors.As(err, new(*ShortListError)) {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}

// listError is an error that lists the groups.
func listError(problem string, ids []string) error {
	if len(ids) == 0 {
		return errors.New(problem + "; the run has no groups")
	}
	text := problem + "; the groups are " + shortList(ids)
	if len(ids) > maxListed {
		return &ShortListError{text}
	}
	return errors.New(text)
}

// shortList joins names: "a, b", or "a, b, … and 3 more" if there are many.
func shortList(names []string) string {
	if n := len(names) - maxListed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// joinOr joins alternatives: "a, b or c".
func joinOr(ids []string) string {
	if n := len(ids); n <= maxListed {
		return strings.Join(ids[:n-1], ", ") + " or " + ids[n-1]
	}
	return shortList(ids)
}

func allIDs(groups []*Group) []string { return matchingIDs(groups, func(*Group) bool { return true }) }

// matchingIDs returns the ids of matching groups without duplicates: a group may be in several phases.
func matchingIDs(groups []*Group, match func(*Group) bool) (ids []string) {
	seen := map[string]bool{}
	for _, g := range groups {
		if !seen[g.ID] && match(g) {
			seen[g.ID] = true
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// ShortID returns a group's id without the root chart, as the screen shows it: "db:schema" for "shop/db:schema".
// "shop:ingress" does not change.
func ShortID(id string) string {
	if slash := strings.IndexByte(id, '/'); slash >= 0 && slash < strings.IndexByte(id, ':') {
		return id[slash+1:]
	}
	return id
}

// tilde stands for Unsequenced in arguments; "(unseq.)", too.
const tilde = "~"

// ShellID returns an id that needs no quotes in a shell: "shop/db:~" for "shop/db:(unsequenced)".
// Pick accepts it.
func ShellID(id string) string {
	if chart, ok := strings.CutSuffix(id, ":"+Unsequenced); ok {
		return chart + ":" + tilde
	}
	return id
}

// sameName reports whether text is a name, or its short form.
func sameName(name, text string) bool {
	if name == text {
		return true
	}
	chart, ok := strings.CutSuffix(name, Unsequenced)
	return ok && (chart+"(unseq.)" == text || chart+tilde == text)
}

// isNamed reports whether a text names an object: "Job/migrate", "crd/topics".
func isNamed(o Object, text string) bool {
	kind, name, ok := strings.Cut(text, "/")
	return ok && name == o.Name && isKind(o, kind)
}

// isKind reports whether a text names the kind of an object, ignoring case, or is its initials: PVC, CRD.
func isKind(o Object, text string) bool {
	initials := strings.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, o.Kind)
	return strings.EqualFold(o.Kind, text) || len(initials) > 1 && strings.EqualFold(initials, text)
}
