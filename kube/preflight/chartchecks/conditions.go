package chartchecks

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var errCondition = errors.New("lockstep does not know this condition")

// comparator matches an operator with a version.
var comparator = regexp.MustCompile(`^(<=|>=|==|!=|<|>|=|!)?\s*v?(\d+(\.\d+){0,2}(-[\w.-]+)?)\s*`)

// preRelease matches the suffix of a version before a release.
var preRelease = regexp.MustCompile(`^(alpha|beta|rc)\b`)

// versionMatches reports whether a version of Kubernetes is in a range such as ">= 1.20.0 < 1.25.0 || 1.26.0".
func versionMatches(version, ranges string) (bool, error) {
	exact, err := semver.NewVersion(version)
	if err != nil {
		return false, err
	}
	release := *exact
	if !preRelease.MatchString(exact.Prerelease()) { // the suffix of a provider: v1.30.4-gke.100
		if release, err = exact.SetPrerelease(""); err != nil {
			return false, err
		}
	}
	found := false
	for part := range strings.SplitSeq(ranges, "||") {
		part = strings.TrimSpace(part)
		all := part != ""
		for part != "" {
			m := comparator.FindStringSubmatch(part)
			if m == nil {
				return false, errCondition
			}
			part = part[len(m[0]):]
			other, err := semver.NewVersion(m[2])
			if err != nil {
				return false, errCondition
			}
			v := &release
			if other.Prerelease() != "" {
				v = exact
			}
			ok, err := compares(v.Compare(other), m[1])
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		found = found || all
	}
	return found, nil
}

// compares reports whether the result of a comparison satisfies an operator.
func compares(order int, operator string) (bool, error) {
	switch operator {
	case "", "=", "==", "===":
		return order == 0, nil
	case "!", "!=":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return false, errCondition
}

// aggregate matches a function of nodes, such as sum(cpuCapacity).
var aggregate = regexp.MustCompile(`^(\w+)\(([^)]*)\)$`)

// nodesMatch reports whether nodes satisfy a condition such as "sum(cpuCapacity) < 4" or "< 3", which is about their number.
func nodesMatch(nodes []corev1.Node, when, resourceName string) (bool, error) {
	parts := strings.Fields(when)
	if len(parts) == 2 {
		parts = append([]string{"count()"}, parts...)
	}
	if len(parts) != 3 {
		return false, errCondition
	}
	call := aggregate.FindStringSubmatch(parts[0])
	if call == nil {
		return false, errCondition
	}
	function, property := call[1], call[2]
	switch function {
	case "count", "countDistinct":
		number := len(nodes)
		if function == "countDistinct" {
			number = countDistinct(nodes, property)
		}
		wanted, err := strconv.Atoi(parts[2])
		if err != nil {
			return false, errCondition
		}
		return compares(cmp.Compare(number, wanted), parts[1])
	case "nodeCondition":
		if !slices.Contains([]string{"=", "==", "==="}, parts[1]) {
			return false, errCondition
		}
		for _, n := range nodes {
			for _, c := range n.Status.Conditions {
				if string(c.Type) == property && string(c.Status) == parts[2] {
					return true, nil
				}
			}
		}
		return false, nil
	}
	wanted, err := resource.ParseQuantity(parts[2])
	if err != nil {
		return false, errCondition
	}
	actual, err := aggregated(nodes, function, property, resourceName)
	if err != nil || actual == nil {
		return false, err
	}
	return compares(actual.Cmp(wanted), parts[1])
}

func countDistinct(nodes []corev1.Node, label string) int {
	seen := map[string]bool{}
	for _, n := range nodes {
		if v, ok := n.Labels[label]; ok {
			seen[v] = true
		}
	}
	return len(seen)
}

// aggregated returns the sum, the minimum or the maximum of a property, nil if no node has it.
func aggregated(nodes []corev1.Node, function, property, resourceName string) (*resource.Quantity, error) {
	var result *resource.Quantity
	for _, n := range nodes {
		q, known := quantity(n, property, resourceName)
		switch {
		case !known:
			return nil, errCondition
		case q == nil:
			continue
		case result == nil:
			first := q.DeepCopy()
			result = &first
			continue
		}
		switch function {
		case "sum":
			result.Add(*q)
		case "min":
			if q.Cmp(*result) < 0 {
				*result = q.DeepCopy()
			}
		case "max":
			if q.Cmp(*result) > 0 {
				*result = q.DeepCopy()
			}
		default:
			return nil, errCondition
		}
	}
	if result == nil && function == "sum" {
		result = &resource.Quantity{}
	}
	return result, nil
}

// quantity returns a property of a node, such as cpuCapacity; nil if the node does not have it.
func quantity(n corev1.Node, property, resourceName string) (q *resource.Quantity, known bool) {
	list, name := n.Status.Capacity, property
	if cut, ok := strings.CutSuffix(property, "Allocatable"); ok {
		list, name = n.Status.Allocatable, cut
	} else if name, ok = strings.CutSuffix(property, "Capacity"); !ok {
		return nil, false
	}
	resources := map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "pod": corev1.ResourcePods, "ephemeralStorage": corev1.ResourceEphemeralStorage,
		"resource": corev1.ResourceName(resourceName),
	}
	of, known := resources[name]
	if found, ok := list[of]; ok {
		q = &found
	}
	return q, known
}

// pick returns the nodes that match the filters: at least the given resources, and the labels.
func (f filters) pick(nodes []corev1.Node) (out []corev1.Node, err error) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: f.Selector.MatchLabel, MatchExpressions: f.Selector.MatchExpressions})
	if err != nil {
		return nil, errors.New("its node selector is invalid")
	}
	minimum := map[string]string{
		"cpuCapacity": f.CPUCapacity, "cpuAllocatable": f.CPUAllocatable, "memoryCapacity": f.MemoryCapacity, "memoryAllocatable": f.MemoryAllocatable,
		"podCapacity": f.PodCapacity, "podAllocatable": f.PodAllocatable, "ephemeralStorageCapacity": f.EphemeralStorageCapacity,
		"ephemeralStorageAllocatable": f.EphemeralStorageAllocatable, "resourceCapacity": f.ResourceCapacity, "resourceAllocatable": f.ResourceAllocatable,
	}
	for _, n := range nodes {
		matches := selector.Matches(labels.Set(n.Labels)) && f.Taint.on(n) && (f.CPUArchitecture == "" || n.Status.NodeInfo.Architecture == f.CPUArchitecture)
		for property, text := range minimum {
			if text == "" {
				continue
			}
			wanted, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, errors.New("its filter " + property + " is no quantity")
			}
			q, _ := quantity(n, property, f.ResourceName)
			matches = matches && q != nil && q.Cmp(wanted) >= 0
		}
		if matches {
			out = append(out, n)
		}
	}
	return out, nil
}
