// Package plan turns the objects of a rendered chart into a Plan: the graph of groups. It is pure,
// and the order of the input does not matter. Any package may import it. Its central types are
// Resource and Chart (the input), Plan, Group and Object. Build makes a plan, Lint reports mistakes.
package plan

import (
	"cmp"
	"strings"

	"lockstep/engine/text"
)

// Unsequenced is the name of the group of a chart's objects without a group (R10). No other group
// can have this name.
const Unsequenced = "(unsequenced)"

// Resource is the part of a rendered object that Build reads.
type Resource struct {
	Object Object
	// Chart is the path of the chart that rendered the object, "shop/db", or "" for the root chart (R6).
	Chart string
	// Source is the template of the object. Resources that are otherwise equal are ordered by it.
	Source string
	// Annotations are those of the object. Lists are JSON arrays in a string; the chart loader
	// has converted YAML lists (R1).
	Annotations map[string]string
	// Faults are mistakes in annotations that Build does not read itself.
	Faults []Fault
	// Defines is the group and kind of a CustomResourceDefinition, empty for other objects (R17).
	Defines GroupKind
	// LoadBalancer is set for a Service of that type. It is ready without an address (R22).
	LoadBalancer bool
	// HeldBack says what in its spec keeps the object from getting further: "0 replicas: no pod runs". Then it is ready as far
	// as it is, except for a Job that must complete (R22).
	HeldBack string
	// Unprobed is a container of a workload that runs until it is deleted, and that has neither a readiness nor a startup
	// probe: the workload is ready as soon as it has started (R22c).
	Unprobed string
	// Labels are those of the object as it was rendered.
	Labels map[string]string
	// Wait says how the run waits for the object, see ReadWait.
	Wait Wait
	// WaitFor are the objects outside the release that the group of the object waits for, see ReadWaitFor.
	WaitFor []Object
}

// GroupKind names a kind of object without its version.
type GroupKind struct{ Group, Kind string }

// Chart is a node of the chart tree, with the order that its Chart.yaml declares (R4, R11).
type Chart struct {
	// Path is the chart path, "shop" or "shop/db".
	Path string
	// DependsOn lists the subcharts that the chart's own objects wait for
	// (helm.sh/depends-on/subcharts), by name or alias.
	DependsOn []string
	// DependsOnKey is the key of DependsOn as Chart.yaml spells it, "" for AnnotationSubchartDependsOn.
	DependsOnKey string `json:"-"`
	// Approval is what Chart.yaml asks for before anything of the chart is applied, nil for nothing (R42a).
	Approval *Approval `json:",omitempty"`
	// NoReturn is why nothing may go back once the last groups of the chart have succeeded, "" if it may (R33a).
	NoReturn string `json:",omitempty"`
	// Subcharts are the dependencies in Chart.yaml, including disabled ones (R12), and the
	// other charts in charts/.
	Subcharts []Subchart
	// Inferred are additional annotations of objects in this chart and its subcharts.
	// Only the root chart has them.
	Inferred []Inferred `json:",omitempty"`
	// Upstream lets the own objects of the chart and of its subcharts come after all of their subcharts (R11a).
	// Only the root chart has it.
	Upstream bool `json:",omitempty"`
	// Faults are mistakes in Chart.yaml. They are not part of a release record.
	Faults []Fault `json:"-"`
}

// NewChart returns a chart without an order, with what the annotations of its Chart.yaml ask for.
func NewChart(path string, annotations map[string]string) *Chart {
	c := &Chart{Path: path, NoReturn: ReadNoReturn(annotations)}
	if reason, asked := ReadApprove(annotations); asked {
		c.Approval = &Approval{Of: path, Reason: reason}
	}
	return c
}

// Approvals returns what the chart at a path and its parents ask for, the innermost first.
func (c *Chart) Approvals(path string) (asked []Approval) {
	if c == nil || !Within(path, c.Path) {
		return nil
	}
	for _, s := range c.Subcharts {
		asked = append(asked, s.Chart.Approvals(path)...)
	}
	if c.Approval != nil {
		asked = append(asked, *c.Approval)
	}
	return asked
}

// WithoutOrder returns the chart without what orders it and its subcharts: with what they ask for. Other subcharts are left out.
func (c *Chart) WithoutOrder() *Chart {
	bare := &Chart{Path: c.Path, Approval: c.Approval, NoReturn: c.NoReturn}
	for _, s := range c.Subcharts {
		if s.Chart == nil {
			continue
		}
		if sub := s.Chart.WithoutOrder(); sub.Approval != nil || sub.NoReturn != "" || len(sub.Subcharts) > 0 {
			bare.Subcharts = append(bare.Subcharts, Subchart{Name: s.Name, Alias: s.Alias, Chart: sub})
		}
	}
	return bare
}

// Subchart is a dependency entry of a chart.
type Subchart struct {
	Name, Alias string
	// DependsOn lists the other subcharts that this one waits for, by name or alias.
	DependsOn []string
	// Chart is nil if a condition or a tag disables the subchart, or if it is Skipped.
	Chart *Chart
	// Unlisted is set for a chart in charts/ that Chart.yaml does not list.
	Unlisted bool `json:",omitempty"`
	// Skipped is why Helm does not deploy an enabled subchart: the chart in charts/ has another version.
	Skipped string `json:"-"`
}

// ID returns the alias, or else the name.
func (s *Subchart) ID() string { return cmp.Or(s.Alias, s.Name) }

// Plan is the DAG of groups, in plan order: by layer, then by id.
type Plan struct {
	Groups   []*Group  `json:"groups"`
	Warnings []Warning `json:"warnings"`
}

// Group is a node of the DAG: the objects of one chart with the same group name, the chart's unsequenced
// group, or a hook that AroundSubcharts added. Other hooks and the content of crds/ are groups in other
// phases (see event.Phase).
type Group struct {
	// ID is "<chart path>:<name>".
	ID    string `json:"id"`
	Chart string `json:"chart"`
	Name  string `json:"name"`
	// Layer is the length of the longest path from a root.
	Layer int `json:"layer"`
	// After lists the ids of all groups that this one waits for, sorted.
	After []string `json:"after"`
	// Why has the reasons for inferred dependencies, by id: "Deployment/web waits for Service/db: …".
	Why map[string]string `json:"why,omitempty"`
	// Objects are in the order in which they are applied.
	Objects []Object `json:"objects"`
	// Waves divides Objects into batches that are applied one after the other (R15).
	Waves []Wave `json:"waves,omitempty"`
	// JobsComplete means that Jobs of this group are ready only once they are complete, see Jobs.
	JobsComplete bool `json:"jobsComplete,omitempty"`
	// Waits are the objects for which the run does not wait as usual (R22b).
	Waits []ObjectWait `json:"waits,omitempty"`
	// WaitFor are objects from outside the release: the group starts once they exist and are ready (R22d).
	WaitFor []Object `json:"waitFor,omitempty"`
	// Approve is what must be approved before the group starts (R42a).
	Approve []Approval `json:"approve,omitempty"`
	// ContinueOnError lets groups that do not wait for this one start after it has failed (S5).
	ContinueOnError bool `json:"continueOnError,omitempty"`
	// Step is the program that the group runs instead of applying anything, nil for most (S11a).
	Step *Step `json:"step,omitempty"`
	// NoReturn is why nothing may go back once the group has succeeded, "" if it may (R33a).
	NoReturn string `json:"noReturn,omitempty"`

	layered bool // it is a layer (R18)
}

// Step is a program that a stack runs on the machine of lockstep, or in the cluster, as a separate group (S11a).
type Step struct {
	// Event says when it runs: "presync". Release is the release that it belongs to, "" for the whole stack.
	Event   string `json:"event"`
	Release string `json:"release,omitempty"`
	// Command and Args are the command line, Folder is the working directory.
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Folder  string   `json:"folder"`
	// Image makes the step a Job in the cluster, which Job names: "job/NAME -n NAMESPACE". Command may be "" then: that of the image.
	Image string `json:"image,omitempty"`
	Job   string `json:"job,omitempty"`
	// Pod is what else that Job's pod has, nil for nothing.
	Pod *StepPod `json:"pod,omitempty"`
	// Rerun means that it runs again even if it succeeded before the run was killed.
	Rerun bool `json:"rerun,omitempty"`
	// ShowLogs prints its output without the screen, too.
	ShowLogs bool `json:"showLogs,omitempty"`
	// Digest stands for what the release is to become, or all releases. If a killed run had another one, its success does not count.
	Digest string `json:"digest,omitempty"`
	// At is where it is defined, file:line.
	At string `json:"at"`
}

// StepPod is what the pod of a step has besides the image and the command line.
type StepPod struct {
	// Env are the names of its variables; their values may be secret. Secrets are those whose entries become variables.
	Env     []string `json:"env,omitempty"`
	Secrets []string `json:"secrets,omitempty"`
	// ServiceAccount is its account, "" for none.
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// String returns what the pod has: "variables MODE, LEVEL; Secret db; service account migrator". A nil pod has nothing.
func (p *StepPod) String() string {
	if p == nil {
		return ""
	}
	var parts []string
	for _, named := range []struct {
		noun  string
		names []string
	}{{"variable", p.Env}, {"Secret", p.Secrets}} {
		if len(named.names) > 0 {
			parts = append(parts, text.Named(named.noun, named.names))
		}
	}
	if p.ServiceAccount != "" {
		parts = append(parts, "service account "+p.ServiceAccount)
	}
	return strings.Join(parts, "; ")
}

// PlannedStep is a step with the id of its group.
type PlannedStep struct {
	ID string `json:"id"`
	// NoReturn is that of its group.
	NoReturn string `json:"noReturn,omitempty"`
	Step
}

// Line returns the command line: "./backup.sh 'two words'", "backup in image registry/tool:1".
func (s Step) Line() string {
	parts, words := []string{}, append([]string{s.Command}, s.Args...)
	if s.Image != "" && s.Command == "" {
		words = s.Args
	}
	for _, part := range words {
		if part == "" || strings.ContainsAny(part, " \t\n'\"$`\\|&;<>()*?[]{}#~") {
			part = "'" + strings.ReplaceAll(part, "'", `'\''`) + "'"
		}
		parts = append(parts, part)
	}
	switch {
	case s.Image == "":
	case len(parts) == 0:
		parts = []string{"image", s.Image}
	default:
		parts = append(parts, "in image", s.Image)
	}
	return strings.Join(parts, " ")
}

// Wave is a batch of a group's objects that are applied in parallel.
type Wave struct {
	// Count is the number of objects.
	Count int `json:"count"`
	// Established lists objects of earlier waves (CustomResourceDefinitions)
	// that must be ready before this wave starts (R17).
	Established []Object `json:"established,omitempty"`
}

// Warning is a probable mistake in a chart that can still be deployed, or a problem of the cluster.
type Warning struct {
	// Rule is the number of the rule, "R8", or empty if the warning is about the cluster.
	Rule string `json:"rule"`
	// Chart is the chart path, Object the object that it is about, if there is one.
	Chart   string  `json:"chart,omitempty"`
	Object  *Object `json:"object,omitempty"`
	Message string  `json:"message"`
	// Shared is Message in the plural and without the object, "are owned by release other", if other
	// objects can have the same warning. Text output then has one line for all of them.
	Shared string `json:"-"`
	// Why is Message without Object, "" for the same.
	Why string `json:"-"`
	// Foreign means that Object exists and belongs to another release or to nobody, and can be taken over (--take-ownership).
	Foreign bool `json:"-"`
}

func (w Warning) String() string {
	if w.Rule == "" {
		return w.Message
	}
	return w.Rule + ": " + w.Message
}
