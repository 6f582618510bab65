package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
	"lockstep/ui/report"
)

// editor edits a running operation from its own screen (R46).
type editor struct {
	op     *kube.Operation
	folder *chartFolder // of its chart; nil where that has none
	saved  *savedValues
}

// Headers of the file that the user edits.
const (
	valuesHead = `# Values given for release %s; chart defaults are not shown.
# Saved changes become the next revision after you confirm.
`
	allValuesHead = `# All values of release %s, including chart defaults.
# Saved changes become the next revision after you confirm.
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
	return valuesText(e.op.Info().Release, values, all)
}

// valuesText is the file that the user edits.
func valuesText(release string, values map[string]any, all bool) (text string, err error) {
	head := valuesHead
	if all {
		head = allValuesHead
	}
	text = "\n" // editors continue a comment on the line below it
	if len(values) > 0 {
		text, err = kube.YAML(values)
	}
	return fmt.Sprintf(head, release) + text, err
}

func (e editor) Edit(ctx context.Context, text string, all bool) (board.Edited, error) {
	values, err := e.read(text, all)
	if err != nil {
		return board.Edited{}, err
	}
	return e.edited(ctx, values, nil)
}

// read returns the values to set after an edit.
func (e editor) read(text string, all bool) (map[string]any, error) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("read the edited values: %w", err)
	}
	if all {
		return e.given(values)
	}
	return values, nil
}

// Given are edited values as the user wrote them, or of all values those to set.
func (e editor) Given(text string, all bool) (string, error) {
	values, err := e.read(text, all)
	if err != nil || !all {
		return strings.TrimPrefix(text, fmt.Sprintf(valuesHead, e.op.Info().Release)), err
	}
	return kube.YAML(values)
}

// Save writes the edited values to a new file.
func (e editor) Save(text string, all bool) (path string, err error) {
	values, err := e.read(text, all)
	if err == nil {
		text, err = e.Given(text, all)
	}
	if err == nil {
		path, err = command.SaveValues(e.op.Info().Release, text)
	}
	if err == nil {
		err = e.saved.keep(path, values, func() (map[string]any, error) { return e.op.Values(false) })
	}
	return path, err
}

// savedValues is the file that edited values of a run were saved to last.
type savedValues struct {
	mu   sync.Mutex
	path string
	now  func() (map[string]any, error) // the values of the run
	// was and are are the values of the run at that time, and those in the file.
	was, are string
}

// keep notes that values were saved.
func (s *savedValues) keep(path string, values map[string]any, now func() (map[string]any, error)) error {
	was, err := now()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path, s.now = path, now
	if s.was, err = kube.YAML(was); err == nil {
		s.are, err = kube.YAML(values)
	}
	return err
}

// file is the file to run the operation again with. It is "" if there is none, or if other
// edited values were applied since.
func (s *savedValues) file() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		return ""
	}
	values, err := s.now()
	if err != nil {
		return ""
	}
	if now, err := kube.YAML(values); err != nil || now != s.was && now != s.are {
		return ""
	}
	return s.path
}

// given are the values to set after an edit of all values, chart defaults included.
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
		return board.Edited{}, errors.New("the chart is not a directory, so it cannot be reloaded")
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
	empty, err := made.Empty()
	if err != nil {
		return board.Edited{}, err
	}
	what := report.Edit{Operation: made.Info(), Before: made.Before(), After: made.Phases(), Changes: reportChanges(changes), Warnings: made.Warnings(), Empty: empty}
	out := board.Edited{Lines: what.Lines(), Empty: empty, Order: made.Command()}
	for _, c := range changes {
		out.Changes = append(out.Changes, board.Altered{Group: c.Group, Object: c.Object, Change: screen.ChangeOf(c)})
	}
	return out, nil
}

// chartFolder is the directory of a chart that is being deployed and may change
// meanwhile (R46).
type chartFolder struct {
	path string
	load func(context.Context) (*kube.Chart, error)

	mu  sync.Mutex
	was folderState // at the last load
}

// folderState identifies the content of a directory without reading its files.
type folderState struct {
	newest      time.Time
	files, size int64
}

// folderOf is the directory that a chart is loaded from, nil if it is none. Changes
// count from this call on.
func folderOf(ref string, load func(context.Context) (*kube.Chart, error)) *chartFolder {
	if info, err := os.Stat(ref); err != nil || !info.IsDir() {
		return nil
	}
	return &chartFolder{path: ref, load: load, was: stateOf(ref)}
}

// again reloads the chart.
func (f *chartFolder) again(ctx context.Context) (*kube.Chart, error) {
	f.loads()
	return f.load(ctx)
}

// loads records the state before a load, so that changes during it count.
func (f *chartFolder) loads() {
	if f == nil {
		return
	}
	now := stateOf(f.path)
	f.mu.Lock()
	f.was = now
	f.mu.Unlock()
}

// changed reports whether the directory has changed since the last load.
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
