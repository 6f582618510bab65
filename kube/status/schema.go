package status

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"lockstep/engine/plan"
)

// Schema is the OpenAPI schema of a kind, or of a part of it. The zero value allows any field.
type Schema struct {
	node map[string]any
	// components are the schemas that a $ref can name.
	components map[string]any
}

// NewSchema returns a schema as OpenAPI v3 or a CustomResourceDefinition has it. components are the schemas that it
// refers to, nil for none.
func NewSchema(node, components map[string]any) Schema { return Schema{node, components}.resolved() }

// resolved follows references.
func (s Schema) resolved() Schema {
	for range 10 { // a schema may refer to itself
		ref, _ := s.node["$ref"].(string)
		if all, ok := s.node["allOf"].([]any); ref == "" && ok && len(all) == 1 {
			only, _ := all[0].(map[string]any)
			ref, _ = only["$ref"].(string)
		}
		if ref == "" {
			return s
		}
		s.node, _ = s.components[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	return Schema{}
}

// field returns the schema of a field. unknown is set if the schema does not allow the field.
func (s Schema) field(name string) (f Schema, unknown bool) {
	properties, _ := s.node["properties"].(map[string]any)
	if node, ok := properties[name].(map[string]any); ok {
		return Schema{node, s.components}.resolved(), false
	}
	if open, _ := s.node["x-kubernetes-preserve-unknown-fields"].(bool); open || len(properties) == 0 || s.node["additionalProperties"] != nil {
		node, _ := s.node["additionalProperties"].(map[string]any)
		return Schema{node, s.components}.resolved(), false
	}
	return Schema{}, true
}

// items returns the schema of the items of a list.
func (s Schema) items() Schema {
	node, _ := s.node["items"].(map[string]any)
	return Schema{node, s.components}.resolved()
}

// Known reports whether the schema says anything.
func (s Schema) Known() bool { return len(s.node) > 0 }

// fields returns the names of the fields that the schema allows.
func (s Schema) fields() []string {
	properties, _ := s.node["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// UnknownField is a field in an expression that the schema of the kind does not allow.
type UnknownField struct {
	Path  string   // ".status.fase"
	Known []string // the fields in its place
}

// Hint proposes the known field that is most similar, or lists all: "; did you mean .status.phase?".
func (f *UnknownField) Hint() string {
	parent, name := f.Path[:strings.LastIndexByte(f.Path, '.')], f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	if near := plan.NearestName(name, f.Known); near != "" {
		return "; did you mean " + parent + "." + near + "?"
	}
	if len(f.Known) == 0 {
		return ""
	}
	return "; it has " + strings.Join(f.Known, ", ")
}

// Check returns the first field of the expression's path that the schema of a whole object does not allow, or nil.
func (e Expression) Check(object Schema) *UnknownField {
	status, unknown := object.field("status")
	if unknown {
		return &UnknownField{".status", object.fields()}
	}
	path, _, _ := splitPath(e.text) // parseExpression checked it
	parsed, err := jsonpath.Parse("status", "{"+relativePath(path)+"}")
	if err != nil || !status.Known() {
		return nil
	}
	c := checker{}
	c.nodes(parsed.Root.Nodes, status, ".status")
	return c.found
}

// checker walks a path.
type checker struct{ found *UnknownField }

// nodes walks nodes that follow each other. A part of the path whose schema is not known allows anything.
func (c *checker) nodes(nodes []jsonpath.Node, s Schema, path string) {
	for _, n := range nodes {
		if c.found != nil || !s.Known() {
			return
		}
		s, path = c.node(n, s, path)
	}
}

// node walks one node and returns the schema of what it matches.
func (c *checker) node(n jsonpath.Node, s Schema, path string) (Schema, string) {
	switch n := n.(type) {
	case *jsonpath.ListNode:
		for _, inner := range n.Nodes {
			if c.found != nil || !s.Known() {
				return Schema{}, path
			}
			s, path = c.node(inner, s, path)
		}
		return s, path
	case *jsonpath.FieldNode:
		if n.Value == "" {
			return s, path
		}
		f, unknown := s.field(n.Value)
		if path += "." + n.Value; unknown {
			c.found = &UnknownField{path, s.fields()}
		}
		return f, path
	case *jsonpath.ArrayNode:
		return s.items(), path + "[]"
	case *jsonpath.WildcardNode:
		return s.items(), path + "[]"
	case *jsonpath.FilterNode:
		for _, side := range []*jsonpath.ListNode{n.Left, n.Right} {
			if c.found == nil && s.items().Known() {
				c.node(side, s.items(), path+"[]")
			}
		}
		return s.items(), path + "[]"
	}
	return Schema{}, path // .. and unions may match anything
}
