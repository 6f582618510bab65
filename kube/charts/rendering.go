package charts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/postrenderer"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// Outputs are the outputs of a chart's templates, in the order in which Helm executes them.
type Outputs []templateOutput

// templateOutput is the output of one template, with Helm's name of it.
type templateOutput struct{ name, text string }

// Rendering renders the templates of a chart for one action of Helm, so that their outputs can be normalised (R1), limited
// and kept.
//
// It replaces the templates of the chart. Helm's engine executes firstTemplate before the others. That puts the
// templates back, and renders the chart with an engine of its own, with the values that the action has made; the replaced
// templates return these outputs. So names, checksums and errors are those of the chart.
type Rendering struct {
	ctx       context.Context
	chart     *chart.Chart
	engine    engine.Engine
	guard     *Guard
	limited   bool // the guard already runs
	originals map[*common.File]original
	check     func(output string) // if set, called with each output before it is normalised

	outputs Outputs
	err     error

	sorts  bool           // the documents are sorted here if possible, and not by the action
	sorted *sortedRelease // nil if the action sorts them
}

// original is a template that was replaced.
type original struct {
	number int
	text   []byte
}

// The functions that templates call: in the action's engine renderFunc and outputFunc, in that of Rendering leaveFunc.
const (
	renderFunc = "lockstepRender"
	outputFunc = "lockstepOutput"
	leaveFunc  = "lockstepLeave"
)

// firstTemplate is the name of a template of the root chart. Helm executes those in the deepest directory first.
var firstTemplate = strings.Repeat("lockstep/", 1000)

// NewRendering returns the Rendering of c, whose templates it replaces. e is the engine that the action would make. The
// rendering ends with ctx, and within the limits of g, if that is not nil. The action needs the functions of Funcs.
func NewRendering(ctx context.Context, c *chart.Chart, e engine.Engine, g *Guard) *Rendering {
	r := &Rendering{ctx: ctx, chart: c, engine: e, guard: g, originals: map[*common.File]original{}}
	r.replace(c)
	c.Templates = append(c.Templates, &common.File{Name: firstTemplate, Data: []byte("{{" + renderFunc + " $}}")})
	return r
}

// Replay returns a Rendering of c with the outputs of an earlier one, so that lookups and random values stay the same.
func Replay(c *chart.Chart, outputs Outputs) *Rendering {
	r := NewRendering(context.Background(), c, engine.Engine{}, nil)
	r.outputs = outputs
	return r
}

// replace replaces the templates of a chart and its subcharts.
func (r *Rendering) replace(c *chart.Chart) {
	for _, t := range c.Templates {
		if hasOutput(c, t) {
			r.originals[t] = original{len(r.originals), t.Data}
			t.Data = []byte("{{" + outputFunc + " $.Template.Name}}")
		}
	}
	for _, sub := range c.Dependencies() {
		r.replace(sub)
	}
}

// hasOutput reports whether Helm executes a template of c. It only parses partials, and ignores others in a library.
func hasOutput(c *chart.Chart, t *common.File) bool {
	return t != nil && !strings.HasPrefix(path.Base(t.Name), "_") && c.Metadata.Type != "library"
}

// Funcs returns the functions for action.Configuration.CustomTemplateFuncs.
func (r *Rendering) Funcs() template.FuncMap {
	return template.FuncMap{renderFunc: r.render, outputFunc: r.output}
}

// Outputs returns the outputs of the templates, none if one of them failed.
func (r *Rendering) Outputs() Outputs { return r.outputs }

// parsed returns the documents of the release's manifest, nil if they have not been parsed.
func (r *Rendering) parsed() []documents.Value {
	if r.sorted == nil {
		return nil
	}
	return r.sorted.values
}

// Err returns why a template failed, or was abandoned. The error of the action contains the same in the words of its own
// engine.
func (r *Rendering) Err() error { return r.err }

// render puts the templates back and renders the chart. It returns "", the output of firstTemplate.
func (r *Rendering) render(root common.Values) (string, error) {
	r.chart.Templates = r.chart.Templates[:len(r.chart.Templates)-1]
	r.restore()
	switch {
	case r.outputs != nil: // replayed
	case r.limited:
		r.outputs, r.err = r.execute(root)
	default:
		r.outputs, r.err = limited(r.ctx, r.guard, func() (Outputs, error) { return r.execute(root) })
	}
	if r.sorts && r.err == nil {
		r.sorted = r.outputs.sort()
	}
	return "", r.err
}

func (r *Rendering) restore() {
	for t, o := range r.originals {
		t.Data = o.text
	}
}

// output returns the output of a template for the action: nothing if its documents have been sorted.
func (r *Rendering) output(name string) (string, error) {
	i := slices.IndexFunc(r.outputs, func(o templateOutput) bool { return o.name == name })
	if i < 0 {
		r.err = fmt.Errorf("template %s was not rendered during planning; run the command again", name)
		return "", r.err
	}
	if r.sorted != nil && !isNotes(name) {
		return "", nil
	}
	return r.outputs[i].text, nil
}

// execute renders the chart.
func (r *Rendering) execute(root common.Values) (Outputs, error) {
	defer r.restore()
	for t, o := range r.originals {
		t.Data = markEnd(o.text, o.number)
	}
	templates := r.executed(r.chart)
	e := r.engine
	e.CustomTemplateFuncs = r.guard.start(templates)
	maps.Copy(e.CustomTemplateFuncs, r.engine.CustomTemplateFuncs)
	texts, err := e.RenderWithContext(r.ctx, r.chart, root)
	if err != nil && r.unmarkInvalid() {
		texts, err = e.RenderWithContext(r.ctx, r.chart, root)
	}
	if err != nil {
		return nil, err
	}
	outputs := Outputs{}
	for _, t := range templates {
		text := texts[t.name]
		if !isNotes(t.name) {
			if r.check != nil {
				r.check(text)
			}
			text = normalise(text)
		}
		outputs = append(outputs, templateOutput{t.name, text})
	}
	return outputs, nil
}

// isNotes reports whether a template renders notes, as Helm decides it.
func isNotes(name string) bool { return strings.HasSuffix(name, "NOTES.txt") }

// executedTemplate is a template that Helm executes, with its name there. The templates of two aliases of one chart have the
// same number.
type executedTemplate struct {
	number int
	name   string
}

// executed returns the templates of a chart and its subcharts in the order in which Helm executes them.
func (r *Rendering) executed(c *chart.Chart) (templates []executedTemplate) {
	for _, t := range c.Templates {
		if hasOutput(c, t) {
			templates = append(templates, executedTemplate{r.originals[t].number, path.Join(c.ChartFullPath(), t.Name)})
		}
	}
	for _, sub := range c.Dependencies() {
		templates = append(templates, r.executed(sub)...)
	}
	slices.SortFunc(templates, func(a, b executedTemplate) int {
		return cmp.Or(strings.Count(b.name, "/")-strings.Count(a.name, "/"), cmp.Compare(b.name, a.name))
	})
	return templates
}

// markEnd appends a call that tells the guard that a template has ended.
func markEnd(text []byte, number int) []byte {
	return fmt.Appendf(slices.Clone(text), "{{%s %d}}", leaveFunc, number)
}

// unmarkInvalid puts the templates back that do not parse, so that Helm's error says where, and reports whether there are any.
// Helm parses all of them before it executes one.
func (r *Rendering) unmarkInvalid() (found bool) {
	for t, o := range r.originals {
		parser := parse.New("")
		parser.Mode = parse.SkipFuncCheck
		if _, err := parser.Parse(string(t.Data), "", "", map[string]*parse.Tree{}); err != nil {
			t.Data, found = o.text, true
		}
	}
	return found
}

// sortedRelease are the documents of a release as Helm sorts them.
type sortedRelease struct {
	hooks    []*release.Hook
	manifest string
	values   []documents.Value // of the documents of the manifest
}

// sortedDocument is a document of the output of a template.
type sortedDocument struct {
	template, text, kind string
	value                documents.Value
}

// sort sorts the documents like Helm's SortManifests, but keeps the parsed ones: Helm parses all of them only for their kinds and
// annotations. It returns nil if Helm would refuse one, or could read it differently.
func (o Outputs) sort() *sortedRelease {
	var docs, hooks []sortedDocument
	var texts []string
	for _, t := range slices.SortedFunc(slices.Values(o), func(a, b templateOutput) int { return strings.Compare(a.name, b.name) }) {
		if isNotes(t.name) {
			continue
		}
		for _, text := range documents.Split(t.text) {
			docs, texts = append(docs, sortedDocument{template: t.name, text: text}), append(texts, text+"\n") // as in the manifest
		}
	}
	var generic []sortedDocument
	for i, value := range (*documents.Reader)(nil).ParseAll(texts) {
		d := docs[i]
		kind, isHook, ok := readHead(value)
		d.kind, d.value = kind, value
		switch {
		case !ok:
			return nil
		case isHook:
			hooks = append(hooks, d)
		default:
			generic = append(generic, d)
		}
	}
	s := &sortedRelease{}
	for _, d := range hooks {
		found, _, err := releaseutil.SortManifests(map[string]string{d.template: d.text}, nil, releaseutil.InstallOrder)
		if err != nil {
			return nil
		}
		s.hooks = append(s.hooks, found...)
	}
	rank := map[string]int{}
	for i, kind := range releaseutil.InstallOrder {
		rank[kind] = i - len(releaseutil.InstallOrder) // others are last, by name
	}
	byKind := func(a, b string) int {
		if c := cmp.Compare(rank[a], rank[b]); c != 0 || rank[a] != 0 {
			return c
		}
		return strings.Compare(a, b)
	}
	slices.SortStableFunc(s.hooks, func(a, b *release.Hook) int { return byKind(a.Kind, b.Kind) })
	slices.SortStableFunc(generic, func(a, b sortedDocument) int { return byKind(a.kind, b.kind) })
	var manifest strings.Builder
	for _, d := range generic {
		fmt.Fprintf(&manifest, "---\n# Source: %s\n%s\n", d.template, d.text)
		s.values = append(s.values, d.value)
	}
	s.manifest = manifest.String()
	return s
}

// readHead returns what Helm reads of a document, and false if Helm would refuse it or ignore the case of its fields.
func readHead(v documents.Value) (kind string, isHook, ok bool) {
	if v.Value == nil {
		return "", false, v.Err == nil
	}
	object, ok := v.Value.(map[string]any)
	metadata, isMap := object["metadata"].(map[string]any)
	annotations, areMap := metadata["annotations"].(map[string]any)
	ok = ok && exact(object, "apiVersion", "kind", "metadata") && exact(metadata, "name", "annotations") &&
		(isMap || object["metadata"] == nil) && (areMap || metadata["annotations"] == nil) &&
		isText(object["apiVersion"]) && isText(object["kind"]) && isText(metadata["name"])
	for _, value := range annotations {
		ok = ok && isText(value)
	}
	kind, _ = object["kind"].(string)
	_, isHook = annotations[release.HookAnnotation]
	return kind, isHook, ok
}

// exact reports whether an object has none of the fields in another case.
func exact(object map[string]any, fields ...string) bool {
	for key := range object {
		if slices.ContainsFunc(fields, func(f string) bool { return key != f && strings.EqualFold(key, f) }) {
			return false
		}
	}
	return true
}

// isText reports whether a value is a string or missing.
func isText(v any) bool {
	_, isString := v.(string)
	return isString || v == nil
}

// AsksCluster reports whether the templates of a chart, or templates in values, may depend on the
// cluster: through lookup or its capabilities.
func AsksCluster(c *chart.Chart, values map[string]any) bool {
	text, err := yaml.Marshal(values)
	return err != nil || asksCluster(text) || slices.ContainsFunc(c.Raw, func(f *common.File) bool { return asksCluster(f.Data) }) ||
		slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return AsksCluster(sub, nil) })
}

func asksCluster(text []byte) bool {
	return bytes.Contains(text, []byte("Capabilities")) || bytes.Contains(text, []byte("lookup"))
}

// cachedPostRenderer caches the outputs of a post-renderer by input.
type cachedPostRenderer struct {
	inner   postrenderer.PostRenderer
	limit   time.Duration
	outputs map[string]string
}

// PostRenderOnce returns a post-renderer that calls inner once per input, and waits for it as long as templates may take. It
// returns nil if inner is nil.
func PostRenderOnce(inner postrenderer.PostRenderer, l Limits) postrenderer.PostRenderer {
	if _, cached := inner.(*cachedPostRenderer); cached || inner == nil {
		return inner
	}
	return &cachedPostRenderer{inner, cmp.Or(l.Time, defaultLimits.Time), map[string]string{}}
}

// Run returns the output of the inner post-renderer, from the cache if possible.
func (p *cachedPostRenderer) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	input := manifests.String()
	if output, ok := p.outputs[input]; ok {
		return bytes.NewBufferString(output), nil
	}
	type result struct {
		out *bytes.Buffer
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := p.inner.Run(manifests)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		if r.err == nil {
			p.outputs[input] = r.out.String()
			return r.out, nil
		}
		var secrets mask.Mask // the program may quote its input
		secrets.AddManifest(input)
		return nil, secrets.Error(r.err)
	case <-time.After(p.limit): // Helm starts its program without a context
		return nil, fmt.Errorf("the post-renderer did not finish within %s", p.limit)
	}
}
