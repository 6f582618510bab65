// Package helmfile reads helmfiles: the releases in them with their charts, values and needs (S1).
// It reads plain YAML itself and runs helmfile for files with templates. The central types are File
// and Release. Packages kube and kube/stack import it.
package helmfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/kube/mask"
	"lockstep/kube/readiness"
)

// Options select the file to read and the releases in it.
type Options struct {
	// Path is a file, a directory with a helmfile.yaml, helmfile.yaml.gotmpl or
	// helmfile.d, "-" for standard input, or "" for the working directory.
	Path  string
	Stdin io.Reader
	// Environment is the name of the environment, "" for "default".
	Environment string
	// Selectors select releases by labels, as helmfile's -l does. A release must match at least one of them. Without
	// selectors, all releases are selected.
	Selectors []string
	// StateValuesFiles and StateValuesSet override values of the environment. In files without templates, only
	// conditions use these values.
	StateValuesFiles, StateValuesSet []string
	// Namespace and Context, if set, are those of all releases, as with helmfile's flags.
	Namespace, Context string
	// Lenient makes a warning of an unsupported key that cannot change what is deployed.
	Lenient bool
}

// File is a helmfile with all files that it includes.
type File struct {
	// Path is the file that was read.
	Path         string
	Environment  string
	Repositories []Repository
	// Releases are in the order of the file, after those of included files.
	Releases []Release
	// Others are excluded by a condition, a selector or the environment. A stack does not touch them. They have no chart and
	// no values.
	Others []Release
	// Unread says which included files were not read, so that their releases are unknown.
	Unread    []Unread
	Selectors []string // from the options
	// Hooks are those of the files themselves, in the order of the files (S11a).
	Hooks []Hook
	// Warnings are about needs on releases that are not installed, and about ignored keys.
	Warnings []string
}

// Unread is a file that includes others that were not read: Missing, if it is set, which does not exist; else all of them,
// because File does not define the environment.
type Unread struct{ File, Missing string }

// Source returns the path for messages.
func (f *File) Source() string {
	if f.Path == "-" {
		return "standard input"
	}
	return f.Path
}

// Repository is a chart repository.
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
}

// Release is a release of a helmfile, with all defaults filled in.
type Release struct {
	// Name, Namespace and Context identify the release. If Namespace or Context is empty, the connection decides.
	Name, Namespace, Context string
	// FallbackContext is the context of the environment, for a release without a Context. It is
	// not part of the ID.
	FallbackContext string
	// Chart is the absolute path of a directory, repository/name, a URL or oci://…. Only installed releases have one.
	Chart, Version string
	// Needs are the IDs of releases that it waits for. After are the IDs of releases that it follows only because
	// helmfile runs their file first.
	Needs, After []string
	// Installed is false for a release to remove.
	Installed bool
	Labels    map[string]string

	Timeout                  time.Duration // 0 for the default
	CreateNamespace          bool
	RollbackOnFailure        bool
	WaitForJobs              bool
	CleanupOnFail            bool
	NoHooks                  bool
	SkipSchemaValidation     bool
	ReuseValues              bool
	TakeOwnership            bool
	DisableOpenAPIValidation bool
	SkipCRDs                 bool
	Devel                    bool
	Verify                   bool
	EnableDNS                bool
	HistoryMax               int
	// StoreLabels stores the labels in the release record.
	StoreLabels bool
	SkipDeps    bool
	// ContinueOnError lets releases that do not need it start after it has failed (S5).
	ContinueOnError bool
	Description     string
	PostRenderer    string
	PostRenderArgs  []string
	// Folder is the directory of its file, At is its position, file:line.
	Folder string
	At     string
	// WaitFor are the objects outside the release that its first groups wait for (R22d).
	WaitFor []string
	Test    bool // run the chart's tests at the end of the release (S11)
	// Approve is why the release is deployed only once somebody approves it, see plan.ReadApprove (R42a).
	Approve string
	// Hooks are in the order of the file (S11a).
	Hooks []Hook
	// Readiness says when its objects are ready, instead of its chart (R22b).
	Readiness []readiness.Override
	position  position
	values    *values   // nil unless it is installed
	excluded  exclusion // why it is in File.Others
	// secretPaths are the places of values that were decrypted before Packed.
	secretPaths mask.Paths
}

// ID returns [context/]namespace/name, or only the name if the release has neither of the others. It is unique in a File.
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

// Read reads a helmfile. Its errors name the file and, if possible, the line.
func Read(ctx context.Context, o Options) (*File, error) {
	o.Environment = cmp.Or(o.Environment, "default")
	paths, err := findFiles(o.Path)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, Options: o, programs: &programs{}}
	stateValues, err := r.stateValues()
	if err != nil {
		return nil, err
	}
	all := &result{}
	for _, path := range paths {
		f, err := r.readFile(path, nil, stateValues, o.Selectors, nil)
		if err != nil {
			return nil, err
		}
		all.add(f)
	}
	out := &File{Path: o.Path, Environment: o.Environment, Selectors: o.Selectors}
	out.Repositories, out.Releases, out.Others, out.Unread, out.Hooks = all.repositories, all.releases, r.others, r.unread, all.hooks
	slices.Sort(r.ignored)
	out.Warnings = slices.Compact(r.ignored)
	if len(paths) == 1 {
		out.Path = paths[0]
	}
	if !all.environmentKnown && o.Environment != "default" {
		return nil, fmt.Errorf("%s: environment %q is not defined: add it under environments, or choose another with -e", out.Path, o.Environment)
	}
	if err := out.checkUnique(); err != nil {
		return nil, err
	}
	return out, out.resolveNeeds(o.Namespace)
}

// fileNames are the names of a helmfile in a directory, in order of precedence.
var fileNames = []string{"helmfile.yaml", "helmfile.yaml.gotmpl", "helmfile.d"}

// Exists reports whether a directory has a helmfile.
func Exists(dir string) bool {
	_, err := findFiles(dir)
	return err == nil
}

// findFiles returns the path itself or, for a directory, the helmfiles in it.
func findFiles(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(filepath.Clean(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read helmfile %s: no such file; check the path", path)
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
		if path = filepath.Clean(path); path == "." {
			path = "the current directory"
		}
		return nil, fmt.Errorf("no helmfile in %s (%s); name one with -f", path, strings.Join(fileNames, ", "))
	}
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.yaml.gotmpl", "*.yml.gotmpl"} {
		found, _ := filepath.Glob(filepath.Join(path, pattern)) // the pattern is valid
		files = append(files, found...)
	}
	if slices.Sort(files); len(files) == 0 {
		return nil, fmt.Errorf("no helmfile in %s; add a .yaml or .yaml.gotmpl file, or name a file with -f", path)
	}
	return files, nil
}

// checkUnique returns an error for two releases with the same ID.
func (f *File) checkUnique() error {
	at := map[string]string{}
	for _, r := range f.Releases {
		if other, ok := at[r.ID()]; ok {
			return fmt.Errorf("%s: release %s is already defined at %s: change the name or namespace of one", r.At, r.ID(), other)
		}
		at[r.ID()] = r.At
	}
	return nil
}
