package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path"
)

// Archive returns the chart as a package that Helm reads, made of the files as they are now.
func (c *Chart) Archive() ([]byte, error) {
	info, err := os.Stat(c.path)
	if err != nil {
		return nil, fmt.Errorf("package chart %s: %w", c.path, err)
	}
	if !info.IsDir() {
		return os.ReadFile(c.path)
	}
	files, err := readDir(c.path)
	if err != nil {
		return nil, fmt.Errorf("package chart %s: %w", c.path, err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	out := tar.NewWriter(zip)
	for _, f := range files {
		err := out.WriteHeader(&tar.Header{Name: path.Join(c.Name(), f.Name), Mode: 0o644, Size: int64(len(f.Data))})
		if err == nil {
			_, err = out.Write(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("package chart %s: %s: %w", c.path, f.Name, err)
		}
	}
	if err := errors.Join(out.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("package chart %s: %w", c.path, err)
	}
	return packed.Bytes(), nil
}
