package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	if err := archive.EnsureArchive(path, f); err != nil {
		return nil, err
	}
	return readArchive(f)
}

// readDir reads a chart directory as Helm's loader does: without what the
// .helmignore at its top names, following symbolic links, and up to the size
// that Helm allows.
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

// visit reads path, which lies in the directories parents, given as what they
// resolve to, so that a link to one of them is found out.
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
			return fmt.Errorf("%s: symbolic link to a directory it lies in", name)
		}
		return w.visitDir(path, append(parents, resolved))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", name)
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

func (w *walker) visitDir(path string, parents []string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.visit(filepath.Join(path, e.Name()), parents); err != nil {
			return err
		}
	}
	return nil
}
