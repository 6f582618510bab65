// Package forms opens the forms of package ui/home/form for commands whose arguments are missing, and looks up what they
// offer: releases, charts, versions, values and revisions. Its central function is Ask. Packages of ui/cli import it.
package forms

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/deploy"
	"lockstep/ui/cli/input"
	"lockstep/ui/home"
	"lockstep/ui/home/form"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
)

// Ask shows the form of a command in a terminal, with the given arguments and flags filled in. It returns the command line
// that the user starts, nil if the user cancelled.
func Ask(a *command.App, cmd *cobra.Command, args []string) ([]string, error) {
	d := a.Display(cmd)
	look, invalid := theme.FromEnv(os.Getenv)
	restore := a.Logs.ToFile(d.Notices)
	defer func() {
		command.WarnIf(d.Notices, invalid)
		restore()
	}()
	o := options(a)
	o.Input = inputOf(a, cmd, args)
	if o.HasFlag("--sandbox") {
		o.Context = "a throwaway cluster"
	}
	return form.Run(cmd.Context(), board.Terminal{}, look, o)
}

// ForHome returns the function that opens the forms of home, for the cluster that the flags of its command select.
func ForHome(cmd *cobra.Command, a *command.App) func(*screen.Screen, home.Request, func([]string) tea.Cmd) keys.Mode {
	o := options(a)
	o.Flags, o.Shown = command.ConnectionArgs(cmd, nil), command.ConnectionArgs(cmd, new(mask.Mask).Argument)
	return func(s *screen.Screen, r home.Request, done func([]string) tea.Cmd) keys.Mode {
		o := o
		o.Operation, o.Name, o.Namespace, o.Done = r.Operation, r.Release, r.Namespace, done
		switch n := strconv.Itoa(r.Revision); {
		case r.Revision == 0:
		case r.Operation == form.Upgrade:
			o.Values = form.RevisionPrefix + n
		default:
			o.Revision = n
		}
		return form.New(cmd.Context(), s, o)
	}
}

// options returns the options of forms, without the input.
func options(a *command.App) form.Options {
	o := form.Options{Source: source{a}, AtQuit: a.Signals.AtQuit, Context: a.Settings.KubeContext}
	if client, err := a.Connect(); err == nil && o.Context == "" {
		o.Context = client.ContextName()
	}
	return o
}

// own are the flags for which forms have fields.
var own = []string{"version", "values", input.BaseFlag, "reuse-values", "namespace"}

// inputOf returns what the user has already given of a command.
func inputOf(a *command.App, cmd *cobra.Command, args []string) form.Input {
	in := form.Input{Operation: cmd.Name(), Namespace: a.Settings.Namespace()}
	if cmd.Name() == form.Install && len(args) == 1 && isChart(args[0]) {
		args = []string{"", args[0]}
	}
	arguments := []*string{&in.Name, &in.Chart}
	if cmd.Name() == form.Rollback {
		arguments[1] = &in.Revision
	}
	for n, arg := range args[:min(len(args), len(arguments))] {
		*arguments[n] = arg
	}
	value := func(name string) string {
		if f := cmd.Flag(name); f != nil && f.Changed {
			return f.Value.String()
		}
		return ""
	}
	in.Version = value("version")
	in.Keep = value("reuse-values") == "true"
	if f := cmd.Flag("values"); f != nil {
		files, _ := cmd.Flags().GetStringSlice("values") // the flag is one
		if n := value(input.BaseFlag); n != "" {
			files = append([]string{form.RevisionPrefix + n}, files...)
		}
		in.Values = strings.Join(files, ",")
	}
	other := func(words *[]string) func(string, []string) {
		return func(name string, flag []string) {
			if !slices.Contains(own, name) {
				*words = append(*words, flag...)
			}
		}
	}
	command.VisitFlagWords(cmd, other(&in.Flags))
	command.VisitSetFlags(cmd, other(&in.Shown), new(mask.Mask))
	return in
}

// isChart reports whether an argument is the path of a chart.
func isChart(arg string) bool {
	return strings.HasSuffix(arg, ".tgz") || input.Exists(filepath.Join(arg, "Chart.yaml"))
}

// source implements form.Source.
type source struct{ *command.App }

func (s source) Suggest(ctx context.Context, in form.Input, f form.Field) ([]form.Suggestion, error) {
	return command.Cancelable(ctx, func(ctx context.Context) ([]form.Suggestion, error) {
		list, err := s.suggest(ctx, in, f)
		return list, new(mask.Mask).Error(err)
	})
}

func (s source) Plan(ctx context.Context, args []string) (form.Plan, error) {
	p, err := deploy.PlanOf(ctx, s.Logs, args)
	if err != nil {
		var out form.Plan
		if refusal, ok := errors.AsType[*kube.Refusal](err); ok {
			out.Lines, out.Foreign = warningLines(refusal.Warnings), foreign(refusal.Conflicts)
		}
		return out, new(mask.Mask).Error(err)
	}
	if p == nil {
		return form.Plan{Lines: []form.Line{{Role: theme.Strong, Text: "There is nothing to do."}}}, nil
	}
	return planned(p), nil
}

// withData are kinds whose objects hold data, or that delete others with data. Replacing one asks for the release's name.
var withData = []string{"StatefulSet", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition", "Namespace"}

// planned returns a plan as the form shows it.
func planned(p *report.Plan) form.Plan {
	refused, _ := p.Count()
	out := form.Plan{Lines: planLines(p), Refused: refused > 0 || len(p.Errors) > 0}
	out.Unordered = p.Operation.Name == "install" && slices.ContainsFunc(p.Phases, func(p event.Phase) bool { return p.Kind == event.PhaseApply && plan.Unordered(p.Groups) })
	out.Foreign = foreign(p.Errors)
	for _, t := range p.Tallies() {
		out.Counts = append(out.Counts, form.Count(t))
	}
	for _, c := range p.Changes {
		out.Conflicts = out.Conflicts || c.Conflict
		switch {
		case c.Action == inspect.Delete:
			out.Deletes = append(out.Deletes, c.Object.String())
		case c.Action == inspect.Replace && slices.Contains(withData, c.Object.Kind):
			out.Deletes = append(out.Deletes, c.Object.String()+" (and creates it again)")
		}
	}
	return out
}

// foreign names the objects of others because of which an operation is refused.
func foreign(errors []plan.Warning) (names []string) {
	for _, w := range errors {
		if w.Foreign && w.Object != nil {
			names = append(names, w.Object.String())
		}
	}
	return names
}

// SavePlan saves the plan in the current directory.
func (s source) SavePlan(ctx context.Context, in form.Input) (path string, err error) {
	path = in.Name + ".plan"
	for n := 2; input.Exists(path); n++ {
		path = fmt.Sprintf("%s-%d.plan", in.Name, n)
	}
	return path, new(mask.Mask).Error(deploy.SavePlanOf(ctx, s.Logs, in.Args(), path))
}

// maxWarnings is how many warnings stand above the plan; the others follow it.
const maxWarnings = 3

// planLines returns the lines of a plan: first why lockstep would refuse it, once for all objects with the same reason, then the
// warnings.
func planLines(p *report.Plan) (lines []form.Line) {
	type reason struct{ rule, shared string }
	same, listed := map[reason]int{}, map[reason]bool{}
	for _, w := range p.Errors {
		same[reason{w.Rule, w.Shared}]++
	}
	for _, w := range p.Errors {
		why := reason{w.Rule, w.Shared}
		if n := same[why]; w.Shared != "" && n > 1 {
			w.Message = fmt.Sprintf("%d objects %s", n, w.Shared)
			if listed[why] {
				continue
			}
			listed[why] = true
		}
		lines = append(lines, form.Line{Role: theme.Bad, Text: "error: " + w.Message})
	}
	warnings := warningLines(p.Warnings)
	first := warnings[:min(len(warnings), maxWarnings)]
	lines = append(lines, first...)
	later := warnings[len(first):]
	if len(later) > 0 {
		lines = append(lines, form.Line{Role: theme.Stopped, Text: text.Count(len(later), "more warning") + " below the plan"})
	}
	changing, unchanged := withoutUnchanged(p)
	for _, l := range withoutReasons(changing, p.Errors).Lines() {
		lines = append(lines, form.Line{Indent: l.Indent, Role: l.Role, Text: l.Text + l.Detail})
	}
	if len(unchanged) > 0 {
		lines = append(lines, form.Line{}, form.Line{Role: theme.Strong, Text: "unchanged"}, form.Line{Indent: 2, Role: theme.Quiet, Text: strings.Join(unchanged, ", ")})
	}
	if len(later) > 0 {
		lines = append(lines, form.Line{}, form.Line{Role: theme.Strong, Text: "more warnings"})
		lines = append(lines, later...)
	}
	return lines
}

// withoutReasons returns a plan without the reasons of refused changes that the errors above it say.
func withoutReasons(p report.Plan, said []plan.Warning) report.Plan {
	p.Changes = slices.Clone(p.Changes)
	for n := range p.Changes {
		c := &p.Changes[n]
		if c.Action == inspect.Refuse && slices.ContainsFunc(said, func(w plan.Warning) bool { return w.Object != nil && *w.Object == c.Object }) {
			c.Message = ""
		}
	}
	return p
}

// withoutUnchanged returns a plan without the objects that stay as they are, and their names, so that a change is not below
// pages of them. It leaves out none of a plan that changes nothing, nor of a group that stops the run or that nothing can undo.
func withoutUnchanged(p *report.Plan) (changing report.Plan, unchanged []string) {
	changing = *p
	if refused, changed := p.Count(); refused+changed == 0 {
		return changing, nil
	}
	state := event.State{}
	state.Apply(event.Event{Kind: event.KindPlan, Phases: p.Phases})
	changing.Changes = nil
	for _, c := range p.Changes {
		g := state.Find(c.Phase, c.Group)
		if c.Action != inspect.Unchanged || c.Message != "" || g != nil && (g.NoReturn != "" || len(g.Approve) > 0) {
			changing.Changes = append(changing.Changes, c)
			continue
		}
		unchanged = append(unchanged, c.Object.String())
	}
	return changing, unchanged
}

func warningLines(warnings []plan.Warning) (lines []form.Line) {
	for _, w := range warnings {
		lines = append(lines, form.Line{Role: theme.Stopped, Text: "warning: " + format.Warning(w.Rule, nil, w.Message)})
	}
	return lines
}
