package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Names of tools in figures.
const (
	lockstep = "lockstep"
	helm     = "helm"
	helmfile = "helmfile"
)

// tool is a program to measure.
type tool struct {
	name  string // in figures
	agent string // prefix of the user agent of its requests
	// find returns the path of the program, "" if it is optional and was not found.
	find func(context.Context, options) (string, error)
	// steps are its command lines for release r: install, upgrade, rollback and uninstall. A missing step is not
	// supported. CHART and NAMESPACE are placeholders.
	steps map[string]string
	// order are the annotations that order objects for this tool, as part of a template. It is used in a format string,
	// so % is written %%.
	order string
	// plain is set if the tool needs rendered objects instead of a chart, and an existing namespace.
	plain bool
	note  string // follows the tool's name in the results
}

// tools are in the order of the columns. Those after helm are rivals, which are optional.
var tools = []tool{
	{
		name: lockstep, agent: "lockstep", order: grouped,
		find: func(_ context.Context, o options) (string, error) { return findBuilt(o.lockstep) },
		steps: map[string]string{
			"install":   "install r CHART -n NAMESPACE --create-namespace --no-tui",
			"upgrade":   "upgrade r CHART -n NAMESPACE --no-tui",
			"rollback":  "rollback r 1 -n NAMESPACE --no-tui",
			"uninstall": "uninstall r -n NAMESPACE --no-tui",
		},
	},
	{
		name: helm, agent: "Helm", order: grouped, // ignored by helm
		find: func(ctx context.Context, _ options) (string, error) { return goTool(ctx, "helm") },
		steps: map[string]string{
			"install":   "install r CHART -n NAMESPACE --create-namespace",
			"upgrade":   "upgrade r CHART -n NAMESPACE",
			"rollback":  "rollback r 1 -n NAMESPACE",
			"uninstall": "uninstall r -n NAMESPACE",
		},
	},
	{
		name: "kapp", agent: "kapp", find: onPath("kapp"), plain: true,
		order: `
    kapp.k14s.io/change-group: bench/g{{ $i }}
    {{- if $i }}
    kapp.k14s.io/change-rule: upsert after upserting bench/g{{ sub $i 1 }}
    {{- end }}`,
		steps: map[string]string{
			"install":   "deploy -a r -n NAMESPACE -f CHART -y",
			"upgrade":   "deploy -a r -n NAMESPACE -f CHART -y",
			"uninstall": "delete -a r -n NAMESPACE -y",
		},
		note: "gets rendered manifests and an existing namespace; the time for both is not counted",
	},
	{
		name: "nelm", agent: "nelm", find: onPath("nelm"),
		order: `
    werf.io/weight: {{ $i | quote }}`,
		steps: map[string]string{
			"install":   "release install -r r -n NAMESPACE CHART",
			"upgrade":   "release install -r r -n NAMESPACE CHART",
			"rollback":  "release rollback -r r -n NAMESPACE 1",
			"uninstall": "release uninstall -r r -n NAMESPACE",
		},
		note: "sends at most 30 requests per second, its default",
	},
	{name: helmfile, find: onPath(helmfile), steps: map[string]string{}, note: "runs helm for each release; measured in the row of many releases only"},
}

// rivals are the optional tools.
var rivals = tools[2:]

func toolNamed(name string) tool {
	return tools[slices.IndexFunc(tools, func(t tool) bool { return t.name == name })]
}

// findBuilt returns the path of a program that make builds.
func findBuilt(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: %w; run make to build it", name, err)
	}
	return path, nil
}

// goTool returns the path of a tool of go.mod, and builds it if necessary.
func goTool(ctx context.Context, name string) (string, error) {
	path, err := exec.CommandContext(ctx, "go", "tool", "-n", name).Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return strings.TrimSpace(string(path)), nil
}

// onPath returns a find function for an optional program in the PATH.
func onPath(name string) func(context.Context, options) (string, error) {
	return func(context.Context, options) (string, error) {
		path, err := exec.LookPath(name)
		if errors.Is(err, exec.ErrNotFound) {
			return "", nil
		}
		return path, err
	}
}

// copyProgram copies a program to the benchmark's folder. All programs are measured as copies: the page cache of a file
// that a linker has just written adds up to 10 MB to the memory of its process.
func (b *benchmark) copyProgram(name, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy %s: %w", name, err)
		}
	}()
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	dir := filepath.Join(b.dir, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b.programs[name] = filepath.Join(dir, name) // the program's name is part of some user agents
	to, err := os.OpenFile(b.programs[name], os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// command returns the arguments of a tool for a step.
func command(tool, verb, chart, namespace string, more ...string) []string {
	args := strings.Fields(toolNamed(tool).steps[verb])
	for i, word := range args {
		switch word {
		case "CHART":
			args[i] = chart
		case "NAMESPACE":
			args[i] = namespace
		}
	}
	return append(args, more...)
}

// step runs a step with a tool. If a tool other than lockstep fails, step prints the error and returns ok false.
func (s *session) step(tool, verb, chart, namespace string, values ...string) (used processUsage, ok bool, err error) {
	if toolNamed(tool).plain {
		if chart, err = s.plain(verb, chart, namespace, values); err != nil {
			return used, false, err
		}
		values = nil
	}
	used, err = s.run(tool, command(tool, verb, chart, namespace, values...)...)
	if err != nil && tool != lockstep && s.ctx.Err() == nil { // its cell stays empty
		fmt.Fprintln(os.Stderr, "bench: no figure:", err)
		return used, false, nil
	}
	return used, err == nil, err
}

// plain creates the namespace and renders the chart for a plain tool. It returns the file of the objects.
func (s *session) plain(verb, chart, namespace string, values []string) (string, error) {
	if verb == "install" {
		if err := s.makeNamespace(namespace); err != nil {
			return "", err
		}
	}
	file, err := os.Create(filepath.Join(s.dir, "objects.yaml"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(s.ctx, s.programs[helm], append([]string{"template", "r", chart}, values...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, file, os.Stderr
	if err := errors.Join(cmd.Run(), file.Close()); err != nil {
		return "", fmt.Errorf("render %s: %w", chart, err)
	}
	return file.Name(), nil
}
