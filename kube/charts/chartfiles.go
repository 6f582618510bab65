package charts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// chartFiles is one chart as it was read, before Helm renames or drops anything. Each subchart has
// its own, so that Helm loads every chart separately and in a fixed order.
type chartFiles struct {
	// name is the name of the chart's directory in charts/, or of its archive without .tgz; ""
	// for the root chart.
	name string
	// packed is set if the chart was an archive in charts/.
	packed bool
	// files are the chart's own files, with Chart.yaml and requirements.yaml normalised.
	// originals holds the original contents of those two, by name.
	files     []*archive.BufferedFile
	originals map[string][]byte
	// meta is Chart.yaml as loaded by Helm, with dependencies under their own names.
	meta *chart.Metadata
	// unsupported are the fields that Helm's loader drops or refuses.
	unsupported unsupportedFields
	// subs are the charts in charts/, in the order of their file names.
	subs []*chartFiles
}

// maxUnpacked limits the total unpacked size of the archives in a chart, including nested
// ones, in bytes. Helm limits each archive, but a small chart may have thousands.
const maxUnpacked = 5 * archiveLimit

const archiveLimit = 100 << 20 // the default of archive.MaxDecompressedChartSize

// newChartFiles separates the files of a chart from those of its subcharts, and unpacks the archives
// in charts/. The names of the files are relative to the chart.
func newChartFiles(files []*archive.BufferedFile) (*chartFiles, error) {
	left := int64(maxUnpacked)
	return unpack(files, &left)
}

// unpack is newChartFiles with a budget: it subtracts the unpacked size of each archive from left.
func unpack(files []*archive.BufferedFile, left *int64) (*chartFiles, error) {
	own, subcharts := split(files)
	cf := &chartFiles{originals: map[string][]byte{}}
	for _, f := range own {
		if f.Name == chartFile || f.Name == requirementsFile {
			cf.originals[f.Name] = f.Data
			f = &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: cf.unsupported.extract(f.Name, f.Data)}
		}
		cf.files = append(cf.files, f)
	}
	c, err := loader.LoadFiles(cf.files)
	if err != nil {
		return nil, explainInvalid(own, err)
	}
	if v := c.Metadata.APIVersion; v != chart.APIVersionV1 && v != chart.APIVersionV2 {
		return nil, fmt.Errorf("%s: apiVersion %q is not supported; use v1, v2 or v3", chartFile, v)
	}
	cf.meta = c.Metadata
	for _, name := range slices.Sorted(maps.Keys(subcharts)) {
		sub, err := unpackSubchart(name, subcharts[name], left)
		if err != nil {
			return nil, fmt.Errorf("error unpacking subchart %s in %s: %w", name, c.Name(), err)
		}
		sub.name, sub.packed = strings.TrimSuffix(name, ".tgz"), path.Ext(name) == ".tgz"
		cf.subs = append(cf.subs, sub)
	}
	return cf, nil
}

// invalidFile matches an error of Helm's loader about a YAML file.
var invalidFile = regexp.MustCompile(`^cannot load (\S+): `)

const (
	chartFile        = "Chart.yaml"
	requirementsFile = "requirements.yaml" // the dependencies of a chart with apiVersion v1
)

// missingField matches Helm's error about a field that Chart.yaml lacks.
var missingField = regexp.MustCompile(`^validation: chart\.metadata\.(apiVersion|name|version) is required$`)

// invalidField matches its error about a field that is invalid, notMapping about a file that is no mapping.
var (
	invalidField = regexp.MustCompile(`^validation: chart\.metadata\.(name|version) (".*") is invalid$`)
	notMapping   = regexp.MustCompile(`cannot unmarshal (array|string|number|bool) into Go value of type map`)
)

// explainInvalid explains an error of Helm's loader if one of the files is invalid YAML, or if Chart.yaml is
// incomplete.
func explainInvalid(files []*archive.BufferedFile, err error) error {
	if found := invalidFile.FindStringSubmatch(err.Error()); found != nil {
		if kind := notMapping.FindStringSubmatch(err.Error()); kind != nil {
			is := map[string]string{"array": "list", "string": "string", "number": "number", "bool": "boolean"}[kind[1]]
			return fmt.Errorf("%s must be a mapping (key: value), but is a %s", found[1], is)
		}
		for _, f := range files {
			if f.Name == found[1] {
				return documents.Invalid(f.Name, f.Data, err)
			}
		}
	}
	if found := missingField.FindStringSubmatch(err.Error()); found != nil {
		example := map[string]string{"apiVersion": "v2", "name": "shop", "version": "0.1.0"}[found[1]]
		return fmt.Errorf("%s: %s is required; add one, such as %s", chartFile, found[1], example)
	}
	if found := invalidField.FindStringSubmatch(err.Error()); found != nil {
		advice := map[string]string{"name": "remove the slashes", "version": "use three numbers, such as 1.2.3 (https://semver.org)"}[found[1]]
		return fmt.Errorf("%s: %s %s is invalid; %s", chartFile, found[1], found[2], advice)
	}
	return err
}

// split separates a chart's own files from the files in charts/, which it returns by the name
// of their directory or archive. As in Helm, it skips directories and archives whose names start
// with a dot or an underscore, and treats signatures as the chart's own files.
func split(files []*archive.BufferedFile) (own []*archive.BufferedFile, subcharts map[string][]*archive.BufferedFile) {
	subcharts = map[string][]*archive.BufferedFile{}
	for _, f := range files {
		rest, inSubchart := strings.CutPrefix(f.Name, "charts/")
		if !inSubchart || path.Ext(rest) == ".prov" {
			own = append(own, f)
			continue
		}
		name, inner, _ := strings.Cut(rest, "/")
		if strings.IndexAny(name, "_.") == 0 {
			continue
		}
		subcharts[name] = append(subcharts[name], &archive.BufferedFile{Name: inner, ModTime: f.ModTime, Data: f.Data})
	}
	return own, subcharts
}

// unpackSubchart is like unpack for charts/name. If that is an archive, files contains only the
// archive, without a name.
func unpackSubchart(name string, files []*archive.BufferedFile, left *int64) (*chartFiles, error) {
	if path.Ext(name) == ".tgz" {
		if files[0].Name != "" {
			return nil, errors.New("it is a directory; rename it, because .tgz is for archives")
		}
		inner, err := readArchive(bytes.NewReader(files[0].Data))
		if err != nil {
			return nil, err
		}
		for _, f := range inner {
			*left -= int64(len(f.Data))
		}
		if *left < 0 {
			return nil, fmt.Errorf("the archives in charts/ unpack to more than %s", formatBytes(maxUnpacked))
		}
		return unpack(inner, left)
	}
	files = slices.DeleteFunc(files, func(f *archive.BufferedFile) bool { return f.Name == "" })
	return unpack(files, left)
}

// helm returns a new Helm chart with its subcharts. Its raw files are not normalised, so that
// FromHelm can read them.
func (cf *chartFiles) helm() (*chart.Chart, error) {
	c, err := loader.LoadFiles(cf.files)
	if err != nil {
		return nil, err
	}
	for _, f := range c.Raw {
		if data := cf.originals[f.Name]; data != nil {
			f.Data = data
		}
	}
	for _, sub := range cf.subs {
		sc, err := sub.helm()
		if err != nil {
			return nil, err
		}
		c.AddDependency(sc)
	}
	return c, nil
}

// find returns the subchart for a dependency in Chart.yaml, or nil. Like Helm, it takes the first
// one with that name and a matching version or else, if the dependency has no alias, the first one
// with that name.
func (cf *chartFiles) find(d *chart.Dependency) *chartFiles {
	for _, sub := range cf.subs {
		if sub.meta.Name == d.Name && chartutil.IsCompatibleRange(d.Version, sub.meta.Version) {
			return sub
		}
	}
	if d.Alias == "" {
		return cf.byName(d.Name)
	}
	return nil
}

// byName returns the first subchart with that name, or nil.
func (cf *chartFiles) byName(name string) *chartFiles {
	for _, sub := range cf.subs {
		if sub.meta.Name == name {
			return sub
		}
	}
	return nil
}

// declares reports whether Chart.yaml lists sub as a dependency.
func (cf *chartFiles) declares(sub *chartFiles) bool {
	return slices.ContainsFunc(cf.meta.Dependencies, func(d *chart.Dependency) bool { return cf.find(d) == sub })
}

// Tree returns the chart tree for a user's values, with the ordering of every Chart.yaml (R4,
// R11). Names and aliases are those of Chart.yaml (R12). Paths use the alias if there is one,
// like the paths of rendered templates. Helm decides from conditions and tags which
// dependencies are disabled.
//
// The warnings are about apiVersion v3 (R34a) and dependencies that Helm skips (R12).
// Malformed lists become faults in the tree; plan.Build returns them as errors (R2).
func (c *Chart) Tree(values map[string]any) (*plan.Chart, []plan.Warning, error) {
	tree, b, err := c.buildTree(values)
	if err != nil {
		return nil, nil, err
	}
	return tree, b.warnings, nil
}

// buildTree returns the tree, and the builder with its warnings and folders.
func (c *Chart) buildTree(values map[string]any) (*plan.Chart, *treeBuilder, error) {
	h, err := c.processed(values)
	if err != nil {
		return nil, nil, err
	}
	b := &treeBuilder{folders: map[string]Folder{}}
	return b.chart(c.root, h, h.Name(), Folder{}), b, nil
}

// treeBuilder walks chartFiles together with the Helm charts built from them.
type treeBuilder struct {
	warnings []plan.Warning
	folders  map[string]Folder // by chart path
}

func (b *treeBuilder) warn(rule, path, format string, args ...any) {
	b.warnings = append(b.warnings, plan.Warning{
		Rule: rule, Chart: path, Message: path + ": " + fmt.Sprintf(format, args...),
	})
}

// chart returns the node of cf, whose files are in folder at. h is the same chart after Helm has
// processed dependencies.
func (b *treeBuilder) chart(cf *chartFiles, h *chart.Chart, path string, at Folder) *plan.Chart {
	b.folders[path] = at
	node := plan.NewChart(path, cf.meta.Annotations)
	node.DependsOn, node.DependsOnKey, node.Faults = cf.unsupported.dependsOn, cf.unsupported.dependsOnKey, cf.unsupported.faults
	if cf.unsupported.v3 {
		b.warn("R34a", path, "apiVersion v3 is loaded as v2")
	}
	for _, key := range slices.Sorted(maps.Keys(cf.meta.Annotations)) {
		if near := plan.Misspelt(key); near != "" {
			b.warn("R2b", path, "Chart.yaml: annotation %s is unknown and has no effect; did you mean %s?", key, near)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cf.unsupported.misspelt)) {
		found := cf.unsupported.misspelt[name]
		b.warn("R2b", path, "%s: %s of dependency %s is unknown and has no effect; did you mean depends-on?", found.file, found.key, name)
	}
	for _, d := range cf.meta.Dependencies {
		b.addDeclared(node, cf, h, d, at)
	}
	for _, sub := range cf.subs {
		if !cf.declares(sub) {
			b.addUndeclared(node, cf, sub, h, at)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cf.unsupported.annotatedDependsOn)) {
		if !slices.ContainsFunc(node.Subcharts, func(s plan.Subchart) bool { return s.ID() == name }) {
			node.Faults = append(slices.Clip(node.Faults), plan.Fault{Rule: "R12", Message: fmt.Sprintf(
				"annotation %s in Chart.yaml names %q, which is not a subchart of this chart; check the spelling, or add it to the chart's dependencies", plan.AnnotationDependsOn, name)})
		}
	}
	return node
}

// addDeclared adds the subchart for a dependency in Chart.yaml.
func (b *treeBuilder) addDeclared(node *plan.Chart, cf *chartFiles, h *chart.Chart, d *chart.Dependency, at Folder) {
	name := cmp.Or(d.Alias, d.Name)
	sub := cf.find(d)
	if other := cf.byName(d.Name); sub == nil && other != nil {
		effect := "so Helm skips it"
		if !cf.declares(other) {
			effect = "which Helm deploys as " + d.Name + " instead"
		}
		const download = "download it with: helm dependency update"
		b.warn("R12", node.Path, "dependency %s requires %s %s, but charts/ has %s, %s; %s", name, d.Name, d.Version, other.meta.Version, effect, download)
		node.Subcharts = append(node.Subcharts, plan.Subchart{Name: d.Name, Alias: d.Alias, Skipped: fmt.Sprintf(
			"Chart.yaml requires version %s, but charts/ has %s; %s", d.Version, other.meta.Version, download)})
		return
	}
	entry := plan.Subchart{Name: d.Name, Alias: d.Alias, DependsOn: cf.unsupported.waits(name)}
	rendered := name
	if ignoresAliases(h) {
		rendered = d.Name
	}
	if kept := enabled(h, rendered); sub != nil && kept != nil {
		entry.Chart = b.chart(sub, kept, node.Path+"/"+rendered, at.below(sub))
	}
	node.Subcharts = append(node.Subcharts, entry)
}

// addUndeclared adds a chart in charts/ that Chart.yaml does not list. It skips a second one with
// the same name, because Helm renders the templates of the first one instead.
func (b *treeBuilder) addUndeclared(node *plan.Chart, cf, sub *chartFiles, h *chart.Chart, at Folder) {
	name := sub.meta.Name
	path := node.Path + "/" + name
	if slices.ContainsFunc(node.Subcharts, func(other plan.Subchart) bool { return other.Chart != nil && other.Chart.Path == path }) {
		return
	}
	if kept := dependency(h, name); kept != nil {
		node.Subcharts = append(node.Subcharts, plan.Subchart{Name: name, DependsOn: cf.unsupported.waits(name), Chart: b.chart(sub, kept, path, at.below(sub)), Unlisted: true})
	}
}

// ignoresAliases reports whether Helm skipped the dependencies of h, because the Chart.yaml of a
// parent lists none. Helm then ignores their aliases, conditions and tags.
func ignoresAliases(h *chart.Chart) bool {
	return slices.ContainsFunc(h.Metadata.Dependencies, func(d *chart.Dependency) bool { return d.Alias != "" && d.Name != d.Alias })
}

// enabled returns the subchart for the dependency with that alias, or name if it has no alias;
// nil if it is disabled.
func enabled(h *chart.Chart, name string) *chart.Chart {
	if !slices.ContainsFunc(h.Metadata.Dependencies, func(d *chart.Dependency) bool { return d.Name == name }) {
		return nil
	}
	return dependency(h, name)
}

// dependency returns the subchart of h with that alias or name, or nil.
func dependency(h *chart.Chart, name string) *chart.Chart {
	for _, d := range h.Dependencies() {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
