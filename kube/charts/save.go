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
