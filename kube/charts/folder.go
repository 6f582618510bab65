package charts

import (
	"bytes"
	"fmt"
	"path"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
)

// Folder says where the files of a chart in the tree lie.
type Folder struct {
	// Dir is its directory below that of the chart at the top, with slashes; empty
	// for that one itself.
	Dir string
	// Archive is the file that it came packed in, or that it lies in, named like
	// Dir; empty for one that did not.
	Archive string
}

// below is the folder of a subchart.
func (f Folder) below(sub *source) Folder {
	to := Folder{Dir: path.Join(f.Dir, "charts", sub.name), Archive: f.Archive}
	if sub.packed && f.Archive == "" {
		to.Archive = to.Dir + ".tgz"
	}
	return to
}

// Folders says where the files of each chart lie, by chart path. Two uses of one
// chart, by aliases, have one folder.
func (c *Chart) Folders(values map[string]any) (map[string]Folder, error) {
	_, b, err := c.walk(values)
	if err != nil {
		return nil, err
	}
	return b.folders, nil
}

// LoadWith loads the chart in a directory as if some of its files, named by their
// path below it with slashes, had other contents.
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
