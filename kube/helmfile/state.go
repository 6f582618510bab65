package helmfile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// reader reads a helmfile with everything that it includes.
type reader struct {
	ctx context.Context
	Options
	depth int // of the files that include each other
}

// mostNested bounds files that include each other in a circle.
const mostNested = 20

// result is a file that was read, with those that it includes.
type result struct {
	repositories     []Repository
	releases         []Release
	environmentKnown bool
}

// state is what the documents and the bases of one file say together: of mappings the last
// key wins, lists are joined.
type state struct {
	path                       string
	scalars                    map[string]string // kubeContext, namespace, missingFileHandler
	defaults                   map[string]*kyaml.Node
	labels                     map[string]string
	environments               map[string]map[string][]*kyaml.Node // values by environment and by what they are
	origin                     map[*kyaml.Node]string              // the file that a value stands in
	repositories               []Repository
	values, releases, includes []*kyaml.Node
}

// file reads a file for an environment whose values are laid over its own.
func (r *reader) file(path string, over map[string]any, selectors []string, before []string) (*result, error) {
	if r.depth++; r.depth > mostNested {
		return nil, fmt.Errorf("%s: helmfiles include each other more than %d deep", path, mostNested)
	}
	defer func() { r.depth-- }()
	docs, err := r.documents(path)
	if err != nil {
		return nil, err
	}
	s := &state{path: path, scalars: map[string]string{}, defaults: map[string]*kyaml.Node{}, labels: map[string]string{}, environments: map[string]map[string][]*kyaml.Node{}, origin: map[*kyaml.Node]string{}}
	for _, doc := range docs {
		if err := r.add(s, path, doc); err != nil {
			return nil, err
		}
	}
	return r.complete(s, over, selectors, before)
}

// documents reads the documents of a plain file, or of what helmfile made of one with
// templates.
func (r *reader) documents(path string) ([]*kyaml.Node, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(r.Stdin)
	} else {
		data, err = os.ReadFile(filepath.Clean(path))
	}
	if err != nil {
		return nil, fmt.Errorf("read the helmfile: %w", err)
	}
	if strings.HasSuffix(path, ".gotmpl") {
		return r.expand(place{path, 1})
	}
	docs, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	look := docs
	if path == "-" { // what helmfile build prints
		look = withoutInlineValues(docs)
	}
	if at := template(path, look); at != nil {
		return r.expand(*at)
	}
	return docs, nil
}

// withoutInlineValues are documents without the inline values of releases: where those were
// expanded, {{ }} in them is for Helm's tpl.
func withoutInlineValues(docs []*kyaml.Node) (out []*kyaml.Node) {
	for _, doc := range docs {
		for i := 0; i+1 < len(doc.Content); i += 2 {
			if doc.Content[i].Value != "releases" || doc.Content[i+1].Kind != kyaml.SequenceNode {
				out = append(out, doc.Content[i+1])
				continue
			}
			for _, release := range doc.Content[i+1].Content {
				release = resolve(release)
				for j := 0; j+1 < len(release.Content); j += 2 {
					value := resolve(release.Content[j+1])
					if release.Content[j].Value != "values" || value.Kind != kyaml.SequenceNode {
						out = append(out, value)
						continue
					}
					for _, v := range value.Content {
						if v.Kind == kyaml.ScalarNode {
							out = append(out, v)
						}
					}
				}
			}
		}
	}
	return out
}

// add lays a document over the state.
func (r *reader) add(s *state, path string, doc *kyaml.Node) error {
	fields, err := mapping(path, "the helmfile", doc, fileKeys)
	if err != nil {
		return err
	}
	if bases := fields["bases"]; bases != nil {
		var files []string
		if err := decode(path, "bases", bases, &files); err != nil {
			return err
		}
		for _, base := range files {
			if err := r.base(s, path, bases, base); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"kubeContext", "namespace", "missingFileHandler"} {
		if fields[key] != nil && fields[key].Value != "" {
			s.scalars[key] = fields[key].Value
		}
	}
	for _, add := range []func(*state, string, map[string]*kyaml.Node) error{addDefaults, addEnvironments, addRepositories} {
		if err := add(s, path, fields); err != nil {
			return err
		}
	}
	for key, to := range map[string]*[]*kyaml.Node{"releases": &s.releases, "helmfiles": &s.includes, "values": &s.values} {
		items, err := list(path, key, fields[key])
		if err != nil {
			return err
		}
		for _, item := range items {
			s.origin[item] = path
		}
		*to = append(*to, items...)
	}
	return nil
}

// base adds the documents of a base. Its paths are relative to the file that names it.
func (r *reader) base(s *state, path string, at *kyaml.Node, base string) error {
	if r.depth++; r.depth > mostNested {
		return fmt.Errorf("%s: bases include each other more than %d deep", path, mostNested)
	}
	defer func() { r.depth-- }()
	files, missing := glob(filepath.Dir(path), base)
	if missing {
		return place{path, at.Line}.errorf("base %s does not exist", base)
	}
	for _, file := range files {
		docs, err := r.documents(file)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			if err := r.add(s, file, doc); err != nil {
				return err
			}
		}
	}
	return nil
}

func addDefaults(s *state, path string, fields map[string]*kyaml.Node) error {
	if n := fields["helmDefaults"]; n != nil {
		defaults, err := mapping(path, "helmDefaults", n, defaultKeys)
		if err != nil {
			return err
		}
		for key, value := range defaults {
			s.origin[value] = path
			s.defaults[key] = value
		}
	}
	if n := fields["commonLabels"]; n != nil {
		return decode(path, "commonLabels", n, &s.labels)
	}
	return nil
}

func addEnvironments(s *state, path string, fields map[string]*kyaml.Node) error {
	if fields["environments"] == nil {
		return nil
	}
	all, err := entries(path, "environments", fields["environments"])
	if err != nil {
		return err
	}
	for name, n := range all {
		env, err := mapping(path, "environment "+name, n, environmentKeys)
		if err != nil {
			return err
		}
		if s.environments[name] == nil {
			s.environments[name] = map[string][]*kyaml.Node{}
		}
		values, err := list(path, "values of environment "+name, env["values"])
		if err != nil {
			return err
		}
		for _, v := range values {
			s.origin[v] = path
		}
		s.environments[name]["values"] = append(s.environments[name]["values"], values...)
		if env["kubeContext"] != nil {
			s.environments[name]["kubeContext"] = []*kyaml.Node{env["kubeContext"]}
		}
	}
	return nil
}

func addRepositories(s *state, path string, fields map[string]*kyaml.Node) error {
	items, err := list(path, "repositories", fields["repositories"])
	if err != nil {
		return err
	}
	for _, item := range items {
		if _, err := mapping(path, "repository", item, repositoryKeys); err != nil {
			return err
		}
		repo := Repository{place: place{path, item.Line}}
		if err := decode(path, "repository", item, &repo); err != nil {
			return err
		}
		if repo.Name == "" || repo.URL == "" {
			return repo.place.errorf("a repository needs a name and a url")
		}
		s.repositories = slices.DeleteFunc(s.repositories, func(other Repository) bool { return other.Name == repo.Name })
		s.repositories = append(s.repositories, repo)
	}
	return nil
}

// environment merges the values of the environment, over those of the file.
func (r *reader) environment(s *state, over map[string]any) (map[string]any, error) {
	values := map[string]any{}
	for _, n := range slices.Concat(s.values, s.environments[r.Environment]["values"]) {
		if n.Kind == kyaml.MappingNode {
			inline := map[string]any{}
			if err := decode(s.origin[n], "values", n, &inline); err != nil {
				return nil, err
			}
			values = loader.MergeMaps(values, inline)
			continue
		}
		files, missing := glob(filepath.Dir(s.path), n.Value)
		if missing && s.scalars["missingFileHandler"] == "" || missing && s.scalars["missingFileHandler"] == "Error" {
			return nil, place{s.origin[n], n.Line}.errorf("values file %s of environment %s does not exist", n.Value, r.Environment)
		}
		for _, file := range files {
			more, err := readValues(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place{s.origin[n], n.Line}, err)
			}
			values = loader.MergeMaps(values, more)
		}
	}
	return loader.MergeMaps(values, over), nil
}

func readValues(file string) (map[string]any, error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("values file %s: %w", file, err)
	}
	return values, nil
}

// stateValues are the values of the command line.
func (r *reader) stateValues() (map[string]any, error) {
	values := map[string]any{}
	for _, file := range r.StateValuesFiles {
		more, err := readValues(file)
		if err != nil {
			return nil, fmt.Errorf("--state-values-file: %w", err)
		}
		values = loader.MergeMaps(values, more)
	}
	for _, set := range r.StateValuesSet {
		if err := parseSet(set, values); err != nil {
			return nil, fmt.Errorf("--state-values-set %s: %w", set, err)
		}
	}
	return values, nil
}

// complete turns a state into releases: those of included files, then its own, which
// follow them.
func (r *reader) complete(s *state, over map[string]any, selectors, before []string) (*result, error) {
	values, err := r.environment(s, over)
	if err != nil {
		return nil, err
	}
	_, known := s.environments[r.Environment]
	out := &result{repositories: s.repositories, environmentKnown: known}
	for _, n := range s.includes {
		included, err := r.include(s, n, values, selectors, before)
		if err != nil {
			return nil, err
		}
		for _, f := range included {
			out.repositories = append(out.repositories, f.repositories...)
			out.releases = append(out.releases, f.releases...)
			out.environmentKnown = out.environmentKnown || f.environmentKnown
			for _, rel := range f.releases {
				before = append(slices.Clone(before), rel.ID())
			}
		}
	}
	own, err := r.releases(s, values, selectors)
	if err != nil {
		return nil, err
	}
	for _, rel := range own {
		rel.After = before
		out.releases = append(out.releases, rel)
	}
	return out, nil
}

// include reads the files that an entry of helmfiles names.
func (r *reader) include(s *state, n *kyaml.Node, values map[string]any, selectors, before []string) (out []*result, err error) {
	path, at := n.Value, place{s.origin[n], n.Line}
	var over map[string]any
	if n.Kind == kyaml.MappingNode {
		fields, err := mapping(s.origin[n], "helmfiles", n, helmfileKeys)
		if err != nil {
			return nil, err
		}
		if fields["path"] == nil {
			return nil, at.errorf("helmfiles: an entry needs a path")
		}
		path = fields["path"].Value
		var chosen []string
		if fields["selectors"] != nil {
			if err := decode(s.origin[n], "selectors", fields["selectors"], &chosen); err != nil {
				return nil, err
			}
		}
		if inherited := fields["selectorsInherited"]; len(selectors) == 0 || fields["selectors"] != nil && (inherited == nil || inherited.Value != "true") {
			selectors = chosen
		}
		sources, err := list(s.origin[n], "values of helmfiles", fields["values"])
		if err != nil {
			return nil, err
		}
		sub := &state{path: s.path, scalars: s.scalars, values: sources, origin: map[*kyaml.Node]string{}}
		for _, v := range sources {
			sub.origin[v] = s.origin[n]
		}
		if over, err = r.environment(sub, nil); err != nil {
			return nil, err
		}
	}
	if strings.Contains(path, "::") || strings.Contains(path, "://") {
		return nil, at.errorf("helmfiles: lockstep does not download %s: %s", path, byHelmfile)
	}
	files, missing := glob(filepath.Dir(s.path), path)
	if missing {
		return nil, at.errorf("helmfiles: %s does not exist", path)
	}
	for _, file := range files {
		within, err := find(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		for _, file := range within {
			f, err := r.file(file, loader.MergeMaps(maps.Clone(over), r.given()), selectors, before)
			if err != nil {
				return nil, err
			}
			for _, rel := range f.releases {
				before = append(slices.Clone(before), rel.ID())
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// given are the values of the command line, which were read without error before.
func (r *reader) given() map[string]any {
	values, _ := r.stateValues()
	return values
}
