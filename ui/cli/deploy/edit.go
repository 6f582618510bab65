package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

// editor edits an operation under way from its own screen (R46).
type editor struct {
	op     *kube.Operation
	folder *chartFolder // of its chart; nil where that has none
}

// What begins the file that the user edits.
const (
	valuesHead = `# The values of release %s that were given, not those that its chart has by itself.
# What is saved here becomes the next revision, once it has been looked at.
`
	allValuesHead = `# All values of release %s, also those that its charts have by themselves.
# What is changed here is given with the next revision, once it has been looked at.
`
)

func (e editor) Values(all bool) (string, error) {
	if err := e.op.Editable(); err != nil {
		return "", err
	}
	values, err := e.op.Values(all)
	if err != nil {
		return "", err
	}
	head, text := valuesHead, ""
	if all {
		head = allValuesHead
	}
	if len(values) > 0 {
		text, err = kube.YAML(values)
	}
	return fmt.Sprintf(head, e.op.Info().Release) + text, err
}

func (e editor) Edit(ctx context.Context, text string, all bool) (board.Edited, error) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return board.Edited{}, fmt.Errorf("read the edited values: %w", err)
	}
	if all {
		given, err := e.given(values)
		if err != nil {
			return board.Edited{}, err
		}
		values = given
	}
	return e.edited(ctx, values, nil)
}

// given are the values that the user gives when all values have been edited.
func (e editor) given(edited map[string]any) (map[string]any, error) {
	text, err := e.Values(true) // as the user got them: numbers are read alike
	if err != nil {
		return nil, err
	}
	var was map[string]any
	if err := yaml.Unmarshal([]byte(text), &was); err != nil {
		return nil, fmt.Errorf("read all values: %w", err)
	}
	given, err := e.op.Values(false)
	if err == nil {
		kube.ApplyValueChanges(given, was, edited)
	}
	return given, err
}

func (e editor) Again(ctx context.Context) (board.Edited, error) {
	if e.folder == nil {
		return board.Edited{}, errors.New("the chart is not a folder that could have changed")
	}
	values, err := e.op.Values(false)
	if err != nil {
		return board.Edited{}, err
	}
	c, err := e.folder.again(ctx)
	if err != nil {
		return board.Edited{}, err
	}
	return e.edited(ctx, values, c)
}

func (e editor) ChartChanged() bool { return e.folder != nil && e.folder.changed() }

func (e editor) edited(ctx context.Context, values map[string]any, c *kube.Chart) (board.Edited, error) {
	made, err := e.op.Edit(ctx, values, c)
	if err != nil {
		return board.Edited{}, err
	}
	changes, err := made.Changes()
	if err != nil {
		return board.Edited{}, err
	}
	what := report.Edit{Operation: made.Info(), Before: made.Before(), After: made.Phases(), Changes: reportChanges(changes), Warnings: made.Warnings()}
	return board.Edited{Lines: what.Lines(), Order: made.Command()}, nil
}

// chartFolder is the folder of a chart that is being deployed, which may be changed
// meanwhile (R46).
type chartFolder struct {
	path string
	load func(context.Context) (*kube.Chart, error)

	mu  sync.Mutex
	was folderState // when it was loaded last
}

// folderState tells one content of a folder from another, without reading it.
type folderState struct {
	newest      time.Time
	files, size int64
}

// folderOf is the folder that a chart is loaded from, nil where it is none. Changes
// count from now on.
func folderOf(ref string, load func(context.Context) (*kube.Chart, error)) *chartFolder {
	if info, err := os.Stat(ref); err != nil || !info.IsDir() {
		return nil
	}
	return &chartFolder{path: ref, load: load, was: stateOf(ref)}
}

// again loads the chart anew.
func (f *chartFolder) again(ctx context.Context) (*kube.Chart, error) {
	f.loads()
	return f.load(ctx)
}

// loads notes that the chart is about to be loaded: what changes while it is has
// changed since.
func (f *chartFolder) loads() {
	if f == nil {
		return
	}
	now := stateOf(f.path)
	f.mu.Lock()
	f.was = now
	f.mu.Unlock()
}

// changed reports whether the folder is another one than what was loaded last.
func (f *chartFolder) changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stateOf(f.path) != f.was
}

// stateOf looks at all files of a folder; what cannot be looked at does not count.
func stateOf(path string) (s folderState) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return nil
		}
		s.files++
		s.size += info.Size()
		if info.ModTime().After(s.newest) {
			s.newest = info.ModTime()
		}
		return nil
	})
	return s
}
