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

// Outputs are what the templates of a chart rendered to, in the order in which Helm
// executes them. Helm's actions render; a Replay hands them what was planned instead.
type Outputs []templateOutput

// templateOutput is that of one template. Charts under two aliases share the name.
type templateOutput struct{ name, text string }

// Outputs returns what has been rendered so far.
func (g *Guard) Outputs() Outputs { return g.outputs }

// Replay makes an action render what was rendered before: its templates are not executed
// again, so that what they look up, or make at random, is what was planned. It serves
// one action.
type Replay struct{ left Outputs }

// NewReplay returns a replay of some outputs.
func NewReplay(of Outputs) *Replay { return &Replay{of} }

// Funcs are for action.Configuration.CustomTemplateFuncs, for charts that ReplayTemplates
// has wrapped.
func (r *Replay) Funcs() template.FuncMap {
	return template.FuncMap{replayer: func(name string) (string, error) {
		if len(r.left) == 0 || r.left[0].name != name {
			return "", fmt.Errorf("template %s was not rendered during planning: run the command again", name)
		}
		text := r.left[0].text
		r.left = r.left[1:]
		return text, nil
	}}
}

// AsksCluster reports whether templates of a chart may depend on what the cluster serves,
// be it in text that values bring.
func AsksCluster(c *chart.Chart, values map[string]any) bool {
	given, err := yaml.Marshal(values)
	return err != nil || asks(given) || slices.ContainsFunc(c.Raw, func(f *common.File) bool { return asks(f.Data) }) ||
		slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return AsksCluster(sub, nil) })
}

func asks(text []byte) bool {
	return bytes.Contains(text, []byte("Capabilities")) || bytes.Contains(text, []byte("lookup"))
}

// postRenders are what a post-renderer made, by what it was given.
type postRenders struct {
	inner postrenderer.PostRenderer
	made  map[string]string
}

// PostRenderOnce returns a post-renderer that asks the inner one once for each input, or
// nil if there is none.
func PostRenderOnce(inner postrenderer.PostRenderer) postrenderer.PostRenderer {
	if _, once := inner.(*postRenders); once || inner == nil {
		return inner
	}
	return &postRenders{inner, map[string]string{}}
}

// Run returns what the inner post-renderer makes of manifests, or has made of them before.
func (p *postRenders) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	given := manifests.String()
	if made, ok := p.made[given]; ok {
		return bytes.NewBufferString(made), nil
	}
	out, err := p.inner.Run(manifests)
	if err == nil {
		p.made[given] = out.String()
	}
	return out, err
}

// ReplayTemplates is WrapTemplates for an action that gets a Replay's functions.
func ReplayTemplates(c *chart.Chart) {
	w := wrapper{of: func(name, _ string) []byte { return fmt.Appendf(nil, "{{%s %q}}", replayer, name) }}
	w.chart(c, c.Name(), 0)
}
