package charts

import (
	"compress/gzip"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
)

// maxArchive is how much an archive may unpack to, in bytes, headers included.
// Helm's limit counts only what is in the files: of millions of empty ones, which
// pack into a few MiB, it would keep all in memory.
const maxArchive = 2 * archiveLimit

// readArchive reads the files of a packed chart. Nothing is written anywhere: a
// link or a device in it is an empty file, as in Helm, and names that lead out of
// the chart are refused.
func readArchive(r io.ReadSeeker) ([]*archive.BufferedFile, error) {
	if size := unpackedSize(r); size > maxArchive {
		return nil, fmt.Errorf("the archive unpacks to more than %s", quantity(maxArchive))
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return archive.LoadArchiveFiles(r)
}

// unpackedSize is how much an archive unpacks to, as far as it can be read, and no
// more than is needed to know that it is too much.
func unpackedSize(r io.Reader) int64 {
	z, err := gzip.NewReader(r)
	if err != nil {
		return 0
	}
	defer z.Close()
	n, _ := io.Copy(io.Discard, io.LimitReader(z, maxArchive+1)) // what is wrong is found again when it is read
	return n
}
