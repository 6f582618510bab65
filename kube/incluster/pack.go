package incluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

const (
	// partSize leaves room for metadata below the limit of a Secret, 1 MiB.
	partSize = 1000 << 10
	partKey  = "part"
	// maxPacked is the maximum size of a packed task in bytes.
	maxPacked = 16 << 20
	argsFile  = ".lockstep-args.json"
	envFile   = ".lockstep-env.json"
)

// TooLarge reports whether a task does not fit into Secrets.
func (t Task) TooLarge() bool {
	size := 0
	for _, data := range t.Files {
		size += len(data)
	}
	if size < maxPacked/2 { // fits even if nothing can be compressed
		return false
	}
	_, err := t.pack()
	var large *TooLargeError
	return errors.As(err, &large)
}

// TooLargeError is the error of a task that does not fit into Secrets.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("chart and values are %.1f MiB compressed; the limit is %d MiB: push the chart to a registry and pass its oci:// reference", float64(e.Size)/(1<<20), maxPacked>>20)
}

func partName(n int) string { return fmt.Sprintf("part-%03d", n) }

// pack returns the arguments, files and secret variables of a task as parts, one for each Secret. The same input gives the same
// parts. It returns a *TooLargeError if they do not fit.
func (t Task) pack() (parts [][]byte, err error) {
	line, err := json.Marshal(t.Args)
	if err != nil {
		return nil, fmt.Errorf("pack the command line: %w", err)
	}
	env, err := json.Marshal(t.SecretEnv)
	if err != nil {
		return nil, fmt.Errorf("pack the environment: %w", err)
	}
	all := maps.Clone(t.Files)
	if all == nil {
		all = map[string][]byte{}
	}
	all[argsFile], all[envFile] = line, env
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	out := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(all[name]))}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := out.Write(all[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := errors.Join(out.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if packed.Len() > maxPacked {
		return nil, &TooLargeError{packed.Len()}
	}
	return slices.Collect(slices.Chunk(packed.Bytes(), partSize)), nil
}

// Unpack writes the files of a packed task to a directory and returns its arguments and secret variables.
func Unpack(from, into string) (args []string, env map[string]string, err error) {
	names, err := filepath.Glob(filepath.Join(from, "part-*"))
	if err != nil || len(names) == 0 {
		return nil, nil, fmt.Errorf("unpack %s: no parts: %w", from, errors.Join(err, fs.ErrNotExist))
	}
	slices.Sort(names)
	var packed bytes.Buffer
	for _, name := range names {
		part, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return nil, nil, fmt.Errorf("unpack: %w", err)
		}
		packed.Write(part)
	}
	unzipped, err := gzip.NewReader(&packed)
	if err != nil {
		return nil, nil, fmt.Errorf("unpack %s: %w", from, err)
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return nil, nil, fmt.Errorf("unpack: %w", err)
	}
	defer root.Close()
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return args, env, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("unpack %s: %w", from, err)
		}
		data, err := io.ReadAll(in)
		switch {
		case err != nil:
		case h.Name == argsFile:
			err = json.Unmarshal(data, &args)
		case h.Name == envFile:
			err = json.Unmarshal(data, &env)
		default:
			err = errors.Join(root.MkdirAll(filepath.Dir(h.Name), 0o700), root.WriteFile(h.Name, data, 0o600))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}
