package helmfile

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/kube/documents"
	"lockstep/kube/readiness"
)

// fields reads the keys of a release. For keys that the release does not set, it reads helmDefaults.
type fields struct {
	*node
	name          string // for errors
	own, defaults map[string]*node
	err           error // the first one
}

// read decodes a key. Without the key, or if it is null, into keeps its value.
func (f *fields) read(key string, into any) {
	n := cmp.Or(f.own[key], f.defaults[key])
	if f.err == nil && !n.isNull() {
		f.err = n.decode(f.name+": "+key, into)
	}
}

func (f *fields) text(key string) (s string) { f.read(key, &s); return s }

func (f *fields) boolean(key string, fallback bool) bool { f.read(key, &fallback); return fallback }

func (f *fields) number(key string, fallback int) int { f.read(key, &fallback); return fallback }

// readReleases returns the selected releases of a file, and adds the others to r.others.
//
// Rule S1: the releases of a stack and their needs.
func (r *reader) readReleases(s *state, stateValues, conditions map[string]any, selectors []string) (out []Release, err error) {
	for i, n := range s.releases {
		rel, f, err := r.readHead(s, i+1, n)
		if err != nil {
			return nil, err
		}
		if rel.excluded, err = r.excludes(f, rel, conditions, selectors); err != nil {
			return nil, err
		}
		if rel.excluded != "" {
			r.others = append(r.others, rel)
			continue
		}
		if rel.Installed {
			if err := r.readBody(s, f, &rel); err != nil {
				return nil, err
			}
		}
		if rel.Hooks, err = r.readReleaseHooks(s, f, rel, stateValues); err != nil {
			return nil, err
		}
		out = append(out, rel)
	}
	return out, nil
}

// excludes returns why a release takes no part, "" if it does.
func (r *reader) excludes(f *fields, rel Release, conditions map[string]any, selectors []string) (exclusion, error) {
	if matches, err := matchesSelectors(rel, f.text("chart"), selectors); err != nil || !matches {
		return bySelector, err
	}
	if enabled, err := condition(f, r.Environment, conditions); err != nil || !enabled {
		return byCondition, err
	}
	return "", nil
}

// readHead reads what identifies a release, its labels and its needs. number is its position in the file, for errors.
func (r *reader) readHead(s *state, number int, n *node) (rel Release, f *fields, err error) {
	what := "release"
	if named, err := n.entries(what); err == nil && named["name"] != nil {
		what += " " + named["name"].Value
	}
	own, err := n.mapping(what, knownKeys)
	if err != nil {
		return rel, nil, err
	}
	f = &fields{node: n, name: what, own: own, defaults: s.defaults}
	rel.Name, rel.At, rel.Folder, rel.position = f.text("name"), n.at().String(), filepath.Dir(s.path), n.at()
	rel.Namespace, rel.Context, rel.Installed = f.text("namespace"), f.text("kubeContext"), f.boolean("installed", true)
	r.override(s, &rel)
	rel.Labels = map[string]string{}
	f.read("labels", &rel.Labels)
	maps.Copy(rel.Labels, s.labels)
	var needs []string
	f.read("needs", &needs)
	for _, need := range needs {
		rel.Needs = append(rel.Needs, rel.resolveNeed(need))
	}
	if f.err == nil && rel.Name == "" {
		f.err = n.errorf("release %d has no name", number)
	}
	return rel, f, f.err
}

// readBody reads the rest of a release: its chart, its values and its options.
//
// Rule S12: only a release that takes part has a chart and values; its values are opened when they are merged.
func (r *reader) readBody(s *state, f *fields, rel *Release) error {
	allowed := releaseKeys
	if s.built != nil {
		allowed = builtKeys
	}
	if _, err := f.node.mapping(f.name, allowed); err != nil {
		return err
	}
	r.readOptions(f, rel)
	rel.Chart, rel.Version = f.text("chart"), f.text("version")
	if f.err == nil && rel.Chart == "" {
		f.err = f.errorf("%s has no chart", f.name)
	}
	if f.err != nil {
		return f.err
	}
	if s.built != nil && s.built.noSource && (isPath(rel.Chart) || f.own["values"] != nil && slices.ContainsFunc(f.own["values"].Content, isScalar)) {
		return f.errorf("%s: its paths are relative to a file that this output of helmfile build does not name; keep its comments (%s…)", f.name, sourceComment)
	}
	rel.Chart = chartPath(rel.Folder, rel.Chart, s.repositories)
	rel.values = &values{
		name: f.name, own: f.own, folder: rel.Folder, prefix: f.text("valuesPathPrefix"), programs: r.programs, mustExist: mustExist(cmp.Or(f.text("missingFileHandler"), s.scalars["missingFileHandler"])),
		embedded: s.expansion.of(s, f, cmp.Or(s.scalars["namespace"], f.text("namespace"))),
	}
	return f.err
}

// isPath reports whether a chart can only be a path.
func isPath(chart string) bool {
	return strings.HasPrefix(chart, ".") || !strings.Contains(chart, "/")
}

func isScalar(n *kyaml.Node) bool { return documents.Resolve(n).Kind == kyaml.ScalarNode }

// leaveOut records the releases of a file that does not define the environment.
func (r *reader) leaveOut(s *state) error {
	if len(s.includes) > 0 {
		r.unread = append(r.unread, Unread{File: s.path})
	}
	for i, n := range s.releases {
		rel, _, err := r.readHead(s, i+1, n)
		if err != nil {
			return err
		}
		rel.excluded = byEnvironment
		r.others = append(r.others, rel)
	}
	return nil
}

// override applies the namespace and context that are set for all releases, and default contexts.
func (r *reader) override(s *state, rel *Release) {
	if n := s.defaults["kubeContext"]; rel.Context == "" && n != nil {
		rel.Context = n.Value
	}
	rel.Namespace = cmp.Or(r.Namespace, s.scalars["namespace"], rel.Namespace)
	rel.Context = cmp.Or(r.Context, s.scalars["kubeContext"], rel.Context)
	if rel.Context == "" {
		rel.FallbackContext = s.environments[r.Environment].context
	}
}

// readOptions reads the options for deploying a release.
func (r *reader) readOptions(f *fields, rel *Release) {
	rel.Timeout = time.Duration(f.number("timeout", 0)) * time.Second
	rel.CreateNamespace = f.boolean("createNamespace", true)
	rel.RollbackOnFailure, rel.CleanupOnFail = f.boolean("atomic", false) || f.boolean("rollbackOnFailure", false), f.boolean("cleanupOnFail", false)
	rel.WaitForJobs, rel.NoHooks = f.boolean("waitForJobs", false), f.boolean("disableHooks", false)
	rel.SkipSchemaValidation, rel.DisableOpenAPIValidation = f.boolean("skipSchemaValidation", false), f.boolean("disableOpenAPIValidation", false)
	rel.ReuseValues, rel.TakeOwnership = f.boolean("reuseValues", false), f.boolean("takeOwnership", false)
	rel.SkipCRDs, rel.Devel, rel.Verify, rel.EnableDNS = f.boolean("skipCRDs", false), f.boolean("devel", false), f.boolean("verify", false), f.boolean("enableDNS", false)
	rel.StoreLabels, rel.SkipDeps = f.boolean("syncReleaseLabels", false), f.boolean("skipDeps", false)
	rel.HistoryMax = f.number("historyMax", 10)
	rel.Description, rel.PostRenderer = f.text("description"), f.text("postRenderer")
	f.read("postRendererArgs", &rel.PostRenderArgs)
	f.read("waitFor", &rel.WaitFor)
	rel.ContinueOnError = f.boolean("continueOnError", false)
	f.read("secretPaths", &rel.secretPaths)
	rel.Approve, rel.Test = f.text("approve"), f.boolean("test", false)
	if n := f.own["readiness"]; f.err == nil && !n.isNull() {
		rel.Readiness, f.err = readReadiness(f.name, n)
	}
	if strings.HasPrefix(rel.PostRenderer, ".") {
		rel.PostRenderer = filepath.Join(rel.Folder, rel.PostRenderer)
	}
}

// readReadiness reads what a file of --readiness-file has.
func readReadiness(release string, n *node) ([]readiness.Override, error) {
	text, err := kyaml.String(n.Node)
	if err != nil {
		return nil, n.errorf("%s: readiness: %w", release, err)
	}
	list, err := readiness.ParseFile("readiness", []byte(text))
	if err != nil {
		return nil, n.errorf("%s: %w", release, err)
	}
	return list, nil
}

// resolveNeed returns the ID of a need, which is [[context/]namespace/]name. The default context and namespace are those
// of r.
func (r Release) resolveNeed(need string) string {
	parts := strings.Split(need, "/")
	name, namespace, context := parts[len(parts)-1], r.Namespace, r.Context
	if len(parts) > 1 {
		namespace = parts[len(parts)-2]
	}
	if len(parts) > 2 {
		context = strings.Join(parts[:len(parts)-2], "/")
	}
	return id(context, namespace, name)
}

// chartPath makes the path of a chart directory absolute. As in helmfile, a name that begins with
// the name of a repository is not a path.
func chartPath(folder, chart string, repos []Repository) string {
	if strings.Contains(chart, "://") || filepath.IsAbs(chart) {
		return chart
	}
	first, _, _ := strings.Cut(chart, "/")
	if slices.ContainsFunc(repos, func(r Repository) bool { return r.Name == first }) {
		return chart
	}
	path := filepath.Join(folder, chart)
	if _, err := os.Stat(path); err != nil && !isPath(chart) {
		return chart // in a repository that Helm knows
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// condition evaluates a release's condition: the path of an environment value that ends in .enabled. If only enabled is
// missing, it is false. If another key is missing, that is an error.
func condition(f *fields, environment string, values map[string]any) (bool, error) {
	path := f.text("condition")
	if path == "" || path == "true" || path == "false" {
		return path != "false", nil
	}
	at := f.own["condition"]
	parent, ok := strings.CutSuffix(path, ".enabled")
	if !ok {
		return false, at.errorf("%s: condition %s must be a path that ends in .enabled", f.name, path)
	}
	in := values
	keys := strings.Split(parent, ".")
	for i, key := range keys {
		if in, ok = in[key].(map[string]any); !ok {
			return false, at.errorf("%s: condition %s: %s is not set in the values of helmfile environment %q", f.name, path, strings.Join(keys[:i+1], "."), environment)
		}
	}
	enabled, _ := in["enabled"].(bool)
	return enabled, nil
}

// allLabels returns the labels of a release with those that helmfile adds: its name, its namespace and the name of its chart.
func allLabels(rel Release, chart string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, rel.Labels)
	if path, err := filepath.Abs(filepath.Join(rel.Folder, chart)); err == nil { // for a chart in "."
		chart = path
	}
	labels["name"], labels["namespace"], labels["chart"] = rel.Name, rel.Namespace, filepath.Base(chart)
	return labels
}

// matchesSelectors reports whether a release with a chart matches at least one of the selectors, or there are none. A
// selector is a list of terms, key=value or key!=value, that must all match.
func matchesSelectors(rel Release, chart string, selectors []string) (bool, error) {
	labels := allLabels(rel, chart)
	for _, s := range selectors {
		matches := true
		for term := range strings.SplitSeq(s, ",") {
			key, value, found := strings.Cut(term, "=")
			if !found || key == "" || key == "!" {
				return false, fmt.Errorf("selector %q: use key=value or key!=value, separated by commas", s)
			}
			key, not := strings.CutSuffix(key, "!")
			matches = matches && (labels[key] == value) != not
		}
		if matches {
			return true, nil
		}
	}
	return len(selectors) == 0, nil
}
