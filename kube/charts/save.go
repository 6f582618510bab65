package charts

import (
	"fmt"
	"os"
	"path/filepath"
)

// Save writes the chart, normalised (R1, R34a), into dir, which is made where
// it is not there. Helm's own lint and dependency commands, which load charts
// from disk, can work on that copy. Charts that came packed are unpacked.
func (c *Chart) Save(dir string) error {
	if err := c.src.save(dir); err != nil {
		return fmt.Errorf("chart %s: save: %w", c.path, err)
	}
	return nil
}

func (s *source) save(dir string) error {
	for _, f := range s.files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}
	for _, sub := range s.subs {
		if err := sub.save(filepath.Join(dir, "charts", sub.name)); err != nil {
			return err
		}
	}
	return nil
}

// CopyUnloaded is Save for a chart that cannot be loaded: it copies the directory
// at path below dir, with each Chart.yaml normalised, and returns the copy's path.
// What is no readable directory stays where it is, for Helm to say what is wrong.
func CopyUnloaded(path, dir string) (string, error) {
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
		if err != nil || !d.Type().IsRegular() || d.Name() != "Chart.yaml" && d.Name() != "requirements.yaml" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var f facts
		return os.WriteFile(file, f.take(data), 0o644)
	})
}
