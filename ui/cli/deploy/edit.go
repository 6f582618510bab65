package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

// editor edits the values of a running operation and reloads its chart (R46).
type editor struct {
	op    *kube.Operation
	dir   *chartDir // nil if the chart is not a directory
	saved *savedValues
}

// allValuesHeader is the header of the file that the user edits if it has all values.
const allValuesHeader = `# All values of release %s, including chart defaults.
# Saved changes become the next revision after you confirm.
`

func (e editor) Values(_ context.Context, all bool) (string, error) {
	if err := e.op.CheckEditable(); err != nil {
		return "", err
	}
	values, err := e.op.Values(all)
	if err != nil {
		return "", err
	}
	file, err := input.ValuesFile(e.header(all), values)
	return file + e.defaults(all), err
}

// defaults returns the end of the file that the user edits, unless that has all values anyway.
func (e editor) defaults(all bool) string {
	if defaults := e.op.Defaults(); !all && defaults != "" {
		return "\n" + defaults
	}
	return ""
}

// header returns the comment at the top of the file that the user edits. It says what the version of the chart does to the values.
func (e editor) header(all bool) string {
	return valuesComment(e.op.Info().Release, all, e.op.Warnings())
}

func valuesComment(release string, all bool, warnings []plan.Warning) string {
	header := input.ValuesHeader(release)
	if all {
		header = fmt.Sprintf(allValuesHeader, release)
	}
	for _, w := range warnings {
		if w.Rule == kube.RuleOfValues {
			header += "# " + text.CollapseSpace(w.Message) + "\n"
		}
	}
	return header
}

func (e editor) Edit(ctx context.Context, text string, all bool) (inspect.Edited, error) {
	values, _, err := e.read(text, all)
	if err != nil {
		return inspect.Edited{}, err
	}
	return e.prepare(ctx, values, nil)
}

// read parses an edited file. It returns the user's values in it, also as YAML, which keeps the
// user's formatting unless the file has all values.
func (e editor) read(edited string, all bool) (values map[string]any, text string, err error) {
	if err := yaml.Unmarshal([]byte(edited), &values); err != nil {
		return nil, "", invalidEdit(edited, err, e.op.Mask().Output)
	}
	before, err := e.op.Values(all)
	if err != nil {
		return nil, "", err
	}
	charts.KeepTypes(before, values)
	if !all {
		return values, strings.TrimSuffix(strings.TrimPrefix(edited, e.header(false)), e.defaults(false)), nil
	}
	userValues, err := e.op.Values(false)
	if err != nil {
		return nil, "", err
	}
	charts.ApplyChanges(userValues, before, values)
	text, err = charts.YAML(userValues)
	return userValues, text, err
}

// invalidEdit explains a YAML parser's error about an edited file, and shows the line with hide.
func invalidEdit(edited string, err error, hide func(string) string) error {
	data := []byte(edited)
	invalid := documents.ValuesError("values.yaml", data, err) // the name of the file in the user's editor
	n := documents.TemplateLine(data, err)
	if n == 0 {
		n, _ = documents.SyntaxError(data, err)
	}
	lines := strings.Split(edited, "\n")
	if n == 0 || n > len(lines) {
		return invalid
	}
	return fmt.Errorf("%w\n  %d | %s", invalid, n, hide(lines[n-1]))
}

// UserValues returns the user's values of an edited file, as YAML.
func (e editor) UserValues(_ context.Context, edited string, all bool) (string, error) {
	_, text, err := e.read(edited, all)
	return text, err
}

// Save writes the edited values to a new file. A comment names those that cannot be in a file.
func (e editor) Save(values string) (path string, err error) {
	before, err := e.op.Values(false)
	if err != nil {
		return "", err
	}
	text, floats, err := withFloats(before, values)
	if err != nil {
		return "", err
	}
	if path, err = input.SaveValues(e.op.Info().Release, text); err != nil {
		return path, err
	}
	return path, e.saved.record(path, values, floats, func() (map[string]any, error) { return e.op.Values(false) })
}

// withFloats adds a comment to values as YAML about the integers that Helm would read as floats. floats are the arguments of
// --set that keep them.
func withFloats(before map[string]any, values string) (text string, floats []string, err error) {
	var edited map[string]any
	if err := yaml.Unmarshal([]byte(values), &edited); err != nil {
		return "", nil, fmt.Errorf("read the edited values: %w", err)
	}
	charts.KeepTypes(before, edited)
	if floats = charts.FloatsInFile(edited); len(floats) == 0 {
		return values, nil, nil
	}
	text = "# Helm reads the numbers of a file as floats, and templates print 1000000 as 1e+06. To keep these integers, use also:\n"
	for _, arg := range floats {
		text += "#   --set " + command.ShellJoin([]string{arg}) + "\n"
	}
	return text + values, floats, nil
}

// savedValues is the last file to which edited values of a run were saved.
type savedValues struct {
	mu      sync.Mutex
	flags   []string                       // for the file, and for what it cannot keep
	current func() (map[string]any, error) // returns the values of the run
	// before and saved are the values of the run when the file was saved, and those in the file.
	before, saved string
}

// record records that values were saved to path. sets are the arguments of --set for what the file cannot keep.
func (s *savedValues) record(path, text string, sets []string, current func() (map[string]any, error)) error {
	before, err := current()
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return fmt.Errorf("read the saved values: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flags, s.current = []string{"-f", path}, current
	for _, arg := range sets {
		s.flags = append(s.flags, "--set", arg)
	}
	if s.before, err = charts.YAML(before); err == nil {
		s.saved, err = charts.YAML(values)
	}
	return err
}

// flagsAgain returns the flags for values with which to run the operation again. They are nil if no file was saved, or if
// other edited values were applied since.
func (s *savedValues) flagsAgain() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flags == nil {
		return nil
	}
	values, err := s.current()
	if err != nil {
		return nil
	}
	if current, err := charts.YAML(values); err != nil || current != s.before && current != s.saved {
		return nil
	}
	return s.flags
}

func (e editor) Reload(ctx context.Context) (inspect.Edited, error) {
	if e.dir == nil {
		return inspect.Edited{}, errors.New("the chart is not a directory, so it cannot be reloaded")
	}
	values, err := e.op.Values(false)
	if err != nil {
		return inspect.Edited{}, err
	}
	e.dir.markLoaded()
	c, err := e.dir.load(ctx)
	if err != nil {
		return inspect.Edited{}, err
	}
	return e.prepare(ctx, values, c)
}

func (e editor) ChartChanged() bool { return e.dir != nil && e.dir.changed() }

func (e editor) prepare(ctx context.Context, values map[string]any, c *charts.Chart) (inspect.Edited, error) {
	revision, err := e.op.Edit(ctx, values, c)
	if err != nil {
		return inspect.Edited{}, err
	}
	changes, err := revision.Changes()
	if err != nil {
		return inspect.Edited{}, err
	}
	empty, err := revision.Empty()
	if err != nil {
		return inspect.Edited{}, err
	}
	summary := report.Edit{
		Operation: revision.Info(), Before: revision.PhasesBefore(), After: revision.Phases(),
		Changes: changes, Warnings: revision.Warnings(), Empty: empty,
	}
	return inspect.Edited{Edit: revision.Command().Edit, Empty: empty, Lines: summary.Lines(), Changes: changes}, nil
}

// chartDir is the directory of a chart that may change while the chart is deployed (R46).
type chartDir struct {
	path string
	load func(context.Context) (*charts.Chart, error)

	mu     sync.Mutex
	loaded dirState // at the last load
}

// dirState identifies the content of a directory without reading its files.
type dirState struct {
	newest      time.Time
	files, size int64
}

// newChartDir returns the directory of a chart, or nil if the chart is not a directory. Changes
// are detected from now on.
func newChartDir(ref string, load func(context.Context) (*charts.Chart, error)) *chartDir {
	if !input.IsDir(ref) {
		return nil
	}
	return &chartDir{path: ref, load: load, loaded: readDirState(ref)}
}

// markLoaded records the state of the directory. Call it before a load, so that changes during
// the load are detected.
func (d *chartDir) markLoaded() {
	if d == nil {
		return
	}
	now := readDirState(d.path)
	d.mu.Lock()
	d.loaded = now
	d.mu.Unlock()
}

// changed reports whether the directory has changed since markLoaded.
func (d *chartDir) changed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return readDirState(d.path) != d.loaded
}

// readDirState reads the state of a directory. It ignores unreadable files.
func readDirState(path string) (s dirState) {
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
