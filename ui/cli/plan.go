package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/report"
)

const planLong = `Says what an operation would do, in order, and writes nothing: what would be created, what would be changed and how,
what would stay, what would be deleted, and which hooks would run. "plan NAME CHART" is about upgrade --install.

Changes are found out by the API server, which is asked to apply everything as a dry run. Of what is not there yet
only its own fields are checked, since it may need what comes before it. Values of Secrets are not shown, only which of
them change.

With -o json that is one object: operation (as in "lockstep help events"), changes (phase, group, object, action, diff,
message) and warnings; action is create, change, unchanged, delete, absent, keep, hook or refuse.

Exit codes: 0 nothing to do, 2 an error, or the API server would refuse a change, 4 there are changes. Hooks alone
are none: they run with every operation.`

// planning is what the commands below plan have found out.
type planning struct{ changes, refused int }

// newPlan makes the plan command. Its subcommands are those that it is about,
// with their flags; what is left is that they do not run the operation.
func (a *app) newPlan() *cobra.Command {
	p := &app{settings: a.settings, plan: &planning{}}
	cmd := p.newUpgrade()
	cmd.Use, cmd.GroupID, cmd.Short, cmd.Long = "plan NAME CHART", "release", "say what an operation would do", planLong
	cmd.Example = `lockstep plan shop ./shop -n shop
lockstep plan upgrade shop ./shop --reuse-values --set api.replicas=3
lockstep plan uninstall shop
lockstep plan shop ./shop -o json | jq '.changes[] | select(.action != "unchanged")'`
	_ = cmd.Flags().Set("install", "true") // it is there
	subs := []*cobra.Command{p.newInstall(), p.newUpgrade(), p.newRollback(), p.newUninstall()}
	for _, sub := range subs {
		sub.GroupID, sub.Long, sub.Example = "", planLong, ""
		sub.Short = "say what " + sub.Name() + " would do"
	}
	for _, c := range append(subs, cmd) {
		p.onlyPlan(c)
	}
	cmd.Flags().Lookup("install").Hidden = true
	cmd.AddCommand(subs...)
	return cmd
}

// onlyPlan hides the flags that are about a run, and gives the command the exit
// codes of a plan.
func (a *app) onlyPlan(cmd *cobra.Command) {
	for _, name := range []string{"step", "break-on", "hold-on-failure", "no-tui", "rollback-on-failure", "dry-run", "hide-secret", "hide-notes"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Hidden = true
		}
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return err
		}
		switch {
		case a.plan.refused > 0:
			return fmt.Errorf("the API server would refuse %s", counted(a.plan.refused, "change"))
		case a.plan.changes > 0:
			return &exitError{code: exitChanges}
		}
		return nil
	}
}

// showPlan prints what a job would do.
func (a *app) showPlan(cmd *cobra.Command, j job) error {
	return a.prepared(cmd, j, func(ctx context.Context, op *kube.Operation) error {
		changes, err := op.Changes(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			switch {
			case c.Real():
				a.plan.changes++
			case c.Action == kube.ActionRefuse:
				a.plan.refused++
			}
		}
		v := planView{Operation: op.Info(), Changes: changes, Warnings: op.Warnings()}
		if j.mode == modeJSON {
			return v.json(cmd.OutOrStdout())
		}
		printWarnings(cmd.ErrOrStderr(), v.Warnings)
		return v.text(cmd.OutOrStdout(), streamStyle(os.Stdout, a.settings.ColorMode))
	})
}

// planView is a plan as -o json prints it.
type planView struct {
	Operation event.Operation `json:"operation"`
	Changes   []kube.Change   `json:"changes"`
	Warnings  []plan.Warning  `json:"warnings"`
}

func (v planView) json(w io.Writer) error {
	if v.Changes == nil {
		v.Changes = []kube.Change{}
	}
	if v.Warnings == nil {
		v.Warnings = []plan.Warning{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// planMarks are what stands before an object, and its colour.
var planMarks = map[kube.Action]struct {
	mark string
	role theme.Role
}{
	kube.ActionCreate: {"+", theme.Good}, kube.ActionChange: {"~", theme.Busy}, kube.ActionUnchanged: {"=", theme.Quiet},
	kube.ActionDelete: {"-", theme.Bad}, kube.ActionAbsent: {"=", theme.Quiet}, kube.ActionKeep: {"=", theme.Quiet},
	kube.ActionHook: {">", theme.Accent}, kube.ActionRefuse: {"!", theme.Bad},
}

func (v planView) text(w io.Writer, style report.Style) error {
	var b strings.Builder
	paint := func(r theme.Role, s string) string {
		if !style.Codes {
			return s
		}
		return style.Theme.Render(r, s)
	}
	head := v.Operation.Name + " " + v.Operation.Release
	if v.Operation.Chart != "" {
		head += ": chart " + v.Operation.Chart
	}
	fmt.Fprintf(&b, "%s, namespace %s\n", paint(theme.Strong, head), v.Operation.Namespace)
	var phase, group string
	for _, c := range v.Changes {
		if c.Phase != phase {
			phase, group = c.Phase, ""
			fmt.Fprintf(&b, "\n%s\n", paint(theme.Strong, c.Phase))
		}
		if c.Group != group && c.Action != kube.ActionHook {
			group = c.Group
			fmt.Fprintf(&b, "  %s\n", c.Group)
		}
		m := planMarks[c.Action]
		fmt.Fprintf(&b, "    %s\n", paint(m.role, m.mark+" "+v.line(c)))
		for line := range strings.Lines(c.Diff) {
			line = strings.TrimRight(line, "\n")
			fmt.Fprintf(&b, "        %s\n", paint(diffRole(line), line))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", v.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// line is an object and what would become of it.
func (v planView) line(c kube.Change) string {
	s := c.Object.String()
	if ns := c.Object.Namespace; ns != "" && ns != v.Operation.Namespace {
		s += " (namespace " + ns + ")"
	}
	s += " " + string(c.Action)
	if c.Message != "" {
		s += ": " + c.Message
	}
	return s
}

func diffRole(line string) theme.Role {
	switch line[:min(1, len(line))] {
	case "+":
		return theme.Good
	case "-":
		return theme.Bad
	case "@":
		return theme.Quiet
	}
	return theme.Text
}

// summary counts what would happen.
func (v planView) summary() string {
	n := map[kube.Action]int{}
	for _, c := range v.Changes {
		n[c.Action]++
	}
	s := fmt.Sprintf("%d to create, %d to change, %d to delete, %d to stay", n[kube.ActionCreate], n[kube.ActionChange], n[kube.ActionDelete],
		n[kube.ActionUnchanged]+n[kube.ActionAbsent]+n[kube.ActionKeep])
	if h := n[kube.ActionHook]; h > 0 {
		s += ", " + counted(h, "hook") + " to run"
	}
	if r := n[kube.ActionRefuse]; r > 0 {
		s += fmt.Sprintf(", %d refused", r)
	}
	return s
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
