package cli

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lockstep/kube"
)

// chartFolder is the folder of a chart that is being deployed, which may be changed
// meanwhile (R46).
type chartFolder struct {
	path string
	load func(context.Context) (*kube.Chart, error)

	mu  sync.Mutex
	was stamp // when it was loaded last
}

// stamp tells one content of a folder from another, without reading it.
type stamp struct {
	newest      time.Time
	files, size int64
}

// folderOf is the folder that a chart is loaded from, nil where it is none. Changes
// count from now on.
func folderOf(ref string, load func(context.Context) (*kube.Chart, error)) *chartFolder {
	if info, err := os.Stat(ref); err != nil || !info.IsDir() {
		return nil
	}
	return &chartFolder{path: ref, load: load, was: stampOf(ref)}
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
	now := stampOf(f.path)
	f.mu.Lock()
	f.was = now
	f.mu.Unlock()
}

// changed reports whether the folder is another one than what was loaded last.
func (f *chartFolder) changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return stampOf(f.path) != f.was
}

// stampOf looks at all files of a folder; what cannot be looked at does not count.
func stampOf(path string) (s stamp) {
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
