package chartvalues

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// reads is what a template reads of the values.
type reads struct {
	paths    tree
	required []path
	includes []string // names of templates that it includes
	dynamic  bool     // it includes a template whose name is not constant
	tpl      bool     // it renders texts as templates
}

func (r *reads) merge(other *reads) {
	r.paths.merge(&other.paths)
	r.required = append(r.required, other.required...)
	r.includes, r.dynamic, r.tpl = append(r.includes, other.includes...), r.dynamic || other.dynamic, r.tpl || other.tpl
}

// parsed are the templates of a chart: what its files read, and what the templates that it defines read, by name.
type parsed struct {
	files   reads
	defined map[string]*reads
}

// parseChart reads the templates of a chart, without its subcharts. A template that it cannot parse may read everything.
func parseChart(c *chart.Chart) parsed {
	p := parsed{defined: map[string]*reads{}}
	for _, t := range c.Templates {
		set := map[string]*parse.Tree{}
		root := parse.New(t.Name)
		root.Mode = parse.SkipFuncCheck
		if _, err := root.Parse(string(t.Data), "", "", set); err != nil {
			p.files.paths.all = true
			continue
		}
		for name, tree := range set {
			found := &reads{}
			if tree.Root != nil {
				found.node(tree.Root)
			}
			if name == t.Name {
				p.files.merge(found)
			} else {
				p.defined[name] = found
			}
		}
		if set[t.Name] == nil && root.Root != nil {
			p.files.node(root.Root)
		}
	}
	return p
}

// node adds what a node of a template reads.
func (r *reads) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, below := range n.Nodes {
				r.node(below)
			}
		}
	case *parse.ActionNode:
		r.pipe(n.Pipe)
	case *parse.IfNode:
		r.condition(n.Pipe)
		r.node(n.List)
		r.node(n.ElseList)
	case *parse.WithNode:
		r.pipe(n.Pipe)
		r.node(n.List)
		r.node(n.ElseList)
	case *parse.RangeNode:
		r.pipe(n.Pipe)
		r.node(n.List)
		r.node(n.ElseList)
	case *parse.TemplateNode:
		r.includes = append(r.includes, n.Name)
		r.pipe(n.Pipe)
	}
}

// condition adds what a condition reads. It looks only whether a value is empty, not at the values below it.
func (r *reads) condition(p *parse.PipeNode) {
	if p == nil || len(p.Decl) > 0 || len(p.Cmds) != 1 {
		r.pipe(p)
		return
	}
	args := p.Cmds[0].Args
	if name, ok := args[0].(*parse.IdentifierNode); ok && len(args) > 1 {
		if !slices.Contains([]string{"and", "or", "not", "empty"}, name.Ident) {
			r.command(p.Cmds[0], nil)
			return
		}
		args = args[1:]
	}
	for _, arg := range args {
		if inner, ok := arg.(*parse.PipeNode); ok {
			r.condition(inner)
		} else if found := valuesPath(arg); len(found) > 0 {
			r.paths.at(found)
		} else {
			r.argument(arg)
		}
	}
}

func (r *reads) pipe(p *parse.PipeNode) {
	if p == nil {
		return
	}
	for i, c := range p.Cmds {
		var before *parse.CommandNode
		if i > 0 {
			before = p.Cmds[i-1]
		}
		r.command(c, before)
	}
}

// command adds what a command reads. before is the one whose result it gets as its last argument, nil for none.
func (r *reads) command(c, before *parse.CommandNode) {
	name, isFunction := c.Args[0].(*parse.IdentifierNode)
	if !isFunction {
		for _, arg := range c.Args {
			r.argument(arg)
		}
		return
	}
	args := c.Args[1:]
	switch name.Ident {
	case "include":
		if text, ok := constant(args); ok {
			r.includes = append(r.includes, text)
		} else {
			r.dynamic = true
		}
	case "tpl":
		r.tpl = true
	case "required":
		value := args
		if before != nil {
			value = before.Args
		}
		if len(value) > 0 {
			value = value[len(value)-1:]
			if found := valuesPath(value[0]); len(found) > 0 {
				r.required = append(r.required, found)
			}
		}
	case "index", "get", "hasKey":
		if found, ok := constantKeys(args); ok {
			r.paths.add(found)
			return
		}
	}
	for _, arg := range args {
		r.argument(arg)
	}
}

// argument adds what an argument reads.
func (r *reads) argument(n parse.Node) {
	if found := valuesPath(n); found != nil {
		r.paths.add(found)
		return
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		r.pipe(n)
	case *parse.ChainNode:
		r.argument(n.Node)
	case *parse.StringNode:
		r.text(n.Text)
	}
}

// inText matches a path of values in a text that may be rendered as a template.
var inText = regexp.MustCompile(`\.Values((?:\.\w+)*)`)

// text adds what a text reads that may be rendered as a template.
func (r *reads) text(s string) {
	for _, m := range inText.FindAllStringSubmatch(s, -1) {
		r.paths.add(path(strings.FieldsFunc(m[1], func(c rune) bool { return c == '.' })))
	}
}

// valuesPath returns the path after .Values in a field, a variable or a chain: not nil if there is one, and empty for the
// values as a whole. Such a field counts wherever the dot is.
func valuesPath(n parse.Node) path {
	var idents []string
	switch n := n.(type) {
	case *parse.FieldNode:
		idents = n.Ident
	case *parse.VariableNode:
		idents = n.Ident
	case *parse.ChainNode:
		idents = n.Field
	}
	if i := slices.Index(idents, "Values"); i >= 0 {
		return append(path{}, idents[i+1:]...)
	}
	return nil
}

func constant(args []parse.Node) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	text, ok := args[0].(*parse.StringNode)
	if !ok {
		return "", false
	}
	return text.Text, true
}

// constantKeys returns the path that "index .Values.a "b" "c"" reads.
func constantKeys(args []parse.Node) (path, bool) {
	if len(args) < 2 {
		return nil, false
	}
	found := valuesPath(args[0])
	if found == nil {
		return nil, false
	}
	for _, arg := range args[1:] {
		text, ok := arg.(*parse.StringNode)
		if !ok {
			return nil, false
		}
		found = found.with(text.Text)
	}
	return found, true
}
