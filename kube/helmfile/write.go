package helmfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// AddNeeds adds needs to releases, given by ID, as new lines in their files. It changes no file if
// it cannot add a need, or if anything else in a file would change.
func (f *File) AddNeeds(needs map[string][]string) (files []string, err error) {
	at := map[string][]Release{} // by file
	for _, r := range f.Releases {
		if len(needs[r.ID()]) > 0 {
			at[r.file] = append(at[r.file], r)
		}
	}
	texts := map[string]string{}
	for file, releases := range at {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("add needs: %w", err)
		}
		text := string(data)
		slices.SortFunc(releases, func(a, b Release) int { return b.line - a.line }) // from the bottom, so that line numbers stay valid
		for _, r := range releases {
			if text, err = insertNeeds(text, r, needs[r.ID()]); err != nil {
				return nil, fmt.Errorf("%s: release %s: %w", r.At, r.ID(), err)
			}
		}
		if err := checkOnlyNeedsChanged(file, string(data), text); err != nil {
			return nil, err
		}
		texts[file] = text
	}
	for file, text := range texts {
		if err := writeFile(file, text); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	slices.Sort(files)
	return files, nil
}

// insertNeeds adds needs to a release in the text of its file.
func insertNeeds(text string, r Release, needs []string) (string, error) {
	node, err := findRelease(text, r)
	if err != nil {
		return "", err
	}
	lines := strings.Split(text, "\n")
	indent := strings.Repeat(" ", node.Column-1)
	after, item := 0, indent+"  - "
	var added []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
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
			added = []string{}
		}
	}
	if added == nil {
		added = []string{indent + "needs:"}
	}
	for _, need := range needs {
		added = append(added, item+r.shortNeed(need))
	}
	return strings.Join(slices.Insert(lines, after, added...), "\n"), nil
}

// findRelease finds the mapping of a release, which must be in block style.
func findRelease(text string, r Release) (found *kyaml.Node, err error) {
	docs, err := parse(r.file, []byte(text))
	if err != nil {
		return nil, err
	}
	var visit func(n *kyaml.Node)
	visit = func(n *kyaml.Node) {
		names := func(i int) bool { return n.Content[i].Value == "name" && n.Content[i+1].Value == r.Name }
		for i := 0; n.Kind == kyaml.MappingNode && n.Line == r.line && i+1 < len(n.Content); i += 2 {
			if names(i) {
				found = n
			}
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	for _, d := range docs {
		visit(d)
	}
	if found == nil || found.Style&kyaml.FlowStyle != 0 {
		return nil, errors.New("it is not written with one key per line; add needs by hand")
	}
	return found, nil
}

// shortNeed returns the shortest form of a need that r.resolveNeed accepts.
func (r Release) shortNeed(need string) string {
	for _, short := range []string{need[strings.LastIndex(need, "/")+1:], strings.TrimPrefix(need, r.Context+"/")} {
		if r.resolveNeed(short) == need {
			return short
		}
	}
	return need
}

// checkOnlyNeedsChanged checks that two texts differ only in needs.
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
		return fmt.Errorf("%s: needs cannot be added without changing something else; add them by hand", file)
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

// writeFile replaces a file atomically.
func writeFile(file, text string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".helmfile-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Chmod(info.Mode()), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // incomplete
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
