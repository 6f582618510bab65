package charts

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// PrintOptions are the flags of "helm template" of the same names.
type PrintOptions struct {
	IncludeCRDs, NoHooks, SkipTests bool
	// ShowOnly holds patterns of templates, "templates/x.yaml".
	ShowOnly []string
	// OutputDir is where each template gets its own file, instead of one
	// output: what is in one keeps its order.
	OutputDir string
}

// Print writes what was rendered in the order in which it is deployed (R35):
// crds/, the groups of the plan with a line before and after each, and hooks;
// those that run around a subchart are among the groups. An unsequenced batch
// and hooks have no such lines, and what holds no object comes behind the groups.
// kubectl can read the output. Without a plan the order is Helm's.
//
// Rule R35: in the order of deployment, with a line around each group.
func (r *Rendered) Print(w io.Writer, plan *plan.Plan, o PrintOptions) error {
	p := &printer{only: o.ShowOnly, seen: map[string]bool{}}
	if o.OutputDir != "" {
		p.files = map[string]*bytes.Buffer{}
	}
	if o.IncludeCRDs {
		for _, d := range r.CRDs {
			p.document(d.Source, d.Raw)
		}
	}
	printed := map[*release.Hook]bool{}
	hook := func(h *release.Hook) {
		if !printed[h] && !o.NoHooks && (!o.SkipTests || !slices.Contains(h.Events, release.HookTest)) {
			before := p.out.Len()
			p.document(h.Path, h.Manifest)
			p.hookLast = p.hookLast || p.out.Len() > before
		}
		printed[h] = true
	}
	if plan == nil {
		for _, text := range documents.Split(strings.TrimSpace(r.Release.Manifest)) { // trimmed as Helm does
			p.document(documents.CutSource(text))
		}
	} else {
		p.groups(r, plan, hook)
	}
	for _, h := range r.Release.Hooks {
		hook(h)
	}
	for _, pattern := range o.ShowOnly {
		if !p.seen[pattern] {
			return fmt.Errorf("could not find template %s in chart", pattern)
		}
	}
	if p.files != nil {
		return p.save(w, o.OutputDir)
	}
	out := p.out.Bytes()
	if !p.hookLast && bytes.HasSuffix(out, []byte("\n\n")) {
		out = out[:len(out)-1] // the line that Helm puts between the documents of a manifest
	}
	_, err := w.Write(out)
	return err
}

// groups prints the groups of a plan, the hooks that run among them, and what
// holds no object.
func (p *printer) groups(r *Rendered, plan *plan.Plan, hook func(*release.Hook)) {
	docs := r.byObject()
	for _, g := range plan.Groups {
		if i := slices.IndexFunc(r.Turns, func(t HookTurn) bool { return t.Group.ID == g.ID }); i >= 0 {
			hook(r.Turns[i].Hook)
			continue
		}
		p.group(g, docs)
		p.hookLast = false
	}
	for _, d := range r.Others {
		p.document(d.Source, d.Raw)
		p.hookLast = false
	}
}

// claim is an object of a chart, the same one that a plan's group lists.
type claim struct {
	chart  string
	object plan.Object
}

func (r *Rendered) byObject() map[claim][]Document {
	docs := map[claim][]Document{}
	for i, res := range r.Resources {
		key := claim{res.Chart, res.Object}
		docs[key] = append(docs[key], r.Docs[i])
	}
	return docs
}

type printer struct {
	out  bytes.Buffer
	only []string
	// seen holds the patterns of only that a template matched.
	seen map[string]bool
	// hookLast is set where the last document is a hook.
	hookLast bool
	// files is what each template makes, where that is wanted.
	files map[string]*bytes.Buffer
}

// group prints the documents of a group; an object that is there twice is
// printed at its first place.
func (p *printer) group(g *plan.Group, docs map[claim][]Document) {
	before := p.out.Len()
	for _, o := range g.Objects {
		key := claim{g.Chart, o}
		for _, d := range docs[key] {
			p.document(d.Source, d.Raw)
		}
		delete(docs, key)
	}
	if p.out.Len() == before || g.Name == plan.Unsequenced {
		return
	}
	body := bytes.Clone(p.out.Bytes()[before:])
	p.out.Truncate(before)
	fmt.Fprintf(&p.out, "## START resource-group: %s %s\n", g.Chart, g.Name)
	p.out.Write(body)
	fmt.Fprintf(&p.out, "## END resource-group: %s %s\n", g.Chart, g.Name)
}

func (p *printer) document(source, raw string) {
	if !p.wanted(source) {
		return
	}
	out := &p.out
	if p.files != nil {
		if p.files[source] == nil {
			p.files[source] = &bytes.Buffer{}
		}
		out = p.files[source]
	}
	raw = Respell(raw) // for kubectl
	fmt.Fprintf(out, "---\n# Source: %s\n%s", source, raw)
	if !strings.HasSuffix(raw, "\n") {
		out.WriteByte('\n')
	}
}

// save writes the files below dir, and as Helm does tells of each. Their names
// are in the chart's hands, so none may lead out of dir.
func (p *printer) save(w io.Writer, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := root.WriteFile(name, p.files[name].Bytes(), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := fmt.Fprintf(w, "wrote %s\n", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) wanted(source string) bool {
	_, name, _ := strings.Cut(source, "/")
	wanted := len(p.only) == 0
	for _, pattern := range p.only {
		if ok, _ := filepath.Match(filepath.ToSlash(pattern), name); ok {
			p.seen[pattern] = true
			wanted = true
		}
	}
	return wanted
}

// Mask hides the values of what was rendered, but for the names of objects and groups.
func (r *Rendered) Mask() *mask.Mask {
	m := &mask.Mask{}
	m.Release(r.Release)
	for _, o := range r.Resources {
		m.Public(o.Chart, o.Object.String(), o.Annotations[plan.AnnotationGroup])
	}
	return m
}

// HideValues hides the secret values of a chart in an error: templates and schemas
// quote them, before there is a Secret that has them.
func HideValues(c *Chart, values map[string]any, err error) error {
	return MaskOfValues(c, values).Error(err)
}

// MaskOfValues hides what is secret among the values of a chart: what is called like a
// credential, and what its templates put into Secrets.
func MaskOfValues(c *Chart, values map[string]any) *mask.Mask {
	m := &mask.Mask{}
	m.Values(values)
	if h, err := c.Helm(); err == nil {
		m.Values(h.Values)
		m.Secrets(valuesOfSecrets(h, []map[string]any{values})...)
	}
	return m
}

var (
	secretKind = regexp.MustCompile(`\bkind"?: *"?Secret\b`)
	secretData = regexp.MustCompile(`\b(data|stringData)"?:`)
	valueName  = regexp.MustCompile(`\.Values((?:\.\w+)+)`)
)

// valuesOfSecrets returns the values that the templates of a chart and its subcharts name
// where they write the data of Secrets. The values of scopes go over those of the chart.
func valuesOfSecrets(c *helmchart.Chart, scopes []map[string]any) (found []any) {
	scopes = append(slices.Clone(scopes), c.Values)
	for _, t := range c.Templates {
		for doc := range strings.SplitSeq(string(t.Data), "\n---") {
			at := secretData.FindStringIndex(doc)
			if at == nil || !secretKind.MatchString(doc) {
				continue
			}
			for _, m := range valueName.FindAllStringSubmatch(doc[at[1]:], -1) {
				for _, values := range scopes {
					if v, ok, _ := unstructured.NestedFieldNoCopy(values, strings.Split(m[1], ".")[1:]...); ok {
						found = append(found, v)
					}
				}
			}
		}
	}
	for _, sub := range c.Dependencies() {
		names := []string{sub.Name()}
		for _, d := range c.Metadata.Dependencies {
			if d.Name == sub.Name() && d.Alias != "" {
				names = append(names, d.Alias)
			}
		}
		var below []map[string]any
		for _, values := range scopes {
			for _, name := range names {
				if v, ok := values[name].(map[string]any); ok {
					below = append(below, v)
				}
			}
		}
		found = append(found, valuesOfSecrets(sub, below)...)
	}
	return found
}

// HideSecrets hides the values of Secrets in what Print writes, those that are
// hooks included. The release is a copy then.
func (r *Rendered) HideSecrets() {
	for i, d := range r.Docs {
		if d.Object.GetKind() == "Secret" {
			r.Docs[i].Raw = withoutValues(d.Object)
		}
	}
	rel := *r.Release
	rel.Hooks = slices.Clone(rel.Hooks)
	of := map[*release.Hook]*release.Hook{}
	for i, h := range rel.Hooks {
		of[h] = h
		docs, _, _, err := parseManifest(nil, h.Manifest, r.Tree.Path, true)
		if err != nil || len(docs) != 1 || docs[0].Object.GetKind() != "Secret" {
			continue
		}
		hidden := *h
		hidden.Manifest = withoutValues(docs[0].Object)
		rel.Hooks[i], of[h] = &hidden, &hidden
	}
	for i, t := range r.Turns {
		r.Turns[i].Hook = of[t.Hook]
	}
	r.Release = &rel
}

// withoutValues returns a Secret in YAML, without its values.
func withoutValues(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	mask.Object(u.Object, nil)
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Sprintf("# Secret not shown: %v\n", err)
	}
	return string(text)
}
