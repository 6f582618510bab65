package helmfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// expansion runs helmfile build on a file: for its documents, if the file itself has templates, and for the values of its
// releases, if those have any.
type expansion struct {
	reader *reader
	path   string
	// parentValues are those of the file that includes it, nil for none.
	parentValues map[string]any

	mu       sync.Mutex
	selected []string // selectors of the releases that take part
	values   func() ([]*node, error)
}

// embedded returns the values of a release after helmfile has read them. at is the position of the first of its values
// that needs helmfile.
type embedded func(ctx context.Context, at position) (map[string]*node, error)

// documents returns the file with its includes, as helmfile build prints it. at is the position of the first template.
func (e *expansion) documents(at position) ([]*node, error) { return e.build(e.reader.ctx, at) }

// of returns a function that reads the values of a release of the file with helmfile. All such releases share one run,
// which reads the values of no other release.
func (e *expansion) of(s *state, f *fields, namespace string) embedded {
	if e == nil {
		return nil
	}
	name := f.text("name")
	selector := "name=" + name
	if namespace != "" {
		selector += ",namespace=" + namespace
	}
	e.selected = append(e.selected, selector)
	return func(ctx context.Context, at position) (map[string]*node, error) {
		e.mu.Lock()
		if e.values == nil {
			e.values = sync.OnceValues(func() ([]*node, error) {
				args := []string{"--embed-values"}
				for _, s := range e.selected {
					args = append(args, "--selector", s)
				}
				return e.build(ctx, at, args...)
			})
		}
		load := e.values
		e.mu.Unlock()
		docs, err := load()
		if err != nil {
			return nil, err
		}
		return findBuilt(docs, s.path, name, namespace, f)
	}
}

// findBuilt returns the keys of a release in the output of helmfile build.
func findBuilt(docs []*node, path, name, namespace string, f *fields) (found map[string]*node, err error) {
	for _, doc := range docs {
		if !sameFile(doc.source, path) {
			continue
		}
		file, err := doc.entries(wholeFile)
		if err != nil {
			return nil, err
		}
		releases, err := file["releases"].items("releases")
		if err != nil {
			return nil, err
		}
		for _, n := range releases {
			own, err := n.entries("release")
			if err != nil {
				return nil, err
			}
			if own["name"] == nil || own["name"].Value != name || namespace != "" && own["namespace"] != nil && own["namespace"].Value != namespace {
				continue
			}
			if found != nil {
				return nil, f.errorf("%s: helmfile build lists it twice; give the releases different names", f.name)
			}
			found = own
		}
	}
	if found == nil {
		return nil, f.errorf("%s: helmfile build does not list it", f.name)
	}
	return found, nil
}

// sameFile reports whether two paths name the same file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// build runs helmfile build on the file. at is the position of the first template.
func (e *expansion) build(ctx context.Context, at position, more ...string) ([]*node, error) {
	if e.path == "-" {
		return nil, at.errorf("standard input has helmfile templates; pipe the expanded file: %s", pipeHelmfile)
	}
	program, err := exec.LookPath("helmfile")
	if err != nil {
		return nil, at.errorf("templates need helmfile, which is not in PATH; install it, or expand the file on a machine that has it: helmfile build --embed-values > expanded.yaml")
	}
	args := []string{"-f", e.path, "-e", e.reader.Environment, "--quiet"}
	for _, file := range e.reader.StateValuesFiles {
		args = append(args, "--state-values-file", file)
	}
	if e.parentValues != nil {
		file, err := writeValues(e.parentValues)
		if err != nil {
			return nil, at.errorf("pass the values of helmfiles to helmfile build: %w", err)
		}
		defer func() { _ = os.Remove(file) }()
		args = append(args, "--state-values-file", file)
	}
	for _, set := range e.reader.StateValuesSet {
		args = append(args, "--state-values-set", set)
	}
	stdout, stderr := limited{most: maxOutput}, limited{most: maxMessages, drop: true}
	cmd := exec.CommandContext(ctx, program, append(append(args, "build"), more...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), disableHooks+"=true") // helmfile build runs hooks of the events prepare and cleanup
	if err := cmd.Run(); err != nil {
		if stdout.over {
			return nil, fmt.Errorf("%s: helmfile build: %w", at, errTooMuch)
		}
		var exit *exec.ExitError
		if strings.Contains(stderr.buf.String(), disableHooks) {
			return nil, at.errorf("templates need helmfile, and helmfile build would run hooks of the file while lockstep only reads it; expand it yourself " +
				"where these programs may run, and deploy the result: helmfile build --embed-values > expanded.yaml")
		}
		if errors.As(err, &exit) && stderr.buf.Len() > 0 {
			err = errors.New(strings.TrimSpace(stderr.buf.String()))
		}
		return nil, fmt.Errorf("%s: helmfile build: %w", at, err)
	}
	docs, err := parse(e.path, stdout.buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("read the output of helmfile build: %w", err)
	}
	return setSources(docs, stdout.buf.Bytes()), nil
}

// disableHooks is the environment variable with which helmfile refuses a file with hooks instead of running them.
const disableHooks = "HELMFILE_DISABLE_HOOKS"

// writeValues writes values into a temporary file, which only this user can read.
func writeValues(values map[string]any) (path string, err error) {
	text, err := yaml.Marshal(values)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "lockstep-values-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = cmp.Or(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// sourceComment is the line before each document of helmfile build; the path of its file follows.
const sourceComment = "#  Source: "

// setSources sets the source of each document of helmfile build: its paths are relative to that file. The YAML parser attaches the comments of later documents to earlier ones, so it looks for the lines.
func setSources(docs []*node, data []byte) []*node {
	lines := strings.Split(string(data), "\n")
	for _, doc := range docs {
		for i := min(doc.Line, len(lines)) - 1; i >= 0 && !strings.HasPrefix(lines[i], "---"); i-- {
			source, ok := strings.CutPrefix(lines[i], sourceComment)
			if source = strings.TrimSpace(source); ok && filepath.IsAbs(source) {
				doc.source = source
			}
		}
	}
	return docs
}
