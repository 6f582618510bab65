package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// file is a file of an archive, with data, or else with the content of the file from.
type file struct {
	name, from string
	data       []byte
	program    bool
}

func (f file) content() ([]byte, error) {
	if f.data != nil {
		return f.data, nil
	}
	return os.ReadFile(f.from)
}

func (f file) mode() fs.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

// treeOf returns the files below a directory, with names below the folder "below".
func treeOf(dir, below string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, from)
		files = append(files, file{name: path.Join(below, filepath.ToSlash(inside)), from: from})
		return err
	})
	return files, err
}

// writeArchive writes the archive of a platform, and sets its sum.
func (r *release) writeArchive(p *platform) error {
	files := append([]file{{name: p.program(), from: p.binary, program: true}}, r.common...)
	pack := tarGz
	if p.os == "windows" {
		pack = zipped
	}
	data, err := pack(files, r.time)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	p.sum = hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(r.dist, p.archive), data, 0o644)
}

// tarGz returns a compressed archive. All files belong to root and have the same time.
func tarGz(files []file, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode()), Size: int64(len(data)), ModTime: modified.UTC(), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return out.Bytes(), err
}

// zipped returns a ZIP archive.
func zipped(files []file, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		data, err := f.content()
		if err != nil {
			return nil, err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified.UTC()}
		h.SetMode(f.mode())
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
