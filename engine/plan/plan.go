// Package plan turns the resources of a rendered chart into a Plan: which groups there
// are and what each waits for. It is pure: the same input, in whatever order,
// gives the same plan. Reading annotations, building the graph and linting are one
// package, a little over 2,000 lines, since they share the planner's unexported
// nodes: lint is the same build with more told.
package plan

// Unsequenced is the name of a chart's batch of resources that belong to no
// group (R10). It cannot clash with a group: group names are plain words.
const Unsequenced = "(unsequenced)"

// Resource is one rendered object as the planner sees it.
type Resource struct {
	Object Object
	// Chart is the chart path the object was rendered from, "shop/db" (R6).
	Chart string
	// Source is the template the object comes from, for messages only.
	Source string
	// Annotations are the object's own. Lists are JSON arrays in a string;
	// the chart loader has turned YAML lists into that form (R1).
	Annotations map[string]string
	// Faults is what is wrong with annotations that Build does not read itself.
	Faults []Fault
	// Defines is the group and kind that a CustomResourceDefinition brings,
	// empty for everything else (R17).
	Defines GroupKind
	// Balanced Services get an address from somebody outside of the cluster, which
	// is not waited for (R22).
	Balanced bool
}

// GroupKind names a kind of object without its version.
type GroupKind struct{ Group, Kind string }

// Chart is one node of the chart tree, with the ordering its Chart.yaml asks
// for (R4, R11).
type Chart struct {
	// Path is the chart path, "shop" or "shop/db".
	Path string
	// DependsOn lists the subcharts that the chart's own resources wait for
	// (helm.sh/depends-on/subcharts), by name or alias.
	DependsOn []string
	// Subcharts are the chart's dependencies: those of Chart.yaml, disabled
	// ones too (R12), and those that merely lie in charts/.
	Subcharts []Subchart
	// Inferred is what was added to the annotations of resources, of this chart and
	// those below; only the chart at the top has it.
	Inferred []Inferred `json:",omitempty"`
	// Faults is what is wrong with Chart.yaml. They are no part of a record.
	Faults []Fault `json:"-"`
}

// Subchart is a dependency entry of a chart.
type Subchart struct {
	Name, Alias string
	// DependsOn lists the siblings this subchart waits for, by name or alias.
	DependsOn []string
	// Chart is nil where a condition or a tag disables the subchart.
	Chart *Chart
}

// Plan is the DAG of groups, in plan order: by layer, then by id. It is the
// same for the same input in whatever order that input came.
type Plan struct {
	Groups   []*Group  `json:"groups"`
	Warnings []Warning `json:"warnings"`
}

// Group is a node of the DAG: the resources of one chart that carry one group
// name, or the chart's unsequenced batch. Hooks and the content of crds/ run
// as groups of one phase each (see Phase).
type Group struct {
	// ID is "<chart path>:<name>".
	ID    string `json:"id"`
	Chart string `json:"chart"`
	Name  string `json:"name"`
	// Layer is the length of the longest path from a root.
	Layer int `json:"layer"`
	// After lists the ids of all groups that this one waits for, sorted.
	After []string `json:"after"`
	// Why says of gates why they are waited for, by their ids, where that was
	// inferred: "Deployment/web waits for Service/db: …".
	Why map[string]string `json:"why,omitempty"`
	// Objects are in the order in which they are applied.
	Objects []Object `json:"objects"`
	// Waves cuts Objects into runs that are applied side by side, one run
	// after the other (R15): the length of each run.
	Waves []Wave `json:"waves,omitempty"`
	// JobsComplete makes a Job of this group ready only once it has completed
	// (R18).
	JobsComplete bool `json:"jobsComplete,omitempty"`
}

// Wave is a run of a group's objects that are applied side by side.
type Wave struct {
	// Count is the number of objects.
	Count int `json:"count"`
	// Established lists objects of earlier waves (CustomResourceDefinitions)
	// that must be ready before this wave starts (R17).
	Established []Object `json:"established,omitempty"`
}

// Warning is something in a chart that is not what its author meant, though
// it can be deployed.
type Warning struct {
	// Rule is the number of the rule it falls under, "R8", empty where it is
	// about the cluster.
	Rule string `json:"rule"`
	// Chart is the chart path, Object the resource, if there is one.
	Chart   string  `json:"chart,omitempty"`
	Object  *Object `json:"object,omitempty"`
	Message string  `json:"message"`
}

func (w Warning) String() string {
	if w.Rule == "" {
		return w.Message
	}
	return w.Rule + ": " + w.Message
}
