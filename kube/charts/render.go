package charts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/template"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/postrenderer"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/documents"
)

// RenderOptions are the options of "helm template".
type RenderOptions struct {
	Release, Namespace string
	// IsUpgrade sets .Release.IsUpgrade instead of .Release.IsInstall.
	IsUpgrade bool
	// KubeVersion replaces Helm's default version of Kubernetes. APIVersions are added to the APIs of
	// that version.
	KubeVersion string
	APIVersions []string

	SkipSchemaValidation bool
	EnableDNS            bool
	// Funcs replace functions of templates.
	Funcs              template.FuncMap
	PostRenderer       postrenderer.PostRenderer
	PostRenderStrategy action.PostRenderStrategy

	// Server is Helm's configuration for a cluster whose versions and objects the templates see, and whose kinds the manifest needs;
	// nil to render without a cluster. TakeOwnership permits objects that belong to somebody else there.
	Server                                  *action.Configuration
	TakeOwnership, DisableOpenAPIValidation bool

	Limits Limits

	// Kindless adds documents without a kind to Rendered.Others; otherwise they are an error.
	Kindless bool
	// FindIncompatible fills in Rendered.Incompatible.
	FindIncompatible bool
	checker          *annotationChecker
}

// Rendered is a rendered chart.
type Rendered struct {
	// Release is the release that Helm would install, with hooks, manifest and notes.
	Release *release.Release
	// Docs are the objects of the manifest, CRDs those of crds/.
	Docs, CRDs []Document
	// Others are the documents of the manifest without an object.
	Others []Document
	// Resources are the planner's view of Docs, in the same order.
	Resources []plan.Resource
	Tree      *plan.Chart
	// ScopedHooks are the hooks that run around their subchart.
	ScopedHooks []ScopedHook
	// Warnings are about the chart (see Tree) and the manifest (see ParseManifest).
	Warnings []plan.Warning
	// Incompatible are the annotations that Helm would refuse, if RenderOptions.FindIncompatible
	// is set.
	Incompatible []IncompatibleAnnotation
}

// CheckReleaseName checks the name of a new release, as Helm does.
func CheckReleaseName(name string) error {
	if err := chartutil.ValidateReleaseName(name); err != nil {
		return fmt.Errorf("invalid release name %q: use at most 53 lowercase letters, digits, \"-\" and \".\"; start and end with a letter or digit", name)
	}
	return nil
}

// CheckNamespace checks the name of a namespace. source says who names it, for the error. "" is valid: the connection decides.
func CheckNamespace(source, name string) error {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("invalid %s %q: use at most 63 lowercase letters, digits and \"-\"; start and end with a letter or digit", source, name)
	}
	return nil
}

// Render renders a chart. It returns Helm's errors about dependencies,
// schemas and templates, with secret values masked.
func Render(ctx context.Context, c *Chart, values map[string]any, o RenderOptions) (*Rendered, error) {
	if err := cmp.Or(CheckReleaseName(o.Release), c.Check()); err != nil {
		return nil, err
	}
	tree, warnings, err := c.Tree(values)
	if err != nil {
		return nil, err
	}
	if o.FindIncompatible {
		o.checker = &annotationChecker{}
		o.checker.checkChart(c.root, c.Name())
	}
	rel, rendering, err := c.dryRun(ctx, values, o)
	outputs := rendering.Outputs()
	if err != nil {
		wrongVersion := WrongVersionFlag
		if o.Server != nil {
			wrongVersion = WrongClusterVersion
		}
		return nil, HideValues(c, values, fmt.Errorf("chart %s: %w", c.path, ExplainError(err, outputs, c.Name(), wrongVersion)))
	}
	// Decoded objects need many times the memory of their text.
	r, err := limited(ctx, NewGuard(o.Limits), func() (*Rendered, error) { return fromRelease(rel, tree, o, rendering.parsed()) })
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.path, err)
	}
	r.Warnings = slices.Concat(warnings, r.Warnings, IgnoredAnnotations(outputs, tree.Path, r.Docs))
	if o.checker != nil {
		r.Incompatible = o.checker.found
	}
	return r, nil
}

// SharedPorts returns a warning for ports that client-side apply cannot tell apart.
//
// Whether a release will be applied by the client is not known yet (R37).
func (r *Rendered) SharedPorts() (warnings []plan.Warning) {
	for n, x := range r.Resources {
		for _, ports := range refs.SharedPorts(x.Object, r.Docs[n].Object.Object) {
			object := x.Object
			warnings = append(warnings, plan.Warning{Rule: "R37", Chart: r.Docs[n].Chart, Object: &object, Message: r.Docs[n].Chart + ": " + refs.LosesPorts(object, ports)})
		}
	}
	return warnings
}

// FromRelease parses a release that Helm has rendered for an install or an upgrade. tree is
// the tree of its chart.
func FromRelease(rel *release.Release, tree *plan.Chart, upgrade bool) (*Rendered, error) {
	return fromRelease(rel, tree, RenderOptions{IsUpgrade: upgrade}, nil)
}

// fromRelease is FromRelease with options. parsed are the documents of the manifest, if they have been parsed.
func fromRelease(rel *release.Release, tree *plan.Chart, o RenderOptions, parsed []documents.Value) (*Rendered, error) {
	docs, others, warnings, err := parseDocuments(parsed, nil, rel.Manifest, tree.Path, o.Kindless)
	if err != nil {
		return nil, err
	}
	crds, err := RenderedCRDs(rel)
	if err != nil {
		return nil, err
	}
	resources := Resources(docs, rel.Namespace, OfflineScope(append(crds, docs...)...))
	before, after := release.HookPreInstall, release.HookPostInstall
	if o.IsUpgrade {
		before, after = release.HookPreUpgrade, release.HookPostUpgrade
	}
	hooks, more := ScopedHooks(rel, tree.Path, resources, before, after)
	return &Rendered{
		Release: rel, Tree: tree, Docs: docs, CRDs: crds, Others: others, Resources: resources, ScopedHooks: hooks,
		Warnings: append(warnings, more...),
	}, nil
}

// limited calls do within the limits and returns its result.
func limited[T any](ctx context.Context, g *Guard, do func() (T, error)) (T, error) {
	result := make(chan T, 1) // not a variable: an abandoned do would write to it
	err := g.Run(ctx, func() error {
		r, err := do()
		result <- r
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return <-result, nil
}

// dryRun renders the chart with Helm's install as a dry run, within the limits. It also returns the rendering, with
// the outputs of the templates even if Helm cannot parse them.
func (c *Chart) dryRun(ctx context.Context, values map[string]any, o RenderOptions) (*release.Release, *Rendering, error) {
	h, err := c.Helm()
	if err != nil {
		return nil, &Rendering{}, err
	}
	e := engine.Engine{}
	if o.Server != nil {
		config, err := o.Server.RESTClientGetter.ToRESTConfig()
		if err != nil {
			return nil, &Rendering{}, err
		}
		e = engine.New(config)
	}
	e.EnableDNS, e.CustomTemplateFuncs = o.EnableDNS, o.Funcs
	r := NewRendering(ctx, h, e, NewGuard(o.Limits))
	// A post-renderer gets the documents before they are sorted, and Helm checks those that it has.
	r.limited, r.sorts = true, o.PostRenderer == nil && o.Server == nil
	if o.checker != nil {
		r.check = o.checker.checkTemplate
	}
	type result struct {
		rel       *release.Release
		rendering *Rendering
		err       error
	}
	done, err := limited(ctx, r.guard, func() (result, error) {
		rel, err := dryInstall(ctx, h, r.Funcs(), values, o)
		if rel != nil && r.sorted != nil {
			rel.Hooks, rel.Manifest = r.sorted.hooks, r.sorted.manifest
		}
		return result{rel, r, cmp.Or(r.Err(), err)}, nil
	})
	if err != nil {
		return nil, &Rendering{}, err // the abandoned goroutine may still write to r
	}
	return done.rel, done.rendering, done.err
}

// dryInstall runs Helm's install as a dry run.
func dryInstall(ctx context.Context, h *chart.Chart, funcs template.FuncMap, values map[string]any, o RenderOptions) (*release.Release, error) {
	cfg, strategy := o.Server, action.DryRunServer
	if cfg == nil {
		cfg, strategy = action.NewConfiguration(), action.DryRunClient
	}
	cfg.CustomTemplateFuncs = funcs
	install := action.NewInstall(cfg)
	install.DryRunStrategy = strategy
	install.TakeOwnership, install.DisableOpenAPIValidation = o.TakeOwnership, o.DisableOpenAPIValidation
	install.Replace = true // do not check if the name is in use
	install.ReleaseName, install.Namespace = o.Release, o.Namespace
	install.IsUpgrade = o.IsUpgrade
	install.APIVersions = common.VersionSet(o.APIVersions)
	install.SkipSchemaValidation = o.SkipSchemaValidation
	install.EnableDNS = o.EnableDNS
	install.PostRenderer = o.PostRenderer
	if o.PostRenderStrategy != "" {
		install.PostRenderStrategy = o.PostRenderStrategy
	}
	if o.KubeVersion != "" {
		v, err := common.ParseKubeVersion(o.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("--kube-version %s is not a valid version; use a form such as 1.33", o.KubeVersion)
		}
		install.KubeVersion = v
	}
	r, err := install.RunWithContext(ctx, h, CopyValues(values))
	if err != nil {
		return nil, err
	}
	rel, ok := r.(*release.Release)
	if !ok {
		return nil, fmt.Errorf("release of unknown type %T", r)
	}
	return rel, nil
}

// Check returns the errors of CheckReadable, and those of Document.Check for all objects and hooks.
func (r *Rendered) Check() (errs []error) {
	readable := map[string]bool{} // those that are one object
	for _, d := range r.Docs {
		readable[d.Raw] = true
	}
	errs = checkReadable(nil, r.Release.Manifest, readable)
	all := slices.Clone(r.Docs)
	for _, h := range r.Release.Hooks {
		docs, _, err := ParseManifest("# Source: "+h.Path+"\n"+h.Manifest, r.Tree.Path)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, docs...)
	}
	for _, d := range all {
		if err := d.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Plan returns the plan of the rendered objects. Its warnings are about the order only. The
// error is of type plan.Errors.
func (r *Rendered) Plan() (*plan.Plan, error) {
	p, err := plan.Build(r.Tree, r.Resources)
	if err != nil {
		return nil, err
	}
	var hooks []plan.SubchartHook
	for _, h := range r.ScopedHooks {
		hooks = append(hooks, h.SubchartHook)
	}
	p.Groups = plan.AroundSubcharts(p.Groups, hooks)
	return p, nil
}

// Ordered returns the inferred order, and a copy of r with annotations that declare it. Annotations
// of the chart take precedence.
func (r *Rendered) Ordered() (*Rendered, *infer.Order) {
	objects := make([]infer.Object, len(r.Docs))
	for i, d := range r.Docs {
		objects[i] = infer.Object{Resource: r.Resources[i], Fields: d.Object.Object}
	}
	order := infer.From(r.Release.Name, r.Tree, append(objects, HookData(r.Release)...))
	ordered := *r
	ordered.Tree, ordered.Resources = order.Annotate(r.Tree, r.Resources)
	return &ordered, order
}
