package preflight

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

// Refusal is an error with all conflicts that prevent an operation. Nothing was written, unless it is Late.
type Refusal struct {
	Operation string // its name; "" for a single conflict before the plan
	Late      bool   // the run that it is a part of had begun, and may have written
	// Conflicts has at least one entry; Warnings are the other findings.
	Conflicts, Warnings []plan.Warning
}

// Hidden returns a copy with its text passed through hide.
func (r *Refusal) Hidden(hide func(string) string) error {
	hidden := *r
	hidden.Conflicts = slices.Clone(r.Conflicts)
	hidden.Warnings = slices.Clone(r.Warnings)
	for _, list := range [][]plan.Warning{hidden.Conflicts, hidden.Warnings} {
		for i := range list {
			list[i].Message = hide(list[i].Message)
			list[i].Shared = hide(list[i].Shared)
			list[i].Why = hide(list[i].Why)
		}
	}
	return &hidden
}

// maxNamed limits the objects that a message names.
const maxNamed = 3

// Error returns a line per conflict, or, because it becomes the cause of a run, all in one line if it is Late. More than maxNamed
// objects that share a conflict share a line.
func (r *Refusal) Error() string {
	type conflict struct{ rule, shared string }
	objectsByConflict := map[conflict][]string{}
	for _, w := range r.Conflicts {
		if key := (conflict{w.Rule, w.Shared}); w.Shared != "" && w.Object != nil {
			objectsByConflict[key] = append(objectsByConflict[key], w.Object.String())
		}
	}
	var lines []string
	printed := map[conflict]bool{}
	for _, w := range r.Conflicts {
		key := conflict{w.Rule, w.Shared}
		if names := objectsByConflict[key]; len(names) > maxNamed && w.Object != nil {
			if printed[key] {
				continue
			}
			printed[key] = true
			w.Message = fmt.Sprintf("%d objects %s; for example %s (\""+text.Program+" plan\" lists all)",
				len(names), w.Shared, strings.Join(names[:maxNamed], ", "))
		}
		if w.Rule != "" {
			w.Message += " (" + w.Rule + ")"
		}
		lines = append(lines, w.Message)
	}
	switch {
	case len(lines) == 1:
		return lines[0]
	case r.Late:
		return fmt.Sprintf("%s: %d problems: %s", r.Operation, len(r.Conflicts), strings.Join(lines, "; "))
	}
	return fmt.Sprintf("%s: %d problems; nothing was written:\n  %s", r.Operation, len(r.Conflicts), strings.Join(lines, "\n  "))
}

// refuseLostOrder turns the warnings that lint reports as errors into conflicts, with Common.Strict.
//
// It refuses what lint counts as an error (R37).
func refuseLostOrder(p *session.Prepared) {
	if !p.Common.Strict {
		return
	}
	var warnings []plan.Warning
	for _, w := range p.Warnings {
		if plan.SeverityOf(w.Rule) == plan.SeverityError {
			p.Conflicts = append(slices.Clone(p.Conflicts), w)
		} else {
			warnings = append(warnings, w)
		}
	}
	p.Warnings = warnings
}

func refusal(p *session.Prepared) error {
	return &Refusal{Operation: p.Info.Name, Late: p.Common.Begun(), Conflicts: p.Conflicts, Warnings: p.Warnings}
}

// Refuse returns a *Refusal for an operation whose user may not read the release. It names all
// permissions that the user lacks for the known part of the plan. If there are none, or with SkipPreflight,
// Refuse explains readErr.
func Refuse(s *session.Session, p *session.Prepared, incoming *Incoming, readErr error) error {
	if p.Common.SkipPreflight {
		return ExplainDenied(s.Client, readErr)
	}
	p.Common.PlanOnly = false // without the release there is no plan to show
	if err := checkPermissions(s, p, incoming); err != nil {
		return err
	}
	if len(p.Conflicts) == 0 { // the API server did not review the permissions
		return ExplainDenied(s.Client, readErr)
	}
	return refusal(p)
}

// CheckOwners returns a conflict for each existing object of list that the release may not write to, unless an earlier release of
// the run deletes it. Helm reports only the first conflict.
func CheckOwners(b *manifest.Builder, list helmkube.ResourceList, claims manifest.Claims, earlier *session.Provided) (conflicts []plan.Warning) {
	for f := range distinctFacts(b, list) {
		if f.Late || f.Generated || earlier.Removes(f.Resource.Object, f.Seen()) {
			continue
		}
		if notOwned := (*manifest.NotOwned)(nil); errors.As(claims.Check(b.Scope(), f), &notOwned) {
			o := f.Resource.Object
			conflicts = append(conflicts, plan.Warning{Chart: f.Resource.Chart, Object: &o, Message: notOwned.Error(), Shared: notOwned.Shared(), Why: notOwned.Why(), Foreign: claims.Advice.One != ""})
		}
	}
	return conflicts
}

// distinctFacts returns the fact of each object of list, once if a chart renders the object several times.
func distinctFacts(b *manifest.Builder, list helmkube.ResourceList) iter.Seq[*manifest.Fact] {
	return func(yield func(*manifest.Fact) bool) {
		seen := map[plan.Object]bool{}
		for _, i := range list {
			f := b.Fact(i)
			if f == nil || seen[f.Resource.Object] {
				continue
			}
			seen[f.Resource.Object] = true
			if !yield(f) {
				return
			}
		}
	}
}
