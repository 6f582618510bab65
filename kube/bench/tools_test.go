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

// The tools that lockstep is judged by, as figures name them.
const (
	lockstep = "lockstep"
	helm     = "helm"
	helmfile = "helmfile"
)

// tool is a program that is measured.
type tool struct {
	name  string // as figures have it, and the user agent of its requests begins with agent
	agent string
	// find returns the path of the program, or "" where it is not there and need not be.
	find func(context.Context, options) (string, error)
	// steps are its command lines, by what becomes of release r: what has none it
	// cannot do. CHART and NAMESPACE are words that stand for those.
	steps map[string]string
	// order is how objects of a chart's template ask it to keep them in order, as part
	// of a format: a % is two there.
	order string
	// plain has it get objects instead of a chart, and a namespace that is there. Both
	// are made for it beforehand.
	plain bool
	note  string // what the reader of its figures has to know
}

// tools are in the order of the columns. Those after helm are rivals: they are
// measured where they are there.
var tools = []tool{
	{
		name: lockstep, agent: "lockstep", order: grouped,
		find: func(_ context.Context, o options) (string, error) { return built(o.lockstep) },
		steps: map[string]string{
			"install":   "install r CHART -n NAMESPACE --create-namespace --no-tui",
			"upgrade":   "upgrade r CHART -n NAMESPACE --no-tui",
			"rollback":  "rollback r 1 -n NAMESPACE --no-tui",
			"uninstall": "uninstall r -n NAMESPACE --no-tui",
		},
	},
	{
		name: helm, agent: "Helm", order: grouped, // which it knows nothing of
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

// rivals are the tools that need not be there.
var rivals = tools[2:]

func named(name string) tool {
	return tools[slices.IndexFunc(tools, func(t tool) bool { return t.name == name })]
}

// built finds a program that make builds.
func built(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w; make builds it", name, err)
	}
	return path, nil
}

// goTool builds a tool of go.mod where that has not been done yet.
func goTool(ctx context.Context, name string) (string, error) {
	path, err := exec.CommandContext(ctx, "go", "tool", "-n", name).Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return strings.TrimSpace(string(path)), nil
}

func onPath(name string) func(context.Context, options) (string, error) {
	return func(context.Context, options) (string, error) {
		path, err := exec.LookPath(name)
		if errors.Is(err, exec.ErrNotFound) {
			return "", nil
		}
		return path, err
	}
}

// adopt makes a copy of a program in the benchmark's folder the one that is measured.
// The pages of a file that a linker has just written lie otherwise in the page cache
// than those of a copy, and up to 10 MB more of them count as memory of the process.
// So all of them are copies.
func (b *benchmark) adopt(name, path string) (err error) {
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
	b.programs[name] = filepath.Join(dir, name) // clients of the API take their user agent from that
	to, err := os.OpenFile(b.programs[name], os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// command is the command line of a tool for one step in the life of release r.
func command(tool, verb, chart, namespace string, more ...string) []string {
	args := strings.Fields(named(tool).steps[verb])
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

// step has a tool take one step in the life of release r. Only lockstep has to come
// through: of another tool there is no figure then, which is said, and ok is false.
func (s *session) step(tool, verb, chart, namespace string, values ...string) (used spent, ok bool, err error) {
	if named(tool).plain {
		if chart, err = s.plain(verb, chart, namespace, values); err != nil {
			return used, false, err
		}
		values = nil
	}
	used, err = s.run(tool, command(tool, verb, chart, namespace, values...)...)
	if err != nil && tool != lockstep && s.ctx.Err() == nil { // the table shows that there is none
		fmt.Fprintln(os.Stderr, "bench: no figure:", err)
		return used, false, nil
	}
	return used, err == nil, err
}

// plain does for a plain tool what the others do themselves, and returns the file of
// the chart's objects.
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
