// Package helmfile reads a helmfile.yaml: which releases it describes, with which charts
// and values, and what each of them needs (S1). Plain YAML is read here; files that need
// helmfile's templates are expanded by helmfile itself, see expand.go. The central types
// are File, what was read, and Release. Packages kube and kube/stack import it.
package helmfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say which file to read, and how.
type Options struct {
	// Path is a file, a directory with a helmfile.yaml, helmfile.yaml.gotmpl or
	// helmfile.d, "-" for standard input, or "" for the working directory.
	Path  string
	Stdin io.Reader
	// Environment is the name of an environment, "" for "default".
	Environment string
	// Selectors choose releases by their labels, as helmfile's -l does. Releases that any
	// of them matches are chosen; none choose all.
	Selectors []string
	// StateValuesFiles and StateValuesSet are values of the environment, over those of the
	// file. Only conditions see them here; templates are expanded by helmfile.
	StateValuesFiles, StateValuesSet []string
	// Namespace and Context replace those of all releases, as helmfile's flags do.
	Namespace, Context string
}

// File is a helmfile and everything that it includes.
type File struct {
	// Path is what was read, as it was given or found.
	Path         string
	Environment  string
	Repositories []Repository
	// Releases are in the order of the file, those of included files first.
	Releases []Release
	// Others are disabled by a condition, or excluded by a selector: they stay as they are.
	Others []Release
}

// Repository is a chart repository that charts are named by.
type Repository struct {
	Name            string `yaml:"name"`
	URL             string `yaml:"url"`
	OCI             bool   `yaml:"oci"`
	Username        string `yaml:"username"`
	Password        string `yaml:"password"`
	CertFile        string `yaml:"certFile"`
	KeyFile         string `yaml:"keyFile"`
	CAFile          string `yaml:"caFile"`
	PassCredentials bool   `yaml:"passCredentials"`
	SkipTLSVerify   bool   `yaml:"skipTLSVerify"`
	PlainHTTP       bool   `yaml:"plainHttp"`
	position        position
}

// Release is a release of a helmfile, with all defaults filled in.
type Release struct {
	// Name, Namespace and Context identify it. Namespace and Context may be empty: those of
	// the connection.
	Name, Namespace, Context string
	// FallbackContext is that of the environment, for a release without a Context. It is no
	// part of the ID.
	FallbackContext string
	// Chart is a directory with an absolute path, repository/name, a URL or oci://….
	Chart, Version string
	// Needs are the IDs of the releases that it waits for, After those that it follows only
	// because helmfile runs their file first.
	Needs, After []string
	// Installed is false for a release to remove.
	Installed bool
	Labels    map[string]string
	// Values are merged in this order; the last wins.
	Values []ValuesSource

	Timeout         time.Duration // 0 for the default
	CreateNamespace bool
	RollbackOnFail  bool
	WaitForJobs     bool
	CleanupOnFail   bool
	NoHooks         bool
	SkipSchema      bool
	ReuseValues     bool
	TakeOwnership   bool
	NoOpenAPI       bool
	SkipCRDs        bool
	Devel           bool
	Verify          bool
	EnableDNS       bool
	HistoryMax      int
	// StoreLabels stores the labels in the release's record.
	StoreLabels    bool
	SkipDeps       bool
	Description    string
	PostRenderer   string
	PostRenderArgs []string
	// Folder is where its file is, and At the line.
	Folder string
	At     string
	file   string
	line   int
}

// ID is the release's name among all releases: [context/]namespace/name. The context is
// there if the file names one, the namespace unless both are empty.
func (r Release) ID() string { return id(r.Context, r.Namespace, r.Name) }

func id(context, namespace, name string) string {
	switch {
	case context != "":
		return context + "/" + namespace + "/" + name
	case namespace != "":
		return namespace + "/" + name
	}
	return name
}

// Read reads a helmfile. The errors name the file and the line.
func Read(ctx context.Context, o Options) (*File, error) {
	if o.Environment == "" {
		o.Environment = "default"
	}
	paths, err := findFiles(o.Path)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, Options: o}
	out := &File{Path: o.Path, Environment: o.Environment}
	if len(paths) == 1 {
		out.Path = paths[0]
	}
	stateValues, err := r.stateValues()
	if err != nil {
		return nil, err
	}
	var known bool
	for _, path := range paths {
		f, err := r.readFile(path, nil, stateValues, o.Selectors, nil)
		if err != nil {
			return nil, err
		}
		known = known || f.environmentKnown
		out.Repositories = append(out.Repositories, f.repositories...)
		out.Releases = append(out.Releases, f.releases...)
	}
	if !known && o.Environment != "default" {
		return nil, fmt.Errorf("%s: environment %q is not defined: add it under environments, or choose another with -e", out.Path, o.Environment)
	}
	out.Others = r.others
	return out, out.check()
}

// fileNames of a helmfile in a directory, in the order in which they are looked for.
var fileNames = []string{"helmfile.yaml", "helmfile.yaml.gotmpl", "helmfile.d"}

// Exists reports whether a directory has a helmfile.
func Exists(dir string) bool {
	_, err := findFiles(dir)
	return err == nil
}

// findFiles returns the files that a path stands for.
func findFiles(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(filepath.Clean(path))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the helmfile: %w", err)
	case !info.IsDir():
		return []string{path}, nil
	case filepath.Base(filepath.Clean(path)) != "helmfile.d":
		for _, name := range fileNames {
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				return findFiles(filepath.Join(path, name))
			}
		}
		return nil, fmt.Errorf("no helmfile in %s (%s); name one with -f", displayDir(path), strings.Join(fileNames, ", "))
	}
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.yaml.gotmpl", "*.yml.gotmpl"} {
		found, _ := filepath.Glob(filepath.Join(path, pattern)) // the pattern is valid
		files = append(files, found...)
	}
	if slices.Sort(files); len(files) == 0 {
		return nil, fmt.Errorf("no helmfile in %s (*.yaml)", path)
	}
	return files, nil
}

// displayDir names a searched folder in an error.
func displayDir(path string) string {
	if path = filepath.Clean(path); path == "." {
		return "the current directory"
	}
	return path
}

// check refuses releases of the same name and needs of unknown ones.
func (f *File) check() error {
	at := map[string]string{}
	for _, r := range f.Releases {
		if other, ok := at[r.ID()]; ok {
			return fmt.Errorf("%s: release %s is already defined at %s: change the name or namespace of one", r.At, r.ID(), other)
		}
		at[r.ID()] = r.At
	}
	return nil
}
