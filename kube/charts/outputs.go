package charts

import (
	"bytes"
	"fmt"
	"slices"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/postrenderer"
	"sigs.k8s.io/yaml"
)

// Outputs are the outputs of a chart's templates, in the order in which Helm executes them.
type Outputs []templateOutput

// templateOutput is the output of one template. The templates of two aliases of one chart have the
// same names.
type templateOutput struct{ name, text string }

// Outputs returns the outputs so far.
func (g *Guard) Outputs() Outputs { return g.outputs }

// CachedOutputs replays outputs in one action instead of executing the templates again, so that
// lookups and random values are those of the plan.
type CachedOutputs struct{ left Outputs }

// NewCachedOutputs returns the CachedOutputs for one action.
func NewCachedOutputs(outputs Outputs) *CachedOutputs { return &CachedOutputs{outputs} }

// Funcs returns the functions for action.Configuration.CustomTemplateFuncs that templates need
// after ReplaceTemplates.
func (c *CachedOutputs) Funcs() template.FuncMap {
	return template.FuncMap{cachedOutputFunc: func(name string) (string, error) {
		if len(c.left) == 0 || c.left[0].name != name {
			return "", fmt.Errorf("template %s was not rendered during planning; run the command again", name)
		}
		text := c.left[0].text
		c.left = c.left[1:]
		return text, nil
	}}
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
	outputs map[string]string
}

// PostRenderOnce returns a post-renderer that calls inner once per input, nil if inner is nil.
func PostRenderOnce(inner postrenderer.PostRenderer) postrenderer.PostRenderer {
	if _, cached := inner.(*cachedPostRenderer); cached || inner == nil {
		return inner
	}
	return &cachedPostRenderer{inner, map[string]string{}}
}

// Run returns the output of the inner post-renderer, from the cache if possible.
func (p *cachedPostRenderer) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	input := manifests.String()
	if output, ok := p.outputs[input]; ok {
		return bytes.NewBufferString(output), nil
	}
	out, err := p.inner.Run(manifests)
	if err == nil {
		p.outputs[input] = out.String()
	}
	return out, err
}

// ReplaceTemplates replaces the templates of c with calls that return their cached outputs. The
// action that renders c needs CachedOutputs.Funcs.
func ReplaceTemplates(c *chart.Chart) {
	w := wrapper{text: func(name, _ string) []byte { return fmt.Appendf(nil, "{{%s %q}}", cachedOutputFunc, name) }}
	w.wrap(c, c.Name(), 0)
}
