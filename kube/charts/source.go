package charts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"lockstep/engine/plan"
)

// source is one chart as it was read, before Helm has renamed or dropped
// anything. Charts below it are sources of their own, so that Helm's loader
// gets each chart alone and in an order that is always the same.
type source struct {
	// name is that of its directory in charts/, or of its archive without the
	// ending; empty for the chart at the top.
	name string
	// packed is set where it came as an archive.
	packed bool
	// files are the chart's own, Chart.yaml normalised; written is the latter
	// as it was, by name.
	files   []*archive.BufferedFile
	written map[string][]byte
	// meta is what Helm made of Chart.yaml: dependencies by their own names.
	meta *chart.Metadata
	// facts is what Helm's loader drops.
	facts facts
	// subs are the charts in charts/, in the order of their file names.
	subs []*source
}

// maxUnpacked is how much the archives in a chart may unpack to, in bytes, with
// those that are in them: each alone is held to Helm's limit, but a small chart
// may have thousands, or an archive that holds itself.
const maxUnpacked = 5 * archiveLimit

const archiveLimit = 100 << 20 // archive.MaxDecompressedChartSize, unless that was changed

// newSource makes a source of the files of a chart, whose names are relative
// to the chart.
func newSource(files []*archive.BufferedFile) (*source, error) {
	left := int64(maxUnpacked)
	return unpack(files, &left)
}

// unpack returns newSource with what is left of maxUnpacked.
func unpack(files []*archive.BufferedFile, left *int64) (*source, error) {
	own, below := split(files)
	s := &source{written: map[string][]byte{}}
	for _, f := range own {
		if f.Name == "Chart.yaml" || f.Name == "requirements.yaml" {
			s.written[f.Name] = f.Data
			f = &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: s.facts.take(f.Data)}
		}
		s.files = append(s.files, f)
	}
	c, err := loader.LoadFiles(s.files)
	if err != nil {
		return nil, err
	}
	if v := c.Metadata.APIVersion; v != chart.APIVersionV1 && v != chart.APIVersionV2 {
		return nil, fmt.Errorf("chart %s has apiVersion %q; supported: v1, v2, v3", c.Name(), v)
	}
	s.meta = c.Metadata
	for _, name := range slices.Sorted(maps.Keys(below)) {
		sub, err := newSubSource(name, below[name], left)
		if err != nil {
			return nil, fmt.Errorf("error unpacking subchart %s in %s: %w", name, c.Name(), err)
		}
		sub.name, sub.packed = strings.TrimSuffix(name, ".tgz"), path.Ext(name) == ".tgz"
		s.subs = append(s.subs, sub)
	}
	return s, nil
}

// split parts a chart's own files from those of the charts in charts/, which
// are keyed by the name of their directory or archive. As in Helm, names that
// start with a dot or an underscore do not count, and signatures are the
// chart's own.
func split(files []*archive.BufferedFile) (own []*archive.BufferedFile, below map[string][]*archive.BufferedFile) {
	below = map[string][]*archive.BufferedFile{}
	for _, f := range files {
		rest, in := strings.CutPrefix(f.Name, "charts/")
		if !in || path.Ext(rest) == ".prov" {
			own = append(own, f)
			continue
		}
		name, inner, _ := strings.Cut(rest, "/")
		if strings.IndexAny(name, "_.") == 0 {
			continue
		}
		below[name] = append(below[name], &archive.BufferedFile{Name: inner, ModTime: f.ModTime, Data: f.Data})
	}
	return own, below
}

// newSubSource makes a source of what is in charts/name: one file without a
// name where that is an archive, otherwise the files of a directory.
func newSubSource(name string, files []*archive.BufferedFile, left *int64) (*source, error) {
	if path.Ext(name) == ".tgz" {
		if files[0].Name != "" {
			return nil, errors.New("a directory has the name of an archive")
		}
		inner, err := readArchive(bytes.NewReader(files[0].Data))
		if err != nil {
			return nil, err
		}
		for _, f := range inner {
			*left -= int64(len(f.Data))
		}
		if *left < 0 {
			return nil, fmt.Errorf("the archives in charts/ unpack to more than %s", quantity(maxUnpacked))
		}
		return unpack(inner, left)
	}
	files = slices.DeleteFunc(files, func(f *archive.BufferedFile) bool { return f.Name == "" })
	return unpack(files, left)
}

// helm builds a new chart of Helm's, with all that is below it. Its raw files
// are as they were read, for FromHelm.
func (s *source) helm() (*chart.Chart, error) {
	c, err := loader.LoadFiles(s.files)
	if err != nil {
		return nil, err
	}
	for _, f := range c.Raw {
		if data := s.written[f.Name]; data != nil {
			f.Data = data
		}
	}
	for _, sub := range s.subs {
		sc, err := sub.helm()
		if err != nil {
			return nil, err
		}
		c.AddDependency(sc)
	}
	return c, nil
}

// find returns the source that a dependency of Chart.yaml means, chosen as
// Helm chooses: the first of that name in the range of versions. Without an
// alias Helm deploys a chart of any version. It returns nil if there is none.
func (s *source) find(d *chart.Dependency) *source {
	for _, sub := range s.subs {
		if sub.meta.Name == d.Name && chartutil.IsCompatibleRange(d.Version, sub.meta.Version) {
			return sub
		}
	}
	if d.Alias == "" {
		return s.named(d.Name)
	}
	return nil
}

// named returns the first source of that name, or nil.
func (s *source) named(name string) *source {
	for _, sub := range s.subs {
		if sub.meta.Name == name {
			return sub
		}
	}
	return nil
}

// declares reports whether some dependency of Chart.yaml means sub.
func (s *source) declares(sub *source) bool {
	return slices.ContainsFunc(s.meta.Dependencies, func(d *chart.Dependency) bool { return s.find(d) == sub })
}

func join(names []string) string { return strings.Join(names, ", ") }

// Tree returns the chart tree with the ordering of every Chart.yaml in it (R4,
// R11), for the values that a user gave. Names and aliases are those of
// Chart.yaml (R12); paths use the alias if there is one, as the paths of
// rendered templates do. Which dependencies are disabled is what Helm decides
// from conditions and tags.
//
// The warnings are about apiVersion v3 (R34a) and dependencies that Helm leaves
// out (R12). Malformed lists are faults of the tree, which plan.Build refuses
// (R2).
func (c *Chart) Tree(values map[string]any) (*plan.Chart, []plan.Warning, error) {
	tree, b, err := c.walk(values)
	if err != nil {
		return nil, nil, err
	}
	return tree, b.warnings, nil
}

// walk makes the tree and finds out what it is made of.
func (c *Chart) walk(values map[string]any) (*plan.Chart, *treeBuilder, error) {
	h, err := c.Helm()
	if err != nil {
		return nil, nil, err
	}
	if err := chartutil.ProcessDependencies(h, CopyValues(values)); err != nil {
		return nil, nil, fmt.Errorf("chart %s: dependencies: %w", c.path, err)
	}
	b := &treeBuilder{folders: map[string]Folder{}}
	return b.chart(c.src, h, h.Name(), Folder{}), b, nil
}

// treeBuilder walks sources and, next to them, what Helm made of them.
type treeBuilder struct {
	warnings []plan.Warning
	folders  map[string]Folder // by chart path
}

func (b *treeBuilder) warn(rule, path, format string, args ...any) {
	b.warnings = append(b.warnings, plan.Warning{
		Rule: rule, Chart: path, Message: path + ": " + fmt.Sprintf(format, args...),
	})
}

// chart returns the node of s, which Helm kept as h.
func (b *treeBuilder) chart(s *source, h *chart.Chart, path string, at Folder) *plan.Chart {
	b.folders[path] = at
	node := &plan.Chart{Path: path, DependsOn: s.facts.dependsOn, Faults: s.facts.faults}
	if s.facts.v3 {
		b.warn("R34a", path, "apiVersion v3 is loaded as v2")
	}
	for _, d := range s.meta.Dependencies {
		b.declared(node, s, h, d, at)
	}
	for _, sub := range s.subs {
		if !s.declares(sub) {
			b.undeclared(node, sub, h, at)
		}
	}
	return node
}

// declared adds a dependency of Chart.yaml.
func (b *treeBuilder) declared(node *plan.Chart, s *source, h *chart.Chart, d *chart.Dependency, at Folder) {
	name := d.Name
	if d.Alias != "" {
		name = d.Alias
	}
	sub := s.find(d)
	if there := s.named(d.Name); sub == nil && there != nil {
		b.warn("R12", node.Path, "dependency %s wants %s %s, but charts/ has %s; helm skips it", name, d.Name, d.Version, there.meta.Version)
		return
	}
	entry := plan.Subchart{Name: d.Name, Alias: d.Alias, DependsOn: s.facts.siblings[name]}
	if kept := enabled(h, name); sub != nil && kept != nil {
		entry.Chart = b.chart(sub, kept, node.Path+"/"+name, at.below(sub))
	}
	node.Subcharts = append(node.Subcharts, entry)
}

// undeclared adds a chart that merely is in charts/. A second one of the
// same name is not added: its templates are those of the first to Helm.
func (b *treeBuilder) undeclared(node *plan.Chart, sub *source, h *chart.Chart, at Folder) {
	name := sub.meta.Name
	path := node.Path + "/" + name
	for _, other := range node.Subcharts {
		if other.Chart != nil && other.Chart.Path == path {
			return
		}
	}
	if kept := dependency(h, name); kept != nil {
		node.Subcharts = append(node.Subcharts, plan.Subchart{Name: name, Chart: b.chart(sub, kept, path, at.below(sub))})
	}
}

// enabled returns the chart that Helm kept for the dependency of that
// effective name, or nil.
func enabled(h *chart.Chart, name string) *chart.Chart {
	for _, d := range h.Metadata.Dependencies {
		if d.Name == name {
			return dependency(h, name)
		}
	}
	return nil
}

// dependency returns the chart below h of that effective name, or nil.
func dependency(h *chart.Chart, name string) *chart.Chart {
	for _, d := range h.Dependencies() {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
