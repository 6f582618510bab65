package chartvalues

import (
	"encoding/json"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// knowledge is what a chart knows of its values, those of its subcharts included.
type knowledge struct {
	known tree
	// required are the paths that the schemas or the templates require.
	required map[string]requirement
}

// requirement is a value that must be set.
type requirement struct {
	path path
	by   string // bySchema or byTemplates
}

// Who requires a value.
const (
	bySchema    = "values.schema.json"
	byTemplates = "templates"
)

// scope is a chart of the tree with the place of its values.
type scope struct {
	chart *chart.Chart
	at    path
	parsed
}

// know reads a chart. mine are the values that its templates may render.
func know(c *chart.Chart, mine map[string]any) *knowledge {
	k := &knowledge{required: map[string]requirement{}}
	scopes := k.scopes(c, nil)
	shared := reachable(scopes) // a template may be included with the values of any chart
	global := tree{}
	for _, s := range scopes {
		own := tree{}
		for key, v := range s.chart.Values {
			own.at(path{key}).addValues(v)
		}
		own.merge(&s.files.paths)
		own.merge(&shared.paths)
		if shared.tpl {
			own.merge(rendered(s.chart, mine))
		}
		k.addSchema(&own, s)
		for _, p := range s.files.required {
			k.require(s.at.with(p...), byTemplates)
		}
		if g := own.keys["global"]; g != nil {
			global.merge(g)
		}
		k.known.at(s.at).merge(&own)
	}
	k.known.at(path{"global"}).merge(&global)
	return k
}

// scopes returns a chart with its subcharts. All values of a dependency whose chart is missing are known.
func (k *knowledge) scopes(c *chart.Chart, at path) []scope {
	all := []scope{{c, at, parseChart(c)}}
	found := map[*chart.Chart]bool{}
	for _, d := range c.Metadata.Dependencies {
		for _, list := range []string{d.Condition, strings.Join(tags(d.Tags), ",")} {
			for p := range strings.SplitSeq(list, ",") {
				if p = strings.TrimSpace(p); p != "" {
					k.known.add(at.with(strings.Split(p, ".")...))
					k.known.add(strings.Split(p, ".")) // tags and conditions are read from the values of the parent, too
				}
			}
		}
		name := d.Name
		if d.Alias != "" {
			name = d.Alias
		}
		i := slices.IndexFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name || sub.Name() == name })
		if i < 0 || len(d.ImportValues) > 0 {
			k.known.add(at.with(name))
		}
		if i >= 0 {
			found[c.Dependencies()[i]] = true
			all = append(all, k.scopes(c.Dependencies()[i], at.with(name))...)
		}
	}
	for _, sub := range c.Dependencies() { // in charts/, but not in Chart.yaml
		if !found[sub] {
			all = append(all, k.scopes(sub, at.with(sub.Name()))...)
		}
	}
	return all
}

func tags(names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, "tags."+name)
	}
	return paths
}

// reachable returns what the templates read that any file of the charts includes.
func reachable(scopes []scope) *reads {
	defined := map[string]*reads{}
	all := &reads{}
	for _, s := range scopes {
		for name, r := range s.defined {
			if defined[name] == nil {
				defined[name] = &reads{}
			}
			defined[name].merge(r)
		}
		all.tpl = all.tpl || s.files.tpl
		all.dynamic = all.dynamic || s.files.dynamic
		all.includes = append(all.includes, s.files.includes...)
	}
	seen := map[string]bool{}
	visit := func(name string) {
		if r := defined[name]; r != nil && !seen[name] {
			seen[name] = true
			all.merge(r)
		}
	}
	for n := 0; n < len(all.includes); n++ {
		visit(all.includes[n])
	}
	if all.dynamic {
		for name := range defined {
			visit(name)
		}
	}
	return all
}

// rendered returns what the texts read that a chart may render with tpl: those of its values, of mine, and its files.
func rendered(c *chart.Chart, mine map[string]any) *tree {
	r := &reads{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			r.text(v)
		case map[string]any:
			for _, e := range v {
				visit(e)
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		}
	}
	visit(c.Values)
	visit(mine)
	for _, f := range c.Files {
		r.text(string(f.Data))
	}
	return &r.paths
}

// require adds a required value.
func (k *knowledge) require(p path, by string) {
	if _, known := k.required[p.String()]; !known {
		k.required[p.String()] = requirement{p, by}
	}
}

// schema is the part of a JSON schema that names keys.
type schema struct {
	Properties           map[string]json.RawMessage
	Required             []string
	PatternProperties    map[string]json.RawMessage
	AdditionalProperties json.RawMessage
	Ref                  string `json:"$ref"`
	AllOf, AnyOf, OneOf  []json.RawMessage
}

// addSchema adds the keys of a chart's schema. What a schema says by other means than properties may be anything.
func (k *knowledge) addSchema(own *tree, s scope) {
	if len(s.chart.Schema) > 0 {
		k.addSchemaAt(own, s.chart.Schema, s.at, 0)
	}
}

func (k *knowledge) addSchemaAt(own *tree, text json.RawMessage, at path, depth int) {
	var s schema
	more := strings.TrimSpace(string(text))
	if json.Unmarshal(text, &s) != nil || depth > 20 || s.Ref != "" || len(s.PatternProperties)+len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 ||
		strings.HasPrefix(strings.TrimSpace(string(s.AdditionalProperties)), "{") || more == "true" {
		own.all = true
		if json.Unmarshal(text, &s) != nil || depth > 20 {
			return
		}
	}
	if len(s.Properties) == 0 && depth > 0 {
		own.all = true
	}
	for name, below := range s.Properties {
		k.addSchemaAt(own.at(path{name}), below, at.with(name), depth+1)
	}
	for _, name := range s.Required {
		k.require(at.with(name), bySchema)
	}
}
