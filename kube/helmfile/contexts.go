package helmfile

import (
	"cmp"
	"slices"
)

// ContextName returns the context to which a release is deployed, "" for the current one.
func (r Release) ContextName() string { return cmp.Or(r.Context, r.FallbackContext) }

// WithoutContexts returns a copy of f for a machine where only the current context exists. namespaces are those of the contexts, for releases
// without one. It returns an error if two releases are the same without their contexts.
func (f *File) WithoutContexts(namespaces map[string]string) (*File, error) {
	out := *f
	out.Releases = slices.Clone(f.Releases)
	ids := map[string]string{} // the new ones, by the old ones
	for i := range out.Releases {
		r := &out.Releases[i]
		old := r.ID()
		r.Namespace = cmp.Or(r.Namespace, namespaces[r.ContextName()])
		r.Context, r.FallbackContext = "", ""
		ids[old] = r.ID()
	}
	for i := range out.Releases {
		r := &out.Releases[i]
		r.Needs, r.After = renamed(r.Needs, ids), renamed(r.After, ids)
	}
	return &out, out.checkUnique()
}

func renamed(needs []string, ids map[string]string) (out []string) {
	for _, need := range needs {
		out = append(out, cmp.Or(ids[need], need))
	}
	return out
}
