package helmfile

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// exclusion is why a release takes no part.
type exclusion string

const (
	bySelector    exclusion = "no selector matches it"
	byCondition   exclusion = "its condition is false"
	byEnvironment exclusion = "its file does not define the environment"
)

// resolveNeeds drops needs on releases that take no part, as helmfile does, and warns if they will not be installed. It
// returns an error for a need that no file defines, or that a later file defines. namespace is that of all releases, or "".
func (f *File) resolveNeeds(namespace string) error {
	releases, others := byID(f.Releases), byID(f.Others)
	for i := range f.Releases {
		r := &f.Releases[i]
		var kept []string
		for _, need := range r.Needs {
			target, takesPart := releases[need]
			other, excluded := others[need]
			switch {
			case takesPart && slices.Contains(target.After, r.ID()):
				return fmt.Errorf("%s: release %s needs %s, whose file (%s) comes after its own: name the files under helmfiles in the other order, "+
					"or move one of the releases", r.At, r.ID(), need, target.At)
			case takesPart:
				kept = append(kept, need)
				f.warnNotInstalled(r, target)
			case excluded:
				f.warnNotInstalled(r, other)
			default:
				return f.undefinedNeed(r, need, namespace)
			}
		}
		r.Needs = kept
	}
	return nil
}

// warnNotInstalled warns if an installed release needs one that the run does not install. A release that only no
// selector matches counts as installed.
func (f *File) warnNotInstalled(r *Release, need Release) {
	why := ""
	switch {
	case !need.Installed:
		why = "it has installed: false"
	case need.excluded == byCondition, need.excluded == byEnvironment:
		why = string(need.excluded)
	}
	if why != "" && r.Installed {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: release %s needs %s, which is not installed (%s): install it, or remove it from needs", r.At, r.ID(), need.ID(), why))
	}
}

func (f *File) undefinedNeed(r *Release, need, namespace string) error {
	fix := "correct the name, or write namespace/name"
	if strings.Contains(need, "/") {
		fix = "correct the name or the namespace in needs, or add the release"
	}
	name := path.Base(need)
	for _, other := range slices.Concat(f.Releases, f.Others) {
		if other.Name != name {
			continue
		}
		if namespace != "" {
			return fmt.Errorf("%s: release %s needs %s, but -n moves all releases to namespace %s: drop -n, or write needs: [%s]", r.At, r.ID(), need, namespace, name)
		}
		fix = fmt.Sprintf("%s defines %s", other.At, other.ID())
	}
	return fmt.Errorf("%s: release %s needs %s, which no file defines: %s", r.At, r.ID(), need, fix)
}

func byID(releases []Release) map[string]Release {
	all := make(map[string]Release, len(releases))
	for _, r := range releases {
		all[r.ID()] = r
	}
	return all
}
