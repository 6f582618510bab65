package helmfile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"lockstep/kube/documents"
)

// reader reads a helmfile and the files that it includes.
type reader struct {
	ctx context.Context
	Options
	depth  int       // number of nested includes
	others []Release // excluded releases of all files
	unread []Unread  // see File
	// ignored are unsupported keys, with Options.Lenient.
	ignored  []string
	programs *programs
}

// maxDepth limits nested includes, because they may form a cycle.
const maxDepth = 20

// result is the content of a file and of the files that it includes.
type result struct {
	repositories     []Repository
	releases         []Release
	hooks            []Hook
	environmentKnown bool // a file defines the environment
}

func (r *result) add(f *result) {
	r.repositories = append(r.repositories, f.repositories...)
	r.releases = append(r.releases, f.releases...)
	r.hooks = append(r.hooks, f.hooks...)
	r.environmentKnown = r.environmentKnown || f.environmentKnown
}

// ids returns the IDs of releases.
func ids(releases []Release) (all []string) {
	for _, rel := range releases {
		all = append(all, rel.ID())
	}
	return all
}

// state is the merged content of one part of a file, or of the whole file. Within a part, documents and bases add to
// lists; a later part replaces them (overlay). In mappings, the last value of a key wins.
type state struct {
	path                       string
	scalars                    map[string]string // kubeContext, namespace, missingFileHandler
	defaults                   map[string]*node
	labels                     map[string]string
	environments               map[string]environment
	repositories               []Repository
	values, releases, includes []*node
	hooks                      []*node
	built                      *built // for the output of helmfile build
	// expansion reads the values that need helmfile. It is nil for the output of helmfile build that was read from a file.
	expansion *expansion
}

// built is what differs in the output of helmfile build, in which bases and included files are already merged.
type built struct {
	values map[string]any // of the environment
	// noSource is set if the output does not name the file that its paths are relative to.
	noSource bool
}

// readFile reads a file and the files that it includes. parentValues are values from the file that includes it, nil for
// none, and stateValues those of the command line. Its releases come after those with the IDs in after.
func (r *reader) readFile(path string, parentValues, stateValues map[string]any, selectors, after []string) (*result, error) {
	if r.depth++; r.depth > maxDepth {
		return nil, fmt.Errorf("%s: helmfiles include each other more than %d levels deep: remove the cycle", path, maxDepth)
	}
	defer func() { r.depth-- }()
	parts, template, isBuilt, err := r.documents(path)
	e := &expansion{reader: r, path: path, parentValues: parentValues}
	switch {
	case err != nil:
		return nil, err
	case isBuilt:
		return r.readBuilt(path, nil, slices.Concat(parts...), stateValues, selectors, after)
	case template != nil:
		docs, err := e.documents(*template)
		if err != nil {
			return nil, err
		}
		return r.readBuilt(path, e, docs, stateValues, selectors, after)
	}
	s := newState(path)
	s.expansion = e
	for _, docs := range parts {
		part := newState(path)
		for _, doc := range docs {
			if err := r.addDocument(part, doc); err != nil {
				return nil, err
			}
		}
		s.overlay(part)
	}
	if _, known := s.environments[r.Environment]; !known && r.Environment != "default" && parentValues == nil {
		return &result{}, r.leaveOut(s) // as in helmfile: another file may define the environment
	}
	values, conditions, err := r.environment(s, parentValues)
	if err != nil {
		return nil, err
	}
	return r.complete(s, loader.MergeMaps(values, stateValues), loader.MergeMaps(conditions, stateValues), selectors, after)
}

func newState(path string) *state {
	return &state{path: path, scalars: map[string]string{}, defaults: map[string]*node{}, labels: map[string]string{}, environments: map[string]environment{}}
}

// overlay merges a later part of the file into s. Lines with --- separate parts. Lists are replaced.
func (s *state) overlay(part *state) {
	maps.Copy(s.scalars, part.scalars)
	maps.Copy(s.defaults, part.defaults)
	maps.Copy(s.labels, part.labels)
	maps.Copy(s.environments, part.environments)
	if len(part.repositories) > 0 {
		s.repositories = part.repositories
	}
	for to, from := range map[*[]*node][]*node{&s.values: part.values, &s.releases: part.releases, &s.includes: part.includes, &s.hooks: part.hooks} {
		if len(from) > 0 {
			*to = from
		}
	}
}

// documents returns the documents of a file by part. template is the first template that needs helmfile, nil if there is
// none; the documents of a file that is a template are nil. isBuilt is set for the output of helmfile build.
func (r *reader) documents(path string) (parts [][]*node, template *position, isBuilt bool, err error) {
	var data []byte
	if path == "-" {
		data, err = io.ReadAll(r.Stdin)
	} else {
		data, err = os.ReadFile(filepath.Clean(path))
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("read the helmfile: %w", err)
	}
	if isTemplateFile(path) {
		return nil, &position{path, 1}, false, nil
	}
	line := 0
	for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
		if !directives.Match(part) {
			docs, err := parse(path, append(bytes.Repeat([]byte("\n"), line), part...)) // for line numbers of the file
			if err != nil {
				return nil, nil, false, err
			}
			parts = append(parts, docs)
		}
		line += bytes.Count(part, []byte("\n")) + 2
	}
	all := setSources(slices.Concat(parts...), data)
	if r.Lenient {
		for _, doc := range all {
			doc.ignored = &r.ignored
		}
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(doc *node) bool { return !doc.isBuilt() }) {
		return parts, nil, true, nil
	}
	return parts, needsHelmfile(all), false, nil
}

// directives matches a part that has only comments and directives, such as %YAML 1.1.
var directives = regexp.MustCompile(`^(\s*([#%].*)?\n?)*$`)

// isBuilt reports whether helmfile build has printed a document. People also keep the key renderedvalues in files that
// they edit; helmfile ignores it there, so it proves nothing.
func (n *node) isBuilt() bool {
	_, values := documents.Entry(n.Node, "renderedvalues")
	_, file := documents.Entry(n.Node, "filepath")
	return values != nil && (n.source != "" || file != nil && file.Value != "")
}

// readBuilt reads the output of helmfile build: one merged document for each file, included files first. e is nil if it
// was read from a file.
func (r *reader) readBuilt(path string, e *expansion, docs []*node, stateValues map[string]any, selectors, after []string) (*result, error) {
	out := &result{environmentKnown: true}
	for _, doc := range docs {
		s := newState(cmp.Or(doc.source, path))
		s.expansion, s.built = e, &built{noSource: doc.source == "" && len(docs) > 1}
		if err := r.addDocument(s, doc); err != nil {
			return nil, err
		}
		values := loader.MergeMaps(s.built.values, stateValues)
		f, err := r.complete(s, values, values, selectors, after)
		if err != nil {
			return nil, err
		}
		out.add(f)
		after = append(slices.Clip(after), ids(f.releases)...)
	}
	return out, nil
}

// addDocument merges a document and its bases into the state.
func (r *reader) addDocument(s *state, doc *node) error {
	fields, err := doc.mapping(wholeFile, fileKeys)
	if err != nil {
		return err
	}
	if s.built != nil {
		if n := fields["renderedvalues"]; n != nil {
			if err := n.decode("renderedvalues", &s.built.values); err != nil {
				return err
			}
		}
		for _, merged := range []string{"bases", "helmfiles", "environments", "values"} {
			delete(fields, merged)
		}
	}
	if bases := fields["bases"]; bases != nil {
		var files []string
		if err := bases.decode("bases", &files); err != nil {
			return err
		}
		for _, base := range files {
			if err := r.addBase(s, bases, base); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"kubeContext", "namespace", "missingFileHandler"} {
		if fields[key] == nil {
			continue
		}
		var text string
		if err := fields[key].decode(key, &text); err != nil {
			return err
		}
		if text != "" {
			s.scalars[key] = text
		}
	}
	for _, add := range []func(*state, map[string]*node) error{addDefaults, addEnvironments, addRepositories} {
		if err := add(s, fields); err != nil {
			return err
		}
	}
	for key, to := range map[string]*[]*node{"releases": &s.releases, "helmfiles": &s.includes, "values": &s.values, "hooks": &s.hooks} {
		items, err := fields[key].items(key)
		if err != nil {
			return err
		}
		*to = append(*to, items...)
	}
	return nil
}

// addBase merges the documents of a base. Its path is relative to the file that names it.
func (r *reader) addBase(s *state, at *node, base string) error {
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("%s: bases include each other more than %d levels deep: remove the cycle", at.path, maxDepth)
	}
	defer func() { r.depth-- }()
	files, missing := glob(filepath.Dir(at.path), base)
	if missing {
		return at.errorf("base %s does not exist", base)
	}
	for _, file := range files {
		parts, template, isBuilt, err := r.documents(file)
		switch {
		case err != nil:
			return err
		case template != nil || isBuilt:
			return at.errorf("base %s has templates; %s", base, useHelmfile)
		}
		for _, doc := range slices.Concat(parts...) {
			if err := r.addDocument(s, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

func addDefaults(s *state, fields map[string]*node) error {
	if n := fields["helmDefaults"]; n != nil {
		defaults, err := n.mapping("helmDefaults", defaultKeys)
		if err != nil {
			return err
		}
		maps.Copy(s.defaults, defaults)
	}
	if n := fields["commonLabels"]; n != nil {
		return n.decode("commonLabels", &s.labels)
	}
	return nil
}

func addRepositories(s *state, fields map[string]*node) error {
	items, err := fields["repositories"].items("repositories")
	if err != nil {
		return err
	}
	for _, item := range items {
		if _, err := item.mapping("repository", repositoryKeys); err != nil {
			return err
		}
		var repo Repository
		if err := item.decode("repository", &repo); err != nil {
			return err
		}
		if repo.Name == "" || repo.URL == "" {
			return item.errorf("a repository needs a name and a url")
		}
		s.repositories = slices.DeleteFunc(s.repositories, func(other Repository) bool { return other.Name == repo.Name })
		s.repositories = append(s.repositories, repo)
	}
	return nil
}

// complete reads the included files, then the releases of the state, which come after them. conditions are the values that their
// conditions read.
func (r *reader) complete(s *state, values, conditions map[string]any, selectors, after []string) (*result, error) {
	out, err := &result{repositories: s.repositories, environmentKnown: true}, error(nil)
	for _, n := range s.includes {
		included, err := r.include(s, n, selectors, after)
		if err != nil {
			return nil, err
		}
		out.add(included)
		after = append(slices.Clip(after), ids(included.releases)...)
	}
	if out.hooks, err = r.readGlobalHooks(s, values, out.hooks); err != nil {
		return nil, err
	}
	own, err := r.readReleases(s, values, conditions, selectors)
	if err != nil {
		return nil, err
	}
	for _, rel := range own {
		rel.After = after
		out.releases = append(out.releases, rel)
	}
	return out, nil
}
