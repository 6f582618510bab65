package charts

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// PrintOptions are the flags of "helm template" of the same names.
type PrintOptions struct {
	IncludeCRDs, NoHooks, SkipTests bool
	// ShowOnly holds patterns of templates, "templates/x.yaml".
	ShowOnly []string
	// OutputDir is the directory for one file per template, "" to print to the writer.
	OutputDir string
}

// Print writes the rendered documents: crds/, the groups of the plan with a comment line before and
// after each, documents without an object, and hooks. Hooks that run around a subchart are among
// the groups. Unsequenced objects and hooks have no comment lines. If plan is nil, Print writes the
// documents in Helm's order, without comment lines.
//
// Rule R35: in the order of deployment, with lines around each group.
func (r *Rendered) Print(w io.Writer, plan *plan.Plan, o PrintOptions) error {
	p := &printer{only: o.ShowOnly, seen: map[string]bool{}, spaced: plan == nil && len(o.ShowOnly) > 0}
	if o.OutputDir != "" {
		p.files = map[string]*bytes.Buffer{}
	}
	switch {
	case o.IncludeCRDs && (plan == nil || p.files != nil):
		for _, crd := range r.Release.Chart.CRDObjects() {
			p.printDocument(crd.Filename, string(crd.File.Data)+"\n") // as Helm does
		}
	case o.IncludeCRDs:
		for _, d := range r.CRDs {
			p.printDocument(d.Source, d.Raw)
		}
	}
	printed := map[*release.Hook]bool{}
	printHook := func(h *release.Hook) {
		if !printed[h] && !o.NoHooks && (!o.SkipTests || !slices.Contains(h.Events, release.HookTest)) {
			before := p.out.Len()
			text := h.Manifest
			if plan == nil || p.files != nil {
				text += "\n" // as Helm does
			}
			p.printDocument(h.Path, text)
			p.hookLast = p.hookLast || p.out.Len() > before
		}
		printed[h] = true
	}
	if plan == nil {
		manifest := strings.TrimSpace(r.Release.Manifest) // as Helm does
		if p.files != nil {
			manifest = r.Release.Manifest
		}
		for _, text := range documents.Split(manifest) {
			p.printDocument(documents.CutSource(text))
		}
		if p.out.Len() == 0 && p.files == nil && len(p.only) == 0 {
			p.out.WriteByte('\n') // the line end of an empty manifest, as in Helm
		}
	} else {
		p.printGroups(r, plan, printHook)
	}
	for _, h := range r.Release.Hooks {
		printHook(h)
	}
	for _, pattern := range o.ShowOnly {
		if !p.seen[pattern] {
			return fmt.Errorf("chart %s: no document comes from %s; check the name, or set the values that enable it", r.Release.Chart.Name(), pattern)
		}
	}
	if p.files != nil {
		return p.save(w, o.OutputDir)
	}
	out := p.out.Bytes()
	if plan != nil && !p.hookLast && bytes.HasSuffix(out, []byte("\n\n")) {
		out = out[:len(out)-1] // Helm's blank line between documents
	}
	_, err := w.Write(out)
	return err
}

// printGroups prints the groups of a plan, the hooks that run among them, and the documents without
// an object.
func (p *printer) printGroups(r *Rendered, order *plan.Plan, printHook func(*release.Hook)) {
	docs := map[plan.Object][]Document{}
	for i, res := range r.Resources {
		docs[res.Object] = append(docs[res.Object], r.Docs[i])
	}
	for _, g := range order.Groups {
		if i := slices.IndexFunc(r.ScopedHooks, func(h ScopedHook) bool { return h.Group.ID == g.ID }); i >= 0 {
			printHook(r.ScopedHooks[i].Hook)
			continue
		}
		p.printGroup(g, docs)
		p.hookLast = false
	}
	for _, d := range r.Others {
		p.printDocument(d.Source, d.Raw)
		p.hookLast = false
	}
}

type printer struct {
	out  bytes.Buffer
	only []string // PrintOptions.ShowOnly
	// seen are the patterns of only that a template matched.
	seen map[string]bool
	// spaced adds Helm's blank line after each document.
	spaced bool
	// hookLast is set if the last document is a hook.
	hookLast bool
	// files is the output by template, nil to write everything to out.
	files map[string]*bytes.Buffer
}

// printGroup prints the documents of a group. Duplicates come right after the first one, also those of other charts: the last one
// counts (R13).
func (p *printer) printGroup(g *plan.Group, docs map[plan.Object][]Document) {
	before := p.out.Len()
	for _, o := range g.Objects {
		for _, d := range docs[o] {
			p.printDocument(d.Source, d.Raw)
		}
	}
	if p.out.Len() == before || g.Name == plan.Unsequenced {
		return
	}
	body := string(p.out.Bytes()[before:])
	p.out.Truncate(before)
	fmt.Fprintf(&p.out, "## START resource-group: %s %s\n%s## END resource-group: %[1]s %[2]s\n", g.Chart, g.Name, body)
}

// printDocument prints a document if --show-only selects its template.
func (p *printer) printDocument(source, raw string) {
	if !p.selected(source) {
		return
	}
	out := &p.out
	if p.files != nil {
		if p.files[source] == nil {
			p.files[source] = &bytes.Buffer{}
		}
		out = p.files[source]
	}
	raw = RewriteKeys(raw) // so that kubectl can apply it
	fmt.Fprintf(out, "---\n# Source: %s\n%s", source, raw)
	if !strings.HasSuffix(raw, "\n") {
		out.WriteByte('\n')
	}
	if p.spaced {
		out.WriteByte('\n')
	}
}

// save writes the files into dir and prints a line for each, like Helm. The chart controls the
// names of the files, so save uses an os.Root to keep them in dir.
func (p *printer) save(w io.Writer, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		err := root.MkdirAll(path.Dir(name), 0o755)
		if err == nil {
			err = root.WriteFile(name, p.files[name].Bytes(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := fmt.Fprintf(w, "wrote %s\n", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// selected reports whether --show-only selects a template. It records the matching patterns in p.seen.
func (p *printer) selected(source string) bool {
	_, name, _ := strings.Cut(source, "/")
	selected := len(p.only) == 0
	for _, pattern := range p.only {
		if ok, _ := filepath.Match(filepath.ToSlash(pattern), name); ok {
			p.seen[pattern] = true
			selected = true
		}
	}
	return selected
}
