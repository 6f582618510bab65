// Package plans reads, writes and shows the files of saved plans (R55). ui/cli/deploy imports it.
package plans

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube/planfile"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
	"lockstep/ui/report/reportfile"
)

// Read reads the file of a plan.
func Read(path string) (*planfile.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	f, err := planfile.Read(text)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", path, err)
	}
	return f, nil
}

// Write writes the file of a plan, which only its owner may read.
func Write(path string, f *planfile.File) error {
	text, err := f.Encode()
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return nil
}

// CheckStable returns an error if two plans of the same releases differ: most likely their templates render something else each
// time.
func CheckStable(f *planfile.File, again []planfile.Release) error {
	var unstable, moved []string
	for _, second := range again {
		first := f.Release(second.Scope)
		if first == nil {
			moved = append(moved, "release "+second.Scope+" is new")
			continue
		}
		templates := map[plan.Object]string{}
		for _, o := range first.Objects {
			templates[o.Object] = o.Template
		}
		for _, m := range first.Compare(second, false) {
			line := phrase.Moved(m)
			if m.What != inspect.MovedSent {
				moved = append(moved, line)
				continue
			}
			if template := templates[*m.Object]; template != "" {
				line += " each time, by " + template
				line += format.WithPrefix(", which uses ", strings.Join(first.Unstable[template], ", "))
			}
			unstable = append(unstable, line)
		}
	}
	switch {
	case len(unstable) > 0:
		return fmt.Errorf("the plan was not saved, because the run would send something else:\n  %s\n"+
			"  set these values with --set or -f, or let the template look up the existing object", strings.Join(unstable, "\n  "))
	case len(moved) > 0:
		return fmt.Errorf("the plan was not saved, because the cluster changed meanwhile; plan again:\n  %s", strings.Join(moved, "\n  "))
	}
	return nil
}

// Clocks returns a warning for each template that uses the time: it renders the same now, but may not later.
func Clocks(f *planfile.File) (warnings []plan.Warning) {
	for _, r := range f.Releases {
		for _, template := range slices.Sorted(maps.Keys(r.Unstable)) {
			if slices.Contains(r.Unstable[template], "now") {
				warnings = append(warnings, plan.Warning{Rule: "R55", Message: template +
					" uses now: if it renders something else later, --plan refuses this plan; set the value with --set or -f"})
			}
		}
	}
	return warnings
}

// View returns the plan of a release in a file, as plan prints it.
func View(f *planfile.File, r planfile.Release) *report.Plan {
	p := &report.Plan{Operation: r.Operation, Warnings: r.Warnings, Phases: r.Phases, Saved: &report.Saved{
		By: f.By, At: f.At, Cluster: cmp.Or(r.Cluster.UID, r.Cluster.Address), Revision: r.Last, Options: r.Options, Images: r.Images,
	}}
	for _, o := range r.Objects {
		p.Changes = append(p.Changes, o.Change)
	}
	return p
}

// viewStack returns the plan of a stack.
func viewStack(f *planfile.File) (out report.StackPlan) {
	out.Stack = f.Stack
	for _, h := range f.Hooks {
		out.Hooks = append(out.Hooks, h.PlannedStep)
	}
	for _, r := range f.Releases {
		release := report.ReleasePlan{Release: r.Scope, Needs: r.Needs, Unchanged: r.Unchanged, Pruned: r.Pruned}
		if !r.Unchanged {
			release.Plan = View(f, r)
		}
		out.Releases = append(out.Releases, release)
	}
	return out
}

// markdown returns a file as Markdown.
func markdown(f *planfile.File) string {
	var parts []string
	for _, r := range f.Releases {
		p := View(f, r)
		m := reportfile.Plan{Title: "plan: " + r.Operation.Title(), Summary: p.Summary(), Changes: p.Changes, Notes: p.Saved.Lines()}
		if r.Operation.Chart != "" {
			m.Title += ", chart " + r.Operation.Chart
		}
		m.Title += ", namespace " + r.Operation.Namespace
		for _, w := range r.Warnings {
			m.Warnings = append(m.Warnings, reportfile.Warning{Rule: w.Rule, Object: w.Object, Message: w.Message})
		}
		parts = append(parts, m.Markdown())
	}
	if len(f.Hooks) > 0 {
		lines := []string{"Hooks, which run programs on the machine of the run:", ""}
		for _, h := range f.Hooks {
			line := "- `" + h.ID + "`: `" + h.Line() + "`" + format.WithPrefix("; ", h.Pod.String())
			if h.NoReturn != "" {
				line += "; " + phrase.NoReturnAfter(h.ID, h.NoReturn)
			}
			lines = append(lines, line)
		}
		parts = append(parts, strings.Join(lines, "\n")+"\n")
	}
	return strings.Join(parts, "\n")
}

const showLong = `Print a saved plan as "lockstep plan" printed it, with who saved it and when. -o markdown prints it for the description of
a pull request, and -o json as "lockstep plan -o json", with the object "saved". No cluster is needed.

"lockstep help plans" says what a saved plan contains, and what is compared before it is run.`

// NewShow returns the command plan show.
func NewShow(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show FILE", Short: "print a saved plan", Long: showLong,
		Example: `lockstep plan show shop.plan
lockstep plan show shop.plan -o markdown | gh pr comment 7 -F -`,
		Args: command.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := Read(args[0])
			switch d := a.Display(cmd); {
			case err != nil:
				return err
			case cmd.Flag("output").Value.String() == "markdown":
				return d.Lines(strings.Split(strings.TrimRight(markdown(f), "\n"), "\n")...)
			case f.Stack != "":
				return d.Show(viewStack(f))
			case len(f.Releases) != 1:
				return fmt.Errorf("plan %s has no release", args[0])
			default:
				return d.Show(*View(f, f.Releases[0]))
			}
		},
	}
	command.AddOutput(cmd, "text", "json", "markdown")
	return cmd
}

// Check returns an error if a plan is of a stack but a single release is deployed, or the other way round.
func Check(path string, f *planfile.File, stack bool) error {
	switch isStack := f.Stack != ""; {
	case isStack && !stack:
		return fmt.Errorf("plan %s is of stack %s: run it with up", path, f.Stack)
	case !isStack && stack:
		return fmt.Errorf("plan %s is of one release, not of a helmfile", path)
	}
	return nil
}
