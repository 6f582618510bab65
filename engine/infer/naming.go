package infer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// nameUnits names the units of a chart: those of workloads after the workload, without the names of
// release and chart, and the others after their kinds. Names end up in templates, so they should not
// depend on values.
func (a *arranger) nameUnits(path string) {
	units := a.units[path]
	slices.SortFunc(units, func(u, v *unit) int { return cmp.Or(cmp.Compare(u.purpose, v.purpose), strings.Compare(u.key, v.key)) })
	taken := map[string]int{plan.Unsequenced: 1}
	chartName := path[strings.LastIndexByte(path, '/')+1:]
	short := a.shortNames(units, chartName)
	wanted := make([]string, len(units))
	for i, u := range units {
		switch {
		case u.declared:
			wanted[i] = u.name
		case u.purpose == base:
			wanted[i] = "base"
		case u.purpose == crds:
			wanted[i] = "crds"
		case u.purpose == workload:
			wanted[i] = short[u]
		default:
			wanted[i] = kindsName(u)
		}
		taken[wanted[i]]++
	}
	given := map[string]bool{plan.Unsequenced: true}
	for i, u := range units {
		if u.declared || taken[wanted[i]] == 1 {
			u.name = wanted[i]
			given[u.name] = true
		}
	}
	for i, u := range units {
		if u.name == "" {
			u.name = distinct(u, wanted[i], given)
			given[u.name] = true
		}
	}
}

// distinct returns a name for a unit that is not in given.
func distinct(u *unit, name string, given map[string]bool) string {
	candidates := []string{name}
	switch u.purpose {
	case workload:
		candidates = append(candidates, name+"-"+strings.ToLower(u.workload().name().Kind))
	case followers:
		var dependencies []string
		for to := range u.dependencies {
			if to.name != "" && to.purpose != base && to.purpose != crds {
				dependencies = append(dependencies, to.name)
			}
		}
		slices.Sort(dependencies)
		if len(dependencies) > 0 {
			candidates = []string{name + "-" + dependencies[0], name}
		}
	}
	for _, c := range candidates {
		if !given[c] {
			return c
		}
	}
	for n := 2; ; n++ {
		if c := fmt.Sprintf("%s-%d", name, n); !given[c] {
			return c
		}
	}
}

// shortNames returns the names of workloads without the parts that they share: the names of the release
// and the chart or, if none contains the name of the chart, a common prefix.
func (a *arranger) shortNames(units []*unit, chartName string) map[*unit]string {
	rest := map[*unit][]string{} // the parts of each name
	var workloads []*unit
	anyChart := false
	for _, u := range units {
		if u.purpose == workload && !u.declared {
			words, hasChart := a.strip(u.workload(), chartName)
			rest[u], anyChart, workloads = words, anyChart || hasChart, append(workloads, u)
		}
	}
	if len(workloads) == 1 && workloads[0].workload().labels["app.kubernetes.io/name"] == strings.Join(rest[workloads[0]], "-") {
		rest[workloads[0]] = nil
	}
	for len(workloads) > 1 && !anyChart && len(rest[workloads[0]]) > 0 {
		first := rest[workloads[0]][0]
		if slices.ContainsFunc(workloads, func(u *unit) bool { return len(rest[u]) == 0 || rest[u][0] != first }) {
			break
		}
		for _, u := range workloads {
			rest[u] = rest[u][1:]
		}
	}
	out := map[*unit]string{}
	for u, words := range rest {
		for len(words) > 0 && generatedPart.MatchString(words[len(words)-1]) {
			words = words[:len(words)-1]
		}
		if out[u] = strings.Join(words, "-"); out[u] == "" {
			out[u] = chartName
		}
	}
	return out
}

// workload returns the workload of an inferred unit with that purpose.
func (u *unit) workload() *node {
	return u.members[slices.IndexFunc(u.members, func(n *node) bool { return n.isWorkload })]
}

// generatedPart matches the last part of a name if it is a version, a revision or a checksum.
var generatedPart = regexp.MustCompile(`^(v?[0-9.]+|[0-9a-f]*[0-9][0-9a-f]{4,}|[0-9a-f]{5,}[0-9][0-9a-f]*)$`)

// strip removes the names of the release and the chart from a workload's name, and reports whether
// it contained the chart's.
func (a *arranger) strip(n *node, chartName string) (words []string, hasChart bool) {
	words = strings.Split(strings.TrimSuffix(n.name().Name, "-"), "-")
	label := func(key string) string { s, _ := n.labels[key].(string); return s }
	for _, prefix := range []string{a.release, label("app.kubernetes.io/instance"), chartName} {
		p := strings.Split(prefix, "-")
		if prefix != "" && len(words) >= len(p) && slices.Equal(words[:len(p)], p) {
			words = words[len(p):]
			hasChart = hasChart || prefix == chartName
		}
	}
	return words, hasChart
}

// kindsName names a unit after the kind of its objects, or else their API group.
func kindsName(u *unit) string {
	kind, group := u.members[0].name().Kind, u.members[0].name().Group
	if !slices.ContainsFunc(u.members, func(n *node) bool { return plural(n.name().Kind) != plural(kind) }) {
		return plural(kind)
	}
	if !slices.ContainsFunc(u.members, func(n *node) bool { return n.name().Group != group }) && group != "" {
		return before(group, ".")
	}
	return "resources"
}

// plural returns the plural of a kind in lower case, for names of groups: some are shortened, such as
// "webhooks" and "ingress".
func plural(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "ingress":
		return name
	case name == "apiservice":
		return "apis"
	case strings.HasSuffix(name, "webhookconfiguration"):
		return "webhooks"
	case strings.HasSuffix(name, "s"), strings.HasSuffix(name, "x"), strings.HasSuffix(name, "ch"), strings.HasSuffix(name, "sh"):
		return name + "es"
	case strings.HasSuffix(name, "y") && !strings.HasSuffix(name, "ay") && !strings.HasSuffix(name, "ey"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}
