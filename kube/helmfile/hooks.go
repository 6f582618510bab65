package helmfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// The events at which hooks run, in the order of a run.
const (
	Prepare       = "prepare"
	Preapply      = "preapply"
	Presync       = "presync"
	Preuninstall  = "preuninstall"
	Postuninstall = "postuninstall"
	Postsync      = "postsync"
	Cleanup       = "cleanup"
)

// rerunKey is the key of a hook that runs again although it succeeded before the run was killed.
const rerunKey = "lockstep/rerun"

// noReturnKey is the key of a hook that is a point of no return.
const noReturnKey = plan.AnnotationNoReturn

var (
	globalEvents  = []string{Prepare, Cleanup}
	releaseEvents = []string{Prepare, Preapply, Presync, Preuninstall, Postuninstall, Postsync, Cleanup}
)

// Hook is a program that runs at events of a run (S11a).
type Hook struct {
	// Name is its name in the file, or made from its command.
	Name   string
	Events []string
	// ShowLogs prints its output without the screen, too.
	ShowLogs bool
	// Rerun means that it runs again even if it succeeded before the run was killed.
	Rerun bool
	// NoReturn is why nothing may go back once it has succeeded, "" if it may (R33a).
	NoReturn string
	// Folder is the folder of its file, in which it runs. At is its position, file:line.
	Folder, At string
	// Image makes the hook a Job in the cluster, nil for a program on this machine.
	Image   *Image
	command string // a template, like args
	args    []string
	data    map[string]any // for the templates
}

// Program is a command line. With an Image, an empty Command is that of the image.
type Program struct {
	Command string
	Args    []string
	Image   *Image
}

// At is when a hook runs.
type At struct {
	Event string
	// Command is the command of helmfile that would run it: sync, apply, delete or destroy.
	Command string
	// Err is why the release, or the run, failed; nil if it did not.
	Err error
}

// Program returns the command line of a hook.
func (h Hook) Program(at At) (p Program, err error) {
	data := maps.Clone(h.data)
	data["Event"], data["HelmfileCommand"] = map[string]any{"Name": at.Event, "Error": at.Err}, at.Command
	if at.Err == nil { // not an interface with a nil pointer
		data["Event"] = map[string]any{"Name": at.Event, "Error": nil}
	}
	texts := append([]string{h.command}, h.args...)
	for i, text := range texts {
		if texts[i], err = h.render(text, data); err != nil {
			return p, fmt.Errorf("%s: hook %s, event %s: %w", h.At, h.Name, at.Event, err)
		}
	}
	p = Program{Command: texts[0], Args: texts[1:]}
	if h.Image != nil {
		if p.Image, err = h.Image.rendered(func(text string) (string, error) { return h.render(text, data) }); err != nil {
			return p, fmt.Errorf("%s: hook %s, event %s: %w", h.At, h.Name, at.Event, err)
		}
	}
	return p, nil
}

func (h Hook) render(text string, data map[string]any) (string, error) {
	t, err := template.New("hook").Option("missingkey=error").Funcs(h.functions(data)).Parse(text)
	if err != nil {
		return "", fmt.Errorf("the template %q: %w", text, err)
	}
	var out strings.Builder
	if err := t.Execute(&out, data); err != nil {
		return "", fmt.Errorf("the template %q: %w", text, err)
	}
	return out.String(), nil
}

// functions returns the functions of the templates: Sprig's, and those of helmfile that neither run programs nor fetch secrets.
func (h Hook) functions(data map[string]any) template.FuncMap {
	f := sprig.TxtFuncMap()
	path := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(h.Folder, name)
	}
	is := func(dir bool) func(string) bool {
		return func(name string) bool {
			info, err := os.Stat(path(name))
			return err == nil && info.IsDir() == dir
		}
	}
	f["isFile"], f["isDir"] = is(false), is(true)
	f["readFile"] = func(name string) (string, error) {
		text, err := os.ReadFile(path(name))
		return string(text), err
	}
	f["requiredEnv"] = func(name string) (string, error) {
		if value := os.Getenv(name); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	f["required"] = func(message string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	f["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	f["fromYaml"] = func(text string) (out map[string]any, err error) { return out, yaml.Unmarshal([]byte(text), &out) }
	f["tpl"] = func(text string, more any) (string, error) {
		if values, ok := more.(map[string]any); ok {
			return h.render(text, values)
		}
		return h.render(text, data)
	}
	for _, name := range []string{"exec", "envExec", "fetchSecretValue", "expandSecretRefs"} {
		f[name] = func(...any) (string, error) {
			return "", fmt.Errorf("lockstep does not have helmfile's function %s; call the program in the hook itself", name)
		}
	}
	return f
}

// readGlobalHooks returns the hooks of a file, then those of the files that it includes.
func (r *reader) readGlobalHooks(s *state, values map[string]any, included []Hook) ([]Hook, error) {
	own, err := readHooks("", s, s.hooks, globalEvents, map[string]any{
		"Environment": r.environmentData(s, values), "Namespace": cmp.Or(r.Namespace, s.scalars["namespace"]),
	})
	return append(own, included...), err
}

// readReleaseHooks reads the hooks of a release.
func (r *reader) readReleaseHooks(s *state, f *fields, rel Release, values map[string]any) ([]Hook, error) {
	items, err := f.own["hooks"].items(f.name + ": hooks")
	if err != nil {
		return nil, err
	}
	return readHooks(f.name+": ", s, items, releaseEvents, map[string]any{
		"Environment": r.environmentData(s, values), "Namespace": r.Namespace, "Values": values,
		"Release": map[string]any{
			"Name": rel.Name, "Namespace": rel.Namespace, "KubeContext": rel.Context, "Labels": allLabels(rel, f.text("chart")),
			"Chart": f.text("chart"), "Version": f.text("version"), "Installed": rel.Installed,
		},
	})
}

func (r *reader) environmentData(s *state, values map[string]any) map[string]any {
	return map[string]any{"Name": r.Environment, "KubeContext": s.environments[r.Environment].context, "Values": values}
}

// readHooks reads a list of hooks, which may have these events. what names their release in errors.
func readHooks(what string, s *state, items []*node, events []string, data map[string]any) (all []Hook, err error) {
	for _, n := range items {
		h := Hook{At: n.at().String(), data: data}
		if h.Folder, err = filepath.Abs(filepath.Dir(s.path)); err != nil {
			return nil, err
		}
		if err := h.read(what, n, events); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

func (h *Hook) read(what string, n *node, events []string) error {
	own, err := n.mapping(what+"hook", hookKeys)
	if err != nil {
		return err
	}
	f := &fields{node: n, name: what + "hook", own: own}
	h.Name, h.command, h.ShowLogs, h.Rerun = f.text("name"), f.text("command"), f.boolean("showlogs", false), f.boolean(rerunKey, false)
	h.NoReturn = plan.ReadNoReturn(map[string]string{noReturnKey: f.text(noReturnKey)})
	f.read("args", &h.args)
	f.read("events", &h.Events)
	if f.err != nil {
		return f.err
	}
	if kubectl := own["kubectlApply"]; !kubectl.isNull() {
		if err := h.readKubectl(what, kubectl); err != nil {
			return err
		}
	}
	if image := own[ImageKey]; !image.isNull() {
		if !own["kubectlApply"].isNull() {
			return n.errorf("%skubectlApply reads files of this machine, which an image does not have: use command and args, or remove %s", what, ImageKey)
		}
		if err := h.readImage(what, image); err != nil {
			return err
		}
	}
	switch {
	case h.Name == "" && h.command == "" && h.Image != nil:
		h.Name = "image"
	case h.Name != "" || h.command == "":
	case hasTemplate(h.command):
		h.Name = "hook"
	default:
		h.Name = filepath.Base(strings.TrimSpace(h.command))
	}
	switch unknown := slices.DeleteFunc(slices.Clone(h.Events), func(e string) bool { return slices.Contains(events, e) }); {
	case h.command == "" && h.Image == nil:
		return n.errorf("%shook: it has no command", what)
	case len(h.Events) == 0:
		return n.errorf("%shook %s: it has no events; name some of: %s", what, h.Name, strings.Join(events, ", "))
	case len(unknown) > 0 && slices.Contains(releaseEvents, unknown[0]):
		return n.errorf("%shook %s: event %s is about one release, so helmfile never runs it here: move the hook to the releases", what, h.Name, unknown[0])
	case len(unknown) > 0:
		return n.errorf("%shook %s: unknown event %s; the events are: %s", what, h.Name, unknown[0], strings.Join(events, ", "))
	}
	return nil
}

// readKubectl reads kubectlApply, which is short for a command of kubectl.
func (h *Hook) readKubectl(what string, n *node) error {
	if _, err := n.mapping(what+"kubectlApply", kubectlKeys); err != nil {
		return err
	}
	var from struct{ Filename, Kustomize string }
	if err := n.decode(what+"kubectlApply", &from); err != nil {
		return err
	}
	h.command, h.args = "kubectl", []string{"apply", "-f", from.Filename}
	switch {
	case (from.Filename == "") == (from.Kustomize == ""):
		return n.errorf("%skubectlApply needs either filename or kustomize", what)
	case from.Kustomize != "":
		h.args = []string{"apply", "-k", from.Kustomize}
	}
	h.Name = cmp.Or(h.Name, "kubectl-apply")
	return nil
}

// FindHook returns the first hook of the file or its releases for which a function returns true, nil if there is none.
func (f *File) FindHook(is func(Hook) bool) *Hook {
	all := slices.Clone(f.Hooks)
	for _, r := range f.Releases {
		all = append(all, r.Hooks...)
	}
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}
