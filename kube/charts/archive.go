package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
)

// Archive reads the chart from disk again and returns it as a .tgz. It packs a directory without
// modification times, so that the same files always give the same bytes, and returns an archive
// unchanged.
func (c *Chart) Archive() ([]byte, error) {
	const keepTimes = false
	packed, err := pack(c.path, c.Name(), keepTimes)
	if err != nil {
		return nil, fmt.Errorf("package chart %s: %w", c.path, err)
	}
	return packed, nil
}

// pack returns a .tgz archive of the chart at chartPath, with modification times if keepTimes is
// set. It returns an archive unchanged, because packing it again would change its digest.
func pack(chartPath, name string, keepTimes bool) ([]byte, error) {
	if info, err := os.Stat(chartPath); err != nil || !info.IsDir() {
		return os.ReadFile(chartPath)
	}
	files, err := readDir(chartPath)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	out := tar.NewWriter(compressed)
	for _, f := range files {
		if !keepTimes {
			f.ModTime = time.Time{}
		}
		err := out.WriteHeader(&tar.Header{
			Name: path.Join(name, f.Name), Mode: 0o644, Size: int64(len(f.Data)), ModTime: f.ModTime,
		})
		if err == nil {
			_, err = out.Write(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	err = errors.Join(out.Close(), compressed.Close())
	return packed.Bytes(), err
}

// maxArchive limits the unpacked size of an archive, in bytes, including headers. Helm's limit
// counts only file contents, so Helm would read millions of empty files into memory from an
// archive of a few MiB.
const maxArchive = 2 * archiveLimit

// readArchive reads the files of a packed chart into memory. As in Helm, a link or a device is
// an empty file, and a path that leads out of the chart is an error.
func readArchive(r io.ReadSeeker) ([]*archive.BufferedFile, error) {
	if size := unpackedSize(r); size > maxArchive {
		return nil, fmt.Errorf("the archive unpacks to more than %s", formatBytes(maxArchive))
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return archive.LoadArchiveFiles(r)
}

// unpackedSize returns the unpacked size of an archive in bytes, up to the first read error
// and at most maxArchive+1.
func unpackedSize(r io.Reader) int64 {
	z, err := gzip.NewReader(r)
	if err != nil {
		return 0
	}
	defer z.Close()
	n, _ := io.Copy(io.Discard, io.LimitReader(z, maxArchive+1)) // LoadArchiveFiles reports the error
	return n
}
