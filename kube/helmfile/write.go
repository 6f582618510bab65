package helmfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
	"lockstep/kube/mask"
	"lockstep/kube/readiness"
)

// AddNeeds adds needs to releases, by ID, as new lines in their files, and returns the changed files. It changes no file
// if it cannot add all needs, or if anything else in a file would change.
func (f *File) AddNeeds(needs map[string][]string) (files []string, err error) {
	byFile := map[string][]Release{}
	for _, r := range f.Releases {
		if len(needs[r.ID()]) > 0 {
			byFile[r.position.path] = append(byFile[r.position.path], r)
		}
	}
	var changed []documents.Rewrite
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("add needs: %w", err)
		}
		text := string(data)
		slices.SortFunc(byFile[file], func(a, b Release) int { return b.position.line - a.position.line }) // from the bottom, so that line numbers stay valid
		for _, r := range byFile[file] {
			if text, err = insertNeeds(text, r, needs[r.ID()]); err != nil {
				return nil, fmt.Errorf("%s: release %s: %w", r.At, r.ID(), err)
			}
		}
		if err := checkOnlyNeedsChanged(file, string(data), text); err != nil {
			return nil, err
		}
		files, changed = append(files, file), append(changed, documents.Rewrite{Path: file, Old: data, New: []byte(text)})
	}
	return files, documents.WriteAll(changed)
}

// insertNeeds adds needs to a release in the text of its file.
func insertNeeds(text string, r Release, needs []string) (string, error) {
	release, err := findRelease(text, r)
	if err != nil {
		return "", err
	}
	lines := strings.Split(text, "\n")
	indent := strings.Repeat(" ", release.Column-1)
	after, item := 0, indent+"  - " // the line to insert after, the start of a new item
	added := []string{indent + "needs:"}
	for key, value := range documents.Entries(release) {
		switch {
		case key.Value == "name" && after == 0:
			after = key.Line
		case key.Value != "needs":
		case value.Style&kyaml.FlowStyle != 0 || value.Kind != kyaml.SequenceNode || len(value.Content) == 0:
			return "", fmt.Errorf("needs is not a list with one entry per line; add %s by hand", strings.Join(needs, ", "))
		default:
			last := value.Content[len(value.Content)-1]
			after = last.Line
			dash := strings.Index(lines[last.Line-1], "-")
			item = lines[last.Line-1][:dash] + "- "
			added = nil // the list exists
		}
	}
	for _, need := range needs {
		added = append(added, item+r.shortNeed(need))
	}
	return strings.Join(slices.Insert(lines, after, added...), "\n"), nil
}

// findRelease finds the mapping of a release, which must be in block style.
func findRelease(text string, r Release) (found *kyaml.Node, err error) {
	docs, err := parse(r.position.path, []byte(text))
	if err != nil {
		return nil, err
	}
	var visit func(n *kyaml.Node)
	visit = func(n *kyaml.Node) {
		if _, name := documents.Entry(n, "name"); name != nil && name.Value == r.Name && n.Line == r.position.line {
			found = n
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	for _, d := range docs {
		visit(d.Node)
	}
	if found == nil || found.Style&kyaml.FlowStyle != 0 {
		return nil, errors.New("it is not written with one key per line; add needs by hand")
	}
	return found, nil
}

// shortNeed returns the shortest text that resolveNeed resolves to a need.
func (r Release) shortNeed(need string) string {
	for _, short := range []string{need[strings.LastIndex(need, "/")+1:], strings.TrimPrefix(need, r.Context+"/")} {
		if r.resolveNeed(short) == need {
			return short
		}
	}
	return need
}

// checkOnlyNeedsChanged returns an error if two texts of a file differ in anything but needs.
func checkOnlyNeedsChanged(file, before, after string) error {
	var sides [2][]any
	for i, text := range []string{before, after} {
		docs, err := parse(file, []byte(text))
		if err != nil {
			return fmt.Errorf("add needs: %w", err)
		}
		for _, d := range docs {
			var whole any
			if err := d.Decode(&whole); err != nil {
				return fmt.Errorf("add needs to %s: %w", file, err)
			}
			sides[i] = append(sides[i], withoutNeeds(whole))
		}
	}
	if !reflect.DeepEqual(sides[0], sides[1]) {
		return fmt.Errorf("%s: adding needs would change something else in the file; add them by hand", file)
	}
	return nil
}

func withoutNeeds(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "needs")
		for key := range v {
			v[key] = withoutNeeds(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutNeeds(v[i])
		}
	}
	return v
}

// Packed returns f as plain YAML for another machine. charts contains the path or reference of each release's chart, by
// ID. The values of each release must be in the file ValuesFile, next to it; secret are the places of those that Merge has
// decrypted, by ID. The releases must have no contexts (WithoutContexts). Packed returns an error for a release with a post-renderer, which
// another machine does not have. All hooks must have an image, unless skipHooks leaves them out. down is for a run that uninstalls the releases.
func (f *File) Packed(charts map[string]string, secret map[string]mask.Paths, down, skipHooks bool) ([]byte, error) {
	releases := []map[string]any{}
	installed := map[string]bool{}
	for _, r := range f.Releases {
		installed[r.ID()] = r.Installed
	}
	for _, r := range f.Releases {
		after := slices.DeleteFunc(slices.Clone(r.After), func(id string) bool { return installed[id] != r.Installed }) // they do not wait for each other
		if r.PostRenderer != "" {
			return nil, fmt.Errorf("%s: release %s has a postRenderer, whose plugin is on this machine: run without --in-cluster", r.At, r.ID())
		}
		packed := map[string]any{
			"name": r.Name, "namespace": r.Namespace, "needs": slices.Concat(r.Needs, after), "installed": r.Installed,
			"timeout": int(r.Timeout.Seconds()), "createNamespace": r.CreateNamespace, "rollbackOnFailure": r.RollbackOnFailure, "cleanupOnFail": r.CleanupOnFail,
			"waitForJobs": r.WaitForJobs, "disableHooks": r.NoHooks, "skipSchemaValidation": r.SkipSchemaValidation, "disableOpenAPIValidation": r.DisableOpenAPIValidation,
			"reuseValues": r.ReuseValues, "takeOwnership": r.TakeOwnership, "skipCRDs": r.SkipCRDs, "enableDNS": r.EnableDNS,
			"syncReleaseLabels": r.StoreLabels, "labels": r.Labels, "skipDeps": true, "historyMax": r.HistoryMax, "description": r.Description, "waitFor": r.WaitFor, "approve": r.Approve, "test": r.Test, "continueOnError": r.ContinueOnError, "secretPaths": secret[r.ID()],
		}
		patches, err := r.packedPatches(os.ReadFile)
		if err != nil {
			return nil, err
		}
		if !skipHooks {
			if packed["hooks"], err = packedHooks(r.Hooks, down, false); err != nil {
				return nil, err
			}
		}
		maps.Copy(packed, patches)
		if len(r.Readiness) > 0 {
			var entries map[string]any
			data, err := readiness.FileOf(r.Readiness)
			if err == nil {
				err = yaml.Unmarshal(data, &entries)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: release %s: readiness: %w", r.At, r.ID(), err)
			}
			packed["readiness"] = entries
		}
		if r.Installed {
			packed["chart"] = cmp.Or(charts[r.ID()], "./unused") // down has no charts
			packed["values"] = []string{r.ValuesFile()}
		}
		releases = append(releases, packed)
	}
	packed := map[string]any{"releases": releases}
	if !skipHooks {
		var err error
		if packed["hooks"], err = packedHooks(f.Hooks, down, true); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(packed)
}

// ValuesFile returns the path of the release's merged values, as documents.EncodeExact writes them, relative to a packed
// helmfile.
func (r Release) ValuesFile() string { return "values/" + r.ID() + documents.ExactSuffix }
