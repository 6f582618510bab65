package charts

import (
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// child returns the value of key in the mapping m, following aliases, or nil.
func child(m *kyaml.Node, key string) *kyaml.Node {
	_, value := documents.Entry(m, key)
	return documents.Resolve(value)
}

// hasMerge reports whether a document has a merge key (<<).
func hasMerge(n *kyaml.Node) bool {
	return n.Tag == kyaml.MergeTag || slices.ContainsFunc(n.Content, hasMerge)
}

// expand is like parseYAML, but expands aliases and merge keys. It returns nil if it cannot, for
// example if a mapping has two merge keys.
func expand(doc string) *kyaml.Node {
	root := parseYAML(doc)
	if root == nil || kyaml.NewRNode(root).DeAnchor() != nil {
		return nil
	}
	return root
}

// maxExpanded limits the number of nodes in a document with all aliases expanded. YAML parsers
// report excessive aliasing at about the same number.
const maxExpanded = 4_000_000

// finite reports whether the aliases of a document can be expanded: there are no cycles, and
// the result has at most maxExpanded nodes.
func finite(root *kyaml.Node) bool {
	sizes := map[*kyaml.Node]int{} // of nodes with an anchor, 0 while being counted
	var count func(n *kyaml.Node) int
	count = func(n *kyaml.Node) int {
		if n.Kind == kyaml.AliasNode {
			n = n.Alias
		}
		if size, seen := sizes[n]; seen && size == 0 {
			return maxExpanded + 1 // a cycle
		} else if seen {
			return size
		}
		if n.Anchor != "" {
			sizes[n] = 0
		}
		sum := 1
		for _, c := range n.Content {
			if sum += count(c); sum > maxExpanded {
				break
			}
		}
		if n.Anchor != "" {
			sizes[n] = sum
		}
		return sum
	}
	return count(root) <= maxExpanded
}

// scalarText returns the text of a scalar, "" for other nodes.
func scalarText(n *kyaml.Node) string {
	if n == nil || n.Kind != kyaml.ScalarNode {
		return ""
	}
	return n.Value
}

// inline prints a node on one line, for messages.
func inline(n *kyaml.Node) string {
	n = documents.Resolve(n)
	if n.Kind == kyaml.ScalarNode {
		return "'" + n.Value + "'" // quotes in it are not escaped
	}
	s, err := toJSON(n)
	if err != nil {
		return n.Value
	}
	return s
}

// names reads a list of names in one of the forms of R1: a YAML list, or a JSON array in a
// string. Null and white space are an empty list.
func names(n *kyaml.Node) (list []string, ok bool) {
	n = documents.Resolve(n)
	switch {
	case n.Kind == kyaml.SequenceNode:
		for _, item := range n.Content {
			item = documents.Resolve(item)
			if item.Kind != kyaml.ScalarNode || item.ShortTag() == kyaml.NodeTagNull {
				return nil, false
			}
			list = append(list, item.Value)
		}
		return list, true
	case n.ShortTag() == kyaml.NodeTagNull, n.Kind == kyaml.ScalarNode && strings.TrimSpace(n.Value) == "":
		return nil, true
	case n.Kind == kyaml.ScalarNode:
		list, err := plan.ParseList(n.Value)
		return list, err == nil
	}
	return nil, false
}

// toStringValue converts the value of an annotation to a string. changed is false if the value is
// a string already. Lists and mappings become JSON, with the scalars of a list as strings;
// other scalars keep their text; null becomes "". Helm's parser decides what is a string:
// to it, yes and 012 are not.
func toStringValue(n *kyaml.Node) (converted string, changed bool) {
	n = documents.Resolve(n)
	if n.Kind != kyaml.ScalarNode {
		converted, err := toJSON(n)
		return converted, err == nil
	}
	if n.Style != 0 {
		return "", false
	}
	var v any
	if err := yaml.Unmarshal([]byte(n.Value), &v); err != nil {
		return "", false
	}
	switch v.(type) {
	case string:
		return "", false
	case nil:
		return "", true
	}
	return n.Value, true
}

// toJSON encodes a list, its scalars as strings, or a mapping as JSON on one line.
func toJSON(n *kyaml.Node) (string, error) {
	if n.Kind != kyaml.SequenceNode {
		return encodeJSON(n)
	}
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		item = documents.Resolve(item)
		if item.Kind == kyaml.ScalarNode && item.ShortTag() != kyaml.NodeTagNull {
			items[i] = documents.JSON(item.Value)
			continue
		}
		var err error
		if items[i], err = encodeJSON(item); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(items, ",") + "]", nil
}

func encodeJSON(n *kyaml.Node) (string, error) {
	s, err := kyaml.String(n)
	if err != nil {
		return "", err
	}
	b, err := yaml.YAMLToJSON([]byte(s))
	return string(b), err
}

// equal compares two nodes without comments and style.
func equal(a, b *kyaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, equal)
}

// setString replaces n with a quoted string.
func setString(n *kyaml.Node, s string) {
	*n = kyaml.Node{
		Kind: kyaml.ScalarNode, Tag: kyaml.NodeTagString, Style: kyaml.SingleQuotedStyle, Value: s,
		HeadComment: n.HeadComment, LineComment: n.LineComment, FootComment: n.FootComment,
	}
}

// orderingHints are prefixes of all ordering annotations, twoSlashHints of those with two slashes.
var (
	orderingHints = []string{"helm.sh/resource-group", "helm.sh/dep", "helm.sh/layer", "helm.sh/weight", "helm.sh/install-before", "helm.sh/readiness-", "lockstep/wait", "lockstep/stable-for", "lockstep/ignore-drift", "lockstep/approve", "lockstep/no-return"}
	twoSlashHints = []string{"helm.sh/dep"}
)

// OrderingKeys are the annotations that order objects, in both spellings (R3).
var OrderingKeys = bothSpellings(
	plan.AnnotationGroup, plan.AnnotationGroupDependsOn,
	plan.AnnotationLayer, plan.AnnotationLayerDependsOn, plan.AnnotationLayerChart,
	plan.AnnotationWeight, plan.AnnotationInstallBefore,
	plan.AnnotationReadinessSuccess, plan.AnnotationReadinessFailure,
)

// convertedKeys are the annotations whose values are converted to strings, for example lists (R1) and
// weights.
var convertedKeys = append(append(bothSpellings(plan.AnnotationSubchartDependsOn), plan.AnnotationWait, plan.AnnotationReadinessTimeout, plan.AnnotationStableFor, plan.AnnotationWaitFor, plan.AnnotationIgnoreDrift, plan.AnnotationApprove, plan.AnnotationNoReturn), OrderingKeys...)

// AnnotationKeys returns the annotations of lockstep and HIP-0025, in both spellings.
func AnnotationKeys() []string { return append(slices.Clone(convertedKeys), plan.AnnotationHookScope) }

func bothSpellings(keys ...string) (all []string) {
	for _, key := range keys {
		all = append(all, key)
		if stored := plan.StoredKey(key); stored != key {
			all = append(all, stored)
		}
	}
	return all
}
