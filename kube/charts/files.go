package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/ignore"
)

var utf8bom = []byte{0xEF, 0xBB, 0xBF}

// readPath reads the files of the chart at path, a directory or an archive.
func readPath(path string) ([]*archive.BufferedFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readDir(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if archive.EnsureArchive(path, f) != nil {
		return nil, errors.New("not a chart archive (.tgz); check the file, or download it again")
	}
	return readArchive(f)
}

// readDir reads a chart directory like Helm's loader: it skips the files that .helmignore lists,
// follows symbolic links, and applies Helm's size limit.
func readDir(dir string) ([]*archive.BufferedFile, error) {
	top, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	rules, err := ignoreRules(top)
	if err != nil {
		return nil, err
	}
	w := &walker{top: top, rules: rules, budget: archive.NewBudgetedReader(archive.MaxDecompressedChartSize)}
	if err := w.visit(top, nil); err != nil {
		return nil, err
	}
	if info, err := os.Stat(filepath.Join(top, chartFile)); err == nil && rules.Ignore(chartFile, info) {
		return nil, fmt.Errorf("%s excludes %s; correct its patterns: one that starts with ! excludes all other files", ignore.HelmIgnore, chartFile)
	}
	return w.files, nil
}

func ignoreRules(top string) (*ignore.Rules, error) {
	rules, err := ignore.ParseFile(filepath.Join(top, ignore.HelmIgnore))
	if errors.Is(err, fs.ErrNotExist) {
		rules, err = ignore.Empty(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
	}
	rules.AddDefaults()
	return rules, nil
}

// walker collects the files below a directory.
type walker struct {
	top    string
	rules  *ignore.Rules
	budget *archive.BudgetedReader
	files  []*archive.BufferedFile
}

// visit reads the file or directory at path. parents are its parent directories with symbolic
// links resolved; a link to one of them is an error.
func (w *walker) visit(path string, parents []string) error {
	name, err := filepath.Rel(w.top, path)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return err
	}
	if name != "." && w.rules.Ignore(name, info) {
		return nil
	}
	if info.IsDir() {
		if slices.Contains(parents, resolved) {
			return fmt.Errorf("%s: symbolic link to a parent directory; remove it, or list it in .helmignore", name)
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		parents = append(parents, resolved)
		for _, e := range entries {
			if err := w.visit(filepath.Join(path, e.Name()), parents); err != nil {
				return err
			}
		}
		return nil
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file; remove it, or list it in .helmignore", name)
	}
	data, err := w.budget.ReadFileWithBudget(path, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.files = append(w.files, &archive.BufferedFile{
		Name: name, ModTime: info.ModTime(), Data: bytes.TrimPrefix(data, utf8bom),
	})
	return nil
}

// Folder is the location of a chart's files.
type Folder struct {
	// Dir is relative to the directory of the root chart, with slashes; "" for the root.
	Dir string
	// Archive is the outermost archive that contains the chart, relative like Dir; "" if
	// the chart is not in an archive.
	Archive string
}

// below returns the folder of a subchart.
func (f Folder) below(sub *chartFiles) Folder {
	to := Folder{Dir: path.Join(f.Dir, "charts", sub.name), Archive: f.Archive}
	if sub.packed && f.Archive == "" {
		to.Archive = to.Dir + ".tgz"
	}
	return to
}

// Folders returns the folder of each chart by chart path. Two aliases of one chart have the
// same folder.
func (c *Chart) Folders(values map[string]any) (map[string]Folder, error) {
	_, b, err := c.buildTree(values)
	if err != nil {
		return nil, err
	}
	return b.folders, nil
}

// LoadWith loads the chart in a directory, but replaces the contents of some files. The keys of
// contents are paths relative to dir, with slashes.
func LoadWith(dir string, contents map[string][]byte) (*Chart, error) {
	files, err := readDir(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	for i, f := range files {
		if data, ok := contents[f.Name]; ok {
			files[i] = &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: bytes.TrimPrefix(data, utf8bom)}
		}
	}
	return fromFiles(dir, files)
}

// Save writes the chart into dir, normalised (R1, R34a) and with its archives unpacked. Helm's lint
// needs that, because it loads charts from disk. Save creates dir.
func (c *Chart) Save(dir string) error {
	if err := c.root.save(dir); err != nil {
		return fmt.Errorf("chart %s: save: %w", c.path, err)
	}
	return nil
}

func (cf *chartFiles) save(dir string) error {
	for _, f := range cf.files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}
	for _, sub := range cf.subs {
		if err := sub.save(filepath.Join(dir, "charts", sub.name)); err != nil {
			return err
		}
	}
	return nil
}

// CopyBroken is like Save for a chart that cannot be loaded: it copies the directory at path
// into dir, with each Chart.yaml and requirements.yaml normalised, and returns the path of the
// copy. If path is not a readable directory, CopyBroken returns path, and Helm reports the error.
func CopyBroken(path, dir string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return path, nil
	}
	dir = filepath.Join(dir, filepath.Base(abs))
	if os.CopyFS(dir, os.DirFS(abs)) != nil {
		return path, nil
	}
	return dir, filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() != chartFile && d.Name() != requirementsFile {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var f unsupportedFields
		return os.WriteFile(file, f.extract(d.Name(), data), 0o644)
	})
}
