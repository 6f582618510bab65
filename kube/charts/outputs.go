package charts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/postrenderer"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

// Outputs are the outputs of a chart's templates, in the order in which Helm executes them.
type Outputs []templateOutput

// templateOutput is the output of one template, with Helm's name of it.
type templateOutput struct{ name, text string }

// notManifest matches Helm's error about a document that is not a manifest: its template, and the parser's error.
var notManifest = regexp.MustCompile(`(?s)^YAML parse error on (.*?): (.*)$`)

// explainNotManifest says in such an error which document of the template's output is wrong, and why. Helm counts
// the lines within that document. root is the name of the root chart.
func (o Outputs) explainNotManifest(text, root string) string {
	m := notManifest.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	file, cause := strings.TrimPrefix(m[1], root+"/"), m[2]
	doc, number := o.findBroken(m[1], cause)
	which := "a document of the rendered template"
	if number > 0 {
		which = fmt.Sprintf("document %d of the rendered template", number)
	}
	if field, message := documents.TypeError(errors.New(cause)); message != "" {
		if field != "" {
			which = field + " of " + which
		}
		return file + ": " + which + " " + message
	}
	line, message := documents.SyntaxError([]byte(doc), errors.New(cause))
	switch {
	case line > 0 && number > 0:
		which += fmt.Sprintf(", line %d of that document", line)
	case line > 0:
		which = fmt.Sprintf("line %d of %s", line, which)
	}
	return file + ": invalid YAML in " + which + ": " + message
}

// findBroken returns the first document of a template's output that causes the parser's error, and its number, from 1.
// It returns 0 if a post-renderer broke the document.
func (o Outputs) findBroken(file, cause string) (doc string, number int) {
	for _, out := range o {
		if out.name != file {
			continue
		}
		for i, doc := range documents.Split(out.text) {
			var head releaseutil.SimpleHead
			if err := yaml.Unmarshal([]byte(doc), &head); err != nil && err.Error() == cause {
				return doc, i + 1
			}
		}
	}
	return "", 0
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
		}
		return r.out, r.err
	case <-time.After(p.limit): // Helm starts its program without a context
		return nil, fmt.Errorf("the post-renderer did not finish within %s", p.limit)
	}
}
